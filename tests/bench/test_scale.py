"""The benchmark of large clusters: what it builds, what it tells, and what it writes."""

from __future__ import annotations

from typing import Any

import pytest

from bench import scale
from bench.scale_bench.cluster import Size, nodes_of, pools_of
from bench.scale_bench.days import Days
from bench.scale_bench.measuring import Spread, Took, measure, timed
from bench.scale_bench.page import as_page
from bench.scale_bench.plot import as_svg
from bench.yardstick import Yardstick


def row(gpus: int, milliseconds: float, peak: float = 200e6) -> dict[str, Any]:
    """A measured size."""
    spread = {
        "passes": 40,
        "wall_p50": milliseconds,
        "wall_p99": 2 * milliseconds,
        "processor_p50": milliseconds,
        "processor_p99": 1.5 * milliseconds,
        "alone_p50": 0.8 * milliseconds,
        "alone_p99": 1.2 * milliseconds,
    }
    cluster = {"nodes": gpus // 8, "gpus": gpus, "pools": gpus // 40, "pods": gpus // 4, "peak_bytes": peak}
    told = {
        "first_ms": 9000.0,
        "second_ms": 3000.0,
        "placed_in_a_pass": 105.5,
        "load_average_before": 0.5,
        "slowed": 1.25,
    }
    return {**cluster, **told, "quiet": spread, "place": spread, "shrink": spread, "still": spread}


@pytest.mark.parametrize("nodes", scale.SIZES)
def test_every_node_stands_for_eight_gpus(nodes: int) -> None:
    """A rack takes the place of nine boards, and names are told once, so that 5,000 nodes make 40,000 GPUs."""
    found = nodes_of(Size(nodes))
    assert 8 * nodes == sum(count for node in found for _, count in node.allocatable)
    assert len(found) == len({node.name for node in found})
    assert nodes <= len(found)
    assert [node.name for node in found] == sorted(node.name for node in found)


def test_no_two_pools_are_planned_by_one_choice() -> None:
    """Each pool expects a rate of its own."""
    rates = [pool.spec.workload.requests_per_second for pool in pools_of(Size(5000)) if pool.spec is not None]
    assert 1000 == len(rates) == len(set(rates))


@pytest.mark.timeout(300)  # four seconds of a processor, which others use as well
def test_a_hundred_replicas_are_placed_in_one_pass_of_three() -> None:
    """On a real, if small, cluster; memory and times are those of this process."""
    found = measure(100, passes=6)
    assert (800, 20) == (found["gpus"], found["pools"])
    assert [2, 2, 2, 2] == [found[kind]["passes"] for kind in ("quiet", "place", "shrink", "still")]
    assert 0 < found["place"]["processor_p50"] <= found["place"]["processor_p99"]
    assert 0 < found["place"]["alone_p50"] <= found["place"]["processor_p99"]
    assert found["slowed"] >= 1
    assert 10e6 < found["peak_bytes"]
    assert 0 < found["placed_in_a_pass"]


def test_where_all_stands_still_only_counts_move() -> None:
    """The same observations pass after pass, of as many replicas as there are."""
    days = Days.of(Size(100))
    decisions, _ = timed(days.snapshot, Yardstick())
    days.go_on(decisions, 0)
    days.stands_still, before = True, days.snapshot.observations
    decisions, _ = timed(days.snapshot, Yardstick())
    days.go_on(decisions, 1)
    after = days.snapshot.observations
    assert {uid: each.requests_per_second for uid, each in after.items()} == {
        uid: each.requests_per_second for uid, each in before.items()
    }
    assert all(after[pool.key.uid].expected == len(pool.status.assignments) for pool in days.snapshot.pools)


def test_the_largest_size_is_held_against_the_floors() -> None:
    """Time by both clocks in every kind of pass, memory and growth."""
    held = {each.name: each for each in scale.results([row(4000, 15.0), row(40000, 150.0)])}
    assert {"scale-place-wall-p99"} == {each.name for each in held.values() if not each.passed and "place" in each.name}
    assert (300.0, 225.0) == (held["scale-quiet-wall-p99"].value, held["scale-quiet-processor-p99"].value)
    assert (1.0, True) == (held["scale-growth"].value, held["scale-growth"].passed)
    assert held["scale-peak-resident"].passed


def test_a_pass_beside_a_slow_yardstick_counts_for_less() -> None:
    """Where the same work took twice its best before and after, the machine was half as fast."""
    spread = Spread.of([Took(300.0, 200.0, 10.0), Took(100.0, 100.0, 5.0)], best=5.0)
    assert (150.0, 100.0, 100.0) == (spread.processor_p50, spread.alone_p50, spread.alone_p99)


@pytest.mark.parametrize(("most", "passed"), [(150.0, True), (190.0, False), (1500.0, False)])
def test_growth_beyond_linear_is_missed(most: float, passed: bool) -> None:  # noqa: FBT001 - a case
    """Ten times the GPUs may take ten times as long, give or take a quarter."""
    (growth,) = (each for each in scale.results([row(4000, 15.0), row(40000, most)]) if each.name == "scale-growth")
    assert passed == growth.passed


def test_page_and_picture_tell_the_same_figures_the_same_way() -> None:
    """The page names every floor and every size; the picture is the same bytes again."""
    rows = [row(gpus, gpus / 300.0) for gpus in (4000, 8000, 40000)]
    floors = [
        {"name": each.name, "value": each.value, "unit": each.unit, "limit": each.limit, "passed": each.passed}
        for each in scale.results(rows)
    ]
    page = as_page("a machine", rows, floors)
    assert all(f"`{each['name']}`" in page for each in floors)
    assert all(f"| {each['gpus']:,} |" in page for each in rows)
    assert "scale.svg" in page
    assert "took 1.25 times its best" in page
    assert "107 / 160 ms (none asked)" in page
    assert as_svg(rows) == as_svg(rows)
