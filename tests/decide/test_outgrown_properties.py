"""Whatever load does: no pool goes to and fro, and none serves less on its way to another shape (ADR 0093, 0095)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.kinds import Growing, boards, capacities, open_spec
from tests.decide.world import World, pool
from weft.catalog import load
from weft.decide import as_decided, decide
from weft.decide.plans.kept_shapes import SHAPE_STAYS_SECONDS
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import RolloutSpec

STEP = 30.0
Cluster = tuple[str, int, str, int]  # so many boards of a kind, and of another one
Loads = list[tuple[float, float, bool]]  # requests per second for so many seconds; a board is cordoned or not after it
LOADS = st.lists(
    st.tuples(
        st.sampled_from([5.0, 60.0, 120.0, 170.0, 250.0, 400.0]),
        st.sampled_from([120.0, 600.0, 1200.0, 4200.0]),
        st.sampled_from([False, False, True]),
    ),
    min_size=2,
    max_size=5,
)
ROLLOUTS = st.sampled_from([RolloutSpec(max_unavailable=0), RolloutSpec(max_surge=4, max_unavailable=0)])
CLUSTERS = st.sampled_from(
    [("h100", 1, "a100", 6), ("l40s", 1, "h100", 2), ("h100", 1, "a100", 4), ("l40s", 2, "h200", 1)]
)
MOST = st.sampled_from([60, 8, 3, 1])  # replicas: places bound it, or what is allowed


def on(cluster: Cluster, most: int, rollout: RolloutSpec | None = None) -> World:
    few, count, many, more = cluster
    spec = open_spec(
        5.0, ScalingSpec(max_replicas=most, headroom=0.0), rollout=rollout or RolloutSpec(max_unavailable=0)
    )
    return World.of([*boards(few, count), *boards(many, more)], pool("chat", spec))


class Watched(Growing):
    """What is served while replicas of an earlier shape are there, against what was when the shape changed.

    No more than as many as are allowed serve: load may rise again once a pool is on its way back.
    """

    before = 0.0

    def go_on(self, seconds: float) -> None:
        for _ in range(round(seconds / self.step)):
            shapes, served = len(self.shapes), self.served()
            self.turn(self.step)
            self.before = served if len(self.shapes) > shapes else self.before
            status = self.world.status("chat")
            if all(each.revision == status.revision for each in status.assignments):
                self.before = 0.0
            assert self.served() >= 0.999 * min(self.before, self.rate["chat"], self.allowed()), self.shapes

    def allowed(self) -> float:
        spec = self.world.pools["chat"].spec
        return 0.0 if spec is None else spec.scaling.max_replicas * capacities()[self.kind().lower()]


@given(CLUSTERS, MOST, LOADS, ROLLOUTS)
@settings(max_examples=15, deadline=None)
def test_no_pool_changes_twice_within_the_hour_nor_serves_less_on_its_way(
    cluster: Cluster, most: int, loads: Loads, rollout: RolloutSpec
) -> None:
    """The board that is cordoned and comes back is one of those that the pool may go to, or has gone to."""
    growing = Watched(on(cluster, most, rollout), {"chat": 5.0}, step=STEP)
    growing.turn(200.0)
    for rate, seconds, turns in loads:
        growing.rate["chat"] = rate
        growing.go_on(seconds)
        last = growing.world.nodes[-1]
        growing.world.nodes[-1] = replace(last, cordoned=last.cordoned is not turns)
    times = [at for at, _ in growing.shapes[1:]]
    assert all(later - earlier >= SHAPE_STAYS_SECONDS for earlier, later in pairwise(times))


@given(CLUSTERS, MOST, st.sampled_from([60.0, 170.0, 250.0, 400.0]))
@settings(max_examples=9, deadline=None)
def test_load_that_stays_the_same_changes_the_shape_once_at_most(cluster: Cluster, most: int, rate: float) -> None:
    growing = Growing(on(cluster, most), {"chat": 5.0}, step=STEP)
    growing.turn(200.0)
    growing.turn(2.5 * SHAPE_STAYS_SECONDS, rate)
    assert 2 >= len(growing.shapes)


@given(CLUSTERS, MOST, LOADS)
@settings(max_examples=7, deadline=None)
def test_a_second_look_at_any_moment_changes_nothing(cluster: Cluster, most: int, loads: Loads) -> None:
    world = on(cluster, most)
    growing = Growing(world, {"chat": 5.0}, step=STEP)
    growing.turn(200.0)
    for rate, seconds, _ in loads:
        growing.rate["chat"] = rate
        for _ in range(round(seconds / STEP)):
            growing.turn(STEP)
            growing.look()
            before = world.snapshot()
            first = decide(before, load())
            second = decide(as_decided(before, first), load())
            assert second == replace(first, pools=tuple(replace(each, events=()) for each in first.pools))
