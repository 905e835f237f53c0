"""What people write and what a status shows are the same numbers on the way in and on the way out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.api.figures import figure, milliseconds, read_milliseconds
from weft.domain.errors import Invalid
from weft.domain.texts.units import GIB, MIB, duration, parse_duration_seconds, parse_quantity

WHOLE = st.integers(0, 99_999)


@given(WHOLE, WHOLE, WHOLE, WHOLE)
def test_a_duration_is_the_sum_of_its_parts(hours: int, minutes: int, seconds: int, fraction: int) -> None:
    total = 3600 * hours + 60 * minutes + seconds + fraction / 1000
    text = f"{hours}h{minutes}m{seconds}s{fraction}ms"
    if total == 0:
        with pytest.raises(Invalid, match="longer than zero"):
            parse_duration_seconds(text)
    else:
        assert total == pytest.approx(parse_duration_seconds(text), rel=1e-12)


@given(st.integers(1, 99_999))
def test_a_time_of_a_status_is_a_duration_that_a_spec_takes(count: int) -> None:
    """Milliseconds that are whole read back through both doors as the same seconds."""
    shown = milliseconds(count / 1000)
    assert f"{count}ms" == shown
    assert parse_duration_seconds(shown) == pytest.approx(read_milliseconds(shown), rel=1e-12)


@given(st.floats(1e-6, 1e14, allow_nan=False))
def test_a_figure_of_a_status_is_a_quantity_of_the_same_number(value: float) -> None:
    assert value == parse_quantity(figure(value))


@given(st.integers(0, 1_000_000))
def test_a_quantity_is_the_same_in_any_unit(count: int) -> None:
    assert count * GIB == parse_quantity(f"{count}Gi") == parse_quantity(f"{count * 1024}Mi")
    assert count * MIB == parse_quantity(f"{count}Mi") == parse_quantity(count * MIB)
    assert count / 1000 == pytest.approx(parse_quantity(f"{count}m"), rel=1e-12)
    assert 1e9 * count == parse_quantity(f"{count}G") == parse_quantity(f"{count}e9")


@pytest.mark.parametrize("milliseconds", [1, 4230, 30_000, 99_999, 100_001, 100_000_000, 123_456_789, 359_996_400_000])
def test_a_duration_that_is_told_is_read_as_the_same(milliseconds: int) -> None:
    """No unit has more digits than GEP-2257 allows."""
    assert milliseconds == round(1000 * parse_duration_seconds(duration(milliseconds)))


def test_a_duration_that_cannot_be_told_is_the_closest_that_can() -> None:
    assert ("1ms", "5ms", "99999h") == (duration(0.2), duration(4.23), duration(float("inf")))
