"""Which of an engine's series are looked at."""

from __future__ import annotations

from dataclasses import fields

import pytest

from weft.domain.shape import EngineName
from weft.engines import EngineSeries, series_for

NO_NAMES = {
    "tells_when_idle",
    "settles_when_idle",
    "transfer_unit_seconds",
    "born_late",
    "port",
    "path",
    "needs",
    "other_names",
}


def test_every_series_that_a_table_names_is_read() -> None:
    """A name that nobody reads is one more to get wrong for every version of every engine."""
    names = [each.name for each in fields(EngineSeries) if each.name not in NO_NAMES]
    series = EngineSeries(**{name: (name,) if name == "waiting_for_kv" else name for name in names})  # type: ignore[arg-type]
    assert set(series.names) == set(names)


@pytest.mark.parametrize("engine", list(EngineName))
def test_names_of_other_versions_stand_for_series_that_there_are(engine: EngineName) -> None:
    series = series_for(engine, "1.0.0")
    assert {field for field, _ in series.other_names} <= {each.name for each in fields(EngineSeries)} - NO_NAMES
    assert {name for _, name in series.other_names} <= set(series.names)
