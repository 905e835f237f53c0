"""Last words that an engine, or what runs in its place, made to be slow to read hold up no decision."""

from __future__ import annotations

import time

import pytest

from weft.domain.shape import EngineName
from weft.engines import adapter_for
from weft.observe.api_server.pod_logs import TAIL_BYTES

LENGTH = 4 * TAIL_BYTES
PIECES = ("1", "1 ", "(", "(a ", "[a] ", "a.", "A", "NCCL WARN ", "x.error: ", " b", "\n", "ValueError: 1\n")


@pytest.mark.parametrize("engine", EngineName)
@pytest.mark.parametrize("beginning", ["", "ValueError: ", "(EngineCore pid=1) ", "[2026-11-29 00:00:00] "])
def test_reading_the_end_of_a_log_takes_hardly_any_time(engine: EngineName, beginning: str) -> None:
    """A row of digits took one to three seconds, for each failed pod in each pass, and 16 times that for four times."""
    for piece in PIECES:
        text = (beginning + piece * LENGTH)[:LENGTH]
        began = time.thread_time()
        adapter_for(engine).failure(text)
        assert time.thread_time() - began < 2.0, piece
