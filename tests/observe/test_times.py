"""Times as others write them."""

from __future__ import annotations

import pytest

from weft.observe.times import epoch_seconds


def test_a_time_of_any_zone_is_one_moment() -> None:
    assert epoch_seconds("2026-07-01T10:00:00+02:00") == epoch_seconds("2026-07-01T08:00:00Z") == 1_782_892_800.0


@pytest.mark.parametrize(
    "text",
    [None, "", "soon", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "2026-02-30T00:00:00Z"],
)
def test_what_could_not_be_written_again_is_no_time(text: str | None) -> None:
    """When a pod left its front is an annotation, which anybody may edit and Weft writes once more."""
    assert epoch_seconds(text) is None


@pytest.mark.parametrize("text", ["2026-08-01T10:00:00", "2026-08-01", "2026-W31-6", "yesterday", ""])
def test_a_time_that_names_no_zone_is_none(text: str) -> None:
    """Kubernetes always names one; anybody may edit an annotation, and ours is not the zone that was meant."""
    assert epoch_seconds(text) is None
