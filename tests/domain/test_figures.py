"""Figures in sentences: one of a thing is told in the singular, as it is read."""

from __future__ import annotations

import pytest

from weft.domain.texts.figures import agreeing, counted, request_rate, some_of


@pytest.mark.parametrize(
    ("rate", "told"),
    [
        (1.0, "1 request/s"),
        (1.0004, "1 request/s"),
        (1.01, "1.01 requests/s"),
        (0.5, "0.5 requests/s"),
        (0.0, "0 requests/s"),
        (24.94, "24.9 requests/s"),
    ],
)
def test_a_rate_is_plural_unless_it_reads_as_one(rate: float, told: str) -> None:
    assert told == request_rate(rate)


@pytest.mark.parametrize(("count", "told"), [(0, "0 GPUs"), (1, "1 GPU"), (2, "2 GPUs")])
def test_one_gpu_is_one(count: int, told: str) -> None:
    assert told == counted(count, "GPU")


@pytest.mark.parametrize(
    ("names", "told"), [("", ""), ("a", "a"), ("ab", "a, b"), ("abc", "a, b and 1 more"), ("abcd", "a, b and 2 more")]
)
def test_of_many_names_a_few_are_told_and_how_many_more_there_are(names: str, told: str) -> None:
    assert told == some_of(list(names), 2)


@pytest.mark.parametrize(("count", "told"), [(0, "are"), (1, "is"), (2, "are")])
def test_one_is_and_several_are(count: int, told: str) -> None:
    assert told == agreeing(count, "is", "are")
