"""Little's law, solved: crowds and what comes in a round, each from the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.perf.balance import agreed


@given(st.floats(1e-6, 1e3), st.floats(0.0, 1e4), st.floats(0.1, 8.0))
def test_what_comes_of_the_value_found_is_that_value(most: float, steep: float, power: float) -> None:
    """However steeply it falls: taking each from the other in turn would swing for ever."""
    tried = []

    def falling(value: float) -> tuple[float, float]:
        tried.append(value)
        return most / (1.0 + steep * (value / most) ** power), value

    found = agreed(falling, most)
    assert abs(falling(found)[0] - found) <= 0.01 * found
    assert len(tried) < 25


def test_a_value_that_nothing_changes_is_tried_once() -> None:
    tried = []

    def same(value: float) -> tuple[float, str]:
        tried.append(value)
        return 3.0, "found"

    assert agreed(same, 3.0) == "found"
    assert tried == [3.0]
