"""Another interpreter answers one question after the other, may fail in any way, and is not asked twice."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.aic.asking import Interpreter, Memory, NotInstalledError, said
from bench.aic.questions import Question
from tests.bench.peer_rows import VERSION, interpreter_in, times_asked

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT_SECONDS = 30.0
CUT_OFF = '{"origin": "here", "quest'


def question(tokens: int = 1000, users: int = 16) -> Question:
    return Question("estimate", (("isl", tokens), ("batch_size", users)))


@pytest.fixture
def interpreter(tmp_path: Path) -> Iterator[Interpreter]:
    with Interpreter(interpreter_in(tmp_path)) as started:
        yield started


def test_it_says_its_version_and_answers_in_milliseconds(interpreter: Interpreter) -> None:
    """What the program prints beside its answers is not taken for one."""
    assert VERSION == interpreter.version
    answer = interpreter.ask(question(), LIMIT_SECONDS)
    assert (90.0, 8.0, False) == (answer["ttft_ms"], answer["tpot_ms"], answer["overfull"])
    assert 0 <= answer["seconds"] < LIMIT_SECONDS


def test_what_it_raises_is_its_answer(interpreter: Interpreter) -> None:
    assert "RuntimeError: OOM: /a/path/of/the/machine" == interpreter.ask(question(13), LIMIT_SECONDS)["refused"]


@pytest.mark.parametrize(
    ("tokens", "limit_seconds", "why"),
    [(14, LIMIT_SECONDS, "the process ended"), (15, 0.2, "no answer within 0.2 seconds")],
)
def test_after_a_question_that_it_does_not_survive_the_next_one_has_an_answer(
    interpreter: Interpreter, tokens: int, limit_seconds: float, why: str
) -> None:
    memory = Memory(None, "here")
    assert {"refused": f"SilentError: {why}"} == said(interpreter, memory, question(tokens), limit_seconds)
    assert memory.get(question(tokens)) is None, "a busy machine is not the question's fault"
    assert 90.0 == said(interpreter, memory, question(), LIMIT_SECONDS)["ttft_ms"]


def test_an_interpreter_without_it_is_refused_at_once() -> None:
    with pytest.raises(NotInstalledError, match="does not run aiconfigurator"):
        Interpreter(Path(sys.executable))


def test_a_program_that_does_not_exist_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(NotInstalledError, match="No such file"):
        Interpreter(tmp_path / "python")


def test_what_was_said_is_not_asked_again_by_the_next_run(tmp_path: Path, interpreter: Interpreter) -> None:
    """A line that was cut off when a run was interrupted costs one answer, its own."""
    file = tmp_path / "answers.jsonl"
    first = said(interpreter, Memory(file, "here"), question(), LIMIT_SECONDS)
    file.write_text(file.read_text() + CUT_OFF)
    memory = Memory(file, "here")
    assert first == said(interpreter, memory, question(), LIMIT_SECONDS)
    said(interpreter, memory, question(users=32), LIMIT_SECONDS)
    assert 16.0 == said(interpreter, Memory(file, "here"), question(users=32), LIMIT_SECONDS)["tpot_ms"]
    assert 2 == times_asked(tmp_path)


def test_answers_of_another_version_or_machine_do_not_count(tmp_path: Path, interpreter: Interpreter) -> None:
    file = tmp_path / "answers.jsonl"
    said(interpreter, Memory(file, "0.1 on a laptop"), question(), LIMIT_SECONDS)
    assert Memory(file, "0.1 on a laptop").get(question()) is not None
    assert Memory(file, "0.2 on a laptop").get(question()) is None


def test_the_same_question_has_the_same_text_in_any_order() -> None:
    turned = Question("estimate", tuple(reversed(question().arguments)))
    assert question().text == turned.text
    assert {"call": "estimate", "arguments": {"isl": 1000, "batch_size": 16}} == json.loads(question().text)
