"""Which of an engine's series are looked at."""

from __future__ import annotations

from dataclasses import fields

from weft.engines.series import EngineSeries
from weft.observe.observation import wanted_names


def test_every_series_that_an_adapter_names_is_read() -> None:
    """A name that nobody reads is one more to get wrong for every version of every engine."""
    names = [each.name for each in fields(EngineSeries)]
    with_both = EngineSeries(**{name: name for name in names})
    without_tpot = EngineSeries(**{**{name: name for name in names}, "tpot": None})  # type: ignore[arg-type]
    assert {*wanted_names(with_both), *wanted_names(without_tpot)} == set(names)
