"""How many routers stand before each generation of a split while two of them serve."""

from __future__ import annotations

import pytest

from weft.converge.generations import Generation, fronts_wanted


@pytest.mark.parametrize(
    ("serving", "usual", "routers"),
    [
        ((1, 1), 2, (2, 2)),
        ((1, 2), 2, (1, 2)),
        ((2, 1), 1, (2, 1)),
        ((3, 1), 2, (3, 1)),
        ((1, 3), 1, (1, 3)),
        ((4, 1), 2, (3, 1)),
        ((9, 1), 2, (4, 1)),
        ((3, 3), 6, (6, 6)),
    ],
)
def test_routers_are_in_proportion_to_what_serves_and_no_more_than_tell_it(
    serving: tuple[int, int], usual: int, routers: tuple[int, int]
) -> None:
    """Each router that stood for a moment drains for as long as any, and keeps its generation for that time."""
    new, old = (Generation(pair, (n, n), (n, n)) for pair, n in zip("no", serving, strict=True))
    assert fronts_wanted((new, old), usual, taken_over=True) == dict(zip("no", routers, strict=True))
