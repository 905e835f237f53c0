"""What an operator is told at its start either makes sense or is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from weft.apply.token_bucket import BURST_WRITES, WRITES_PER_SECOND
from weft.control import RunOptions
from weft.domain.errors import Invalid


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tick_seconds": 0.0}, "tick_seconds must be above zero"),
        ({"workers": 0}, "workers must be above zero"),
        ({"writers": 0}, "writers must be above zero"),
        ({"writes_per_second": 0.0}, "writes_per_second must be above zero"),
        ({"burst_writes": 0.5}, "burst_writes must be at least 1"),
        ({"relaxations": ("HostNetwork",)}, "relaxations HostNetwork: allowed are IPCLock, RunAsRoot, WritableRoot"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_what_would_stop_the_operator_is_refused(wrong: dict[str, Any], words: str) -> None:
    """A limit under one write would let nothing out, ever."""
    with pytest.raises(Invalid, match=words):
        RunOptions(**wrong)


def test_without_a_word_writes_are_limited_as_the_bucket_says() -> None:
    usual = RunOptions()
    assert (WRITES_PER_SECOND, BURST_WRITES) == (usual.writes_per_second, usual.burst_writes)
