"""Answers are given again to the same question only, and a change of some fields is a change of these alone."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from weft.domain.pool_memory import LoadSample, ScaleMemory
from weft.domain.status import PoolStatus
from weft.domain.values.changed import changed
from weft.domain.values.remembered import LastAnswers


def test_only_another_question_is_worked_out() -> None:
    """An equal question has the answer that is known; the one before the last is worked out once more."""
    asked: list[str] = []
    answers: LastAnswers[str, str] = LastAnswers(4)

    def work_out(question: str) -> str:
        asked.append(question)
        return question.upper()

    told = [answers.ask("thing", question, work_out) for question in ("a", "a", "b", "a", "a")]
    assert ["A", "A", "B", "A", "A"] == told
    assert ["a", "b", "a"] == asked


def test_things_do_not_answer_for_each_other() -> None:
    """The name is part of the question."""
    answers: LastAnswers[str, str] = LastAnswers(4)
    questions = {"first": "a", "second": "b"}
    told = [answers.ask(name, questions[name], str.upper) for name in ("first", "second", "first")]
    assert ["A", "B", "A"] == told
    assert "B" == answers.last("second")


def test_memory_is_bounded() -> None:
    """As many things as allowed are known at once, and never more."""
    answers: LastAnswers[int, int] = LastAnswers(3)
    for name in range(10):
        answers.ask(name, 0, lambda question: question)
        assert 3 >= sum(answers.last(each) is not None for each in range(10))
        assert 0 == answers.last(name)


def test_a_failure_is_no_answer() -> None:
    """What raised is asked again, and the answer before it stays."""
    answers: LastAnswers[int, float] = LastAnswers(3)
    answers.ask("thing", 2, lambda question: 1.0 / question)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            answers.ask("thing", 0, lambda question: 1.0 / question)
    assert 0.5 == answers.last("thing")
    assert answers.last("another") is None


@pytest.mark.parametrize("kind", [ScaleMemory, PoolStatus, LoadSample], ids=lambda kind: kind.__name__)
def test_a_changed_value_is_what_replace_makes(kind: type) -> None:
    """Field by field, and with none at all; the value itself stays as it is."""
    names = [each.name for each in fields(kind)]
    value = kind(*names)
    assert value == changed(value)
    for name in names:
        assert replace(value, **{name: "new"}) == changed(value, **{name: "new"})
    assert kind(*names) == value


def test_a_field_that_is_not_there_is_refused() -> None:
    """A misspelt name is no silent nothing."""
    with pytest.raises(KeyError):
        changed(PoolStatus(), desired=3)
