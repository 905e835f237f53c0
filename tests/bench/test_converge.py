"""The benchmark of converging: a pool is built whole, and one that stands is left alone."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from bench.converge import measured, results

if TYPE_CHECKING:
    from bench.converge import Row


@cache
def small() -> Row:
    """What these tests look at, measured once, and only where they run: every worker reads this file."""
    return measured(9)


def test_a_pool_is_built_in_as_many_writes_as_it_needs() -> None:
    """Each pod is created once, each replica released once, and beside them there are objects and the status."""
    assert (small()["replicas"], small()["pods"], small()["nodes"]) == (9, 18, 18)
    assert 27 <= small()["build_writes"] <= 27 + 12


def test_a_pool_that_stands_is_written_to_no_more() -> None:
    """L3."""
    assert small()["steady"]["passes"] == 60
    assert small()["steady_writes"] == 0


def test_so_it_is_with_a_thousand_replicas() -> None:
    """Two pods each, created and released once; how long that takes says `python -m bench converge`."""
    large = measured(1_000, quiet=3)
    assert large["pods"] == 2_000
    assert 3_000 <= large["build_writes"] <= 3_000 + 100
    assert large["steady_writes"] == 0


def test_every_figure_has_a_floor() -> None:
    found = {result.name: result for result in results(small())}
    assert set(found) == {
        "converge-render-processor",
        "converge-build-processor",
        "converge-steady-processor",
        "converge-steady-writes",
        "converge-peak-resident",
    }
    assert found["converge-steady-writes"].passed
    assert not results({**small(), "steady_writes": 1})[3].passed
