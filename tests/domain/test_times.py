"""Times as others write them, and as we do."""

from __future__ import annotations

import pytest

from weft.domain.texts.times import instant, known_instant, read_far_instant, read_instant

_UNNAMED = ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"]


def test_a_time_of_any_zone_is_one_moment() -> None:
    assert read_instant("2026-07-01T10:00:00+02:00") == read_instant("2026-07-01T08:00:00Z") == 1_782_892_800.0


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59.5Z", "9999-12-31T23:59:59.5Z"])
def test_a_moment_with_a_name_is_written_as_it_was_read(text: str) -> None:
    assert instant(read_instant(text)) == text


@pytest.mark.parametrize("text", [None, "", "soon", 7, "2026-02-30T00:00:00Z", *_UNNAMED])
def test_what_could_not_be_written_again_is_no_time(text: object) -> None:
    """When a pod left its front is an annotation, which anybody may edit and Weft writes once more."""
    assert known_instant(text) is None


@pytest.mark.parametrize("text", ["2026-08-01T10:00:00", "2026-08-01T10:00:00.5", "2026-08-01", "2026-W31-6"])
def test_a_time_that_names_no_zone_is_none(text: str) -> None:
    """Kubernetes always names one; anybody may edit an annotation, and ours is not the zone that was meant."""
    assert known_instant(text) is None
    with pytest.raises(ValueError, match="does not say in which zone"):
        read_far_instant(text)


@pytest.mark.parametrize("text", _UNNAMED)
def test_a_year_without_a_name_is_a_moment_all_the_same(text: str) -> None:
    """A freeze for ever, written west of Greenwich, is one."""
    assert abs(read_far_instant(text) - read_far_instant(text[:19] + "Z")) in {12 * 3600.0, 14 * 3600.0}
