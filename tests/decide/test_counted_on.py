"""Which replicas their pair counts on while a split rolls: both halves let go of the same generations."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.loaded import Loaded, loaded_split
from tests.fabric.cluster import board, with_rdma
from tests.placement.cases import free_map
from weft.decide.rollouts.counted_on import ServingHalf, counted_on
from weft.decide.rollouts.rollout import arriving, leaving
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RolloutSpec
from weft.domain.status import Assignment
from weft.placement import Departure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HALVES = ("pd-prefill", "pd-decode")
NEW = "new"
SURGE = RolloutSpec(max_surge=1, max_unavailable=0)
EITHER = RolloutSpec(max_surge=1, max_unavailable=1)


def replica(number: int, *, outdated: bool = True, counted: bool = False) -> Departure:
    assignment = Assignment(number, "r", ("b-0",), 1, 0.0)
    return Departure(assignment, ready=True, outdated=outdated, counted_on=counted)


def half(desired: int, unavailable: int, **serving: int) -> ServingHalf:
    """With so many replicas of each pair, whose ids are 0 and up for the first, 10 and up for the second one."""
    by_pair = {
        pair: [replica(10 * place + each, outdated=pair != NEW) for each in range(count)]
        for place, (pair, count) in enumerate(serving.items())
    }
    return ServingHalf(desired, unavailable, by_pair)


@pytest.mark.parametrize(
    ("prefill", "decode", "expected"),
    [
        (half(2, 0, old=2, new=0), half(2, 0, old=2, new=0), [{0, 1}, {0, 1}]),
        (half(2, 1, old=2, new=0), half(2, 1, old=2, new=0), [{0}, {0}]),
        (half(2, 0, old=2, new=1), half(2, 0, old=2, new=1), [{0, 10}, {0, 10}]),
        (half(1, 0, old=1, mid=1), half(4, 0, old=2, mid=2), [{0, 10}, {0, 1, 10, 11}]),
        (half(3, 1, old=1, mid=2), half(3, 1, old=1, mid=2), [{10, 11}, {10, 11}]),  # the smaller one goes
        (half(2, 1, old=1, new=1), half(2, 1, old=1, new=1), [{10}, {10}]),  # an earlier one goes
        (half(2, 0, old=2, new=0), half(2, 0, old=1, new=1), [{0}, {0}]),  # nobody who has no counterpart
        (half(1, 0, mid=1, new=0), half(4, 0, mid=3, new=1), [{0}, {0, 1, 2}]),  # less serves than should
    ],
)
def test_a_pair_counts_on_what_its_other_half_has_counterparts_for(
    prefill: ServingHalf, decode: ServingHalf, expected: list[set[int]]
) -> None:
    assert expected == counted_on([prefill, decode], NEW)


def test_of_one_pair_those_that_may_stay_are_counted_on_before_those_that_leave() -> None:
    leave, stay = replica(0), replica(1, outdated=False)
    halves = [ServingHalf(2, 1, {NEW: [leave, stay]}), half(2, 1, new=2)]
    assert [{1}, {0}] == counted_on(halves, NEW)


counts = st.lists(st.integers(0, 4), min_size=3, max_size=3)
sizes = st.integers(1, 5).flatmap(lambda desired: st.tuples(st.just(desired), st.integers(0, desired), counts))


@given(sides=st.tuples(sizes, sizes))
def test_whoever_else_leaves_as_much_serves_as_has_to_or_as_did_before(
    sides: Sequence[tuple[int, int, Sequence[int]]],
) -> None:
    halves = [
        half(desired, unavailable, **dict(zip(("old", "mid", NEW), there, strict=True)))
        for desired, unavailable, there in sides
    ]
    found = counted_on(halves, NEW)
    left = [
        replace(one, by_pair={pair: _only(each, ids) for pair, each in one.by_pair.items()})
        for one, ids in zip(halves, found, strict=True)
    ]
    least = min(each.least for each in halves)
    assert _served(left) >= min(_served(halves), least) - 1e-9


def _only(replicas: Iterable[Departure], ids: frozenset[int]) -> list[Departure]:
    return [each for each in replicas if each.assignment.replica in ids]


def _served(halves: Sequence[ServingHalf]) -> float:
    return sum(min(each.part(pair) for each in halves) for pair in ("old", "mid", NEW))


def test_a_replica_that_its_pair_counts_on_stays_and_one_more_comes_beyond_the_surge() -> None:
    free, both = free_map([board("b-0")]), [replica(0), replica(1)]
    assert [1] == [each.assignment.replica for each in leaving(both, 1, SURGE, free)]
    counted = [replica(0, counted=True), replica(1, counted=True)]
    assert () == leaving(counted, 1, SURGE, free)
    assert (0, 1) == (arriving(both, 1, SURGE), arriving(counted, 1, SURGE))
    coming = replace(replica(2, outdated=False), ready=False)
    assert () == leaving([*counted, coming], 1, SURGE, free)
    assert 0 == arriving([*counted, coming], 1, SURGE)


def test_a_half_that_shrinks_in_mid_roll_keeps_what_its_pair_counts_on() -> None:
    """The newest one goes first, but not if the other half has a counterpart for it and none for an older one."""
    two = [replica(0, outdated=False), replica(1, outdated=False)]
    assert [1] == [each.assignment.replica for each in leaving(two, 1, SURGE, free_map([board("b-0")]))]
    counted = [two[0], replace(two[1], counted_on=True)]
    assert [0] == [each.assignment.replica for each in leaving(counted, 1, SURGE, free_map([board("b-0")]))]


# whole rolls


def capacity(here: Loaded) -> float:
    """The part of the desired pairs that serve: of each generation as much as its scarcer half."""
    world, parts = here.world, []
    for name in HALVES:
        there = {each.replica for each in world.status(name).assignments}
        uid, desired = world.pools[name].key.uid, world.status(name).desired_replicas
        ready = [
            pod.pair
            for pod in world.pods.values()
            if pod.identity and pod.identity.pool_uid == uid and pod.identity.replica in there and pod.ready
        ]
        parts.append({pair: ready.count(pair) / desired for pair in ready})
    return sum(min(each.get(pair, 0.0) for each in parts) for pair in parts[0])


def relabel(here: Loaded, name: str, value: str) -> None:
    """One half rolls within its generation."""
    spec = here.world.pools[name].spec
    assert spec is not None
    here.world.edit(name, replace(spec, pod=replace(spec.pod, labels=(("team", value),))))


def least_until_through(here: Loaded, turns: int = 80) -> float:
    least = capacity(here)
    for _ in range(turns):
        here.turn()
        least = min(least, capacity(here))
        if here.is_through():
            return least
    raise AssertionError([(name, here.world.condition(name, "Placed")) for name in HALVES])


@pytest.mark.parametrize("counts", [(1, 1), (2, 2), (3, 3), (1, 4)])
@pytest.mark.parametrize("rollout", [SURGE, EITHER], ids=["none", "one"])
def test_a_half_that_is_edited_alone_in_mid_roll_leaves_no_less_than_may_be_missing(
    counts: tuple[int, int], rollout: RolloutSpec
) -> None:
    """At whichever moment the edit comes, and in whichever half."""
    may_lack = rollout.max_unavailable / min(counts)
    for turns, name in product(range(3, 9), HALVES):
        here = loaded_split(counts, sum(counts) + 4, rollout, (0.5, 0.5))
        here.change()
        here.turn(turns)
        relabel(here, name, "x")
        assert least_until_through(here) >= 1.0 - may_lack - 1e-9, (turns, name)


@pytest.mark.parametrize("counts", [(3, 2), (2, 3), (4, 3)])
def test_what_traffic_needs_weighs_more_than_what_may_be_missing_of_three_generations_too(
    counts: tuple[int, int],
) -> None:
    for turns in range(3, 9):
        here = loaded_split(counts, 24, EITHER, (float(counts[0]), float(counts[1])))
        here.change("2")
        here.turn(turns)
        here.change("3")
        assert least_until_through(here) >= 1.0 - 1e-9, turns


def test_a_roll_in_which_pairs_count_on_replicas_is_not_said_to_wait_for_traffic() -> None:
    here = loaded_split((3, 2), 24, EITHER, (0.5, 0.5))
    here.change("2")
    here.turn(5)
    here.world.scheduler_works = False  # the third generation does not start
    here.change("3")
    here.turn(30)
    assert Reason.RolloutWaits not in here.told
    here.world.scheduler_works = True
    least_until_through(here)


@pytest.mark.parametrize("counts", [(1, 2), (2, 1), (1, 4)])
def test_without_room_beyond_the_surge_a_third_generation_comes_all_the_same(counts: tuple[int, int]) -> None:
    """A pair more than is desired has a place, and that is all: what serves falls for a start, and the roll ends."""
    for turns in range(4, 12):
        here = loaded_split(counts, sum(counts) + 2, SURGE, (0.5, 0.5))
        here.change("2")
        here.turn(turns)
        here.change("3")
        assert least_until_through(here) >= 1.0 / max(counts) - 1e-9


def test_a_pause_after_an_edit_in_mid_roll_takes_no_replica_that_its_pair_counts_on() -> None:
    here = loaded_split((2, 5), 24, SURGE, (0.5, 0.5))
    here.change("2")
    here.turn(5)
    for name in HALVES:
        spec = here.world.pools[name].spec
        assert spec is not None
        here.world.edit(name, replace(spec, rollout=replace(SURGE, paused=True)))
    here.change("3")
    least = []
    for _ in range(12):
        here.turn()
        least.append(capacity(here))
    assert min(least) >= 1.0 - 1e-9


def test_what_is_left_of_a_pair_whose_other_half_is_lost_makes_room_for_the_next_one() -> None:
    """Decode's earlier replicas and their nodes are gone: prefill of that pair serves nobody, and holds every place."""
    here = loaded_split((2, 2), 5, SURGE, (0.5, 0.5))
    here.change()
    here.turn(5)
    world = here.world
    gone = {each.nodes[0] for each in world.status("pd-decode").assignments}
    assert len(gone) == 2
    world.nodes = [node for node in world.nodes if node.name not in gone]
    world.pods = {name: pod for name, pod in world.pods.items() if pod.node not in gone}
    assert capacity(here) == 0.0
    here.turn(8)
    assert capacity(here) >= 0.5


def test_a_drained_replica_that_lacks_counterparts_by_rounding_alone_waits_for_its_successor() -> None:
    cordoned = Explanation(Reason.NodeCordoned, "node b-0 is cordoned")
    drained = replace(replica(0, outdated=False), displaced=cordoned, alone=True)
    assert () == leaving([drained], 1, SURGE, free_map([board("b-0")]))
    unreached = replace(drained, unmatched=True)
    assert (unreached,) == leaving([unreached], 1, SURGE, free_map([board("b-0")]))


@pytest.mark.parametrize("counts", [(2, 2), (1, 3)])
def test_with_room_for_one_half_of_a_new_pair_neither_comes_until_there_is_room_for_both(
    counts: tuple[int, int],
) -> None:
    """Its GPUs would idle: it serves nobody without the other half, and no earlier one may leave for it."""
    here = loaded_split(counts, sum(counts) + 1, SURGE, (0.5, 0.5))
    here.change()
    here.turn(12)
    assert list(counts) == [len(here.world.status(name).assignments) for name in HALVES]
    told = [here.world.condition(name, "Placed") for name in HALVES]
    assert {"NoSlot"} == {reason for _, reason, _ in told}
    assert any("replica of the changed spec" in message for _, _, message in told), told
    here.world.nodes.append(with_rdma(board("x-0")))
    assert least_until_through(here) >= 1.0


edits = st.lists(st.tuples(st.sampled_from(["A", "B", "C", *HALVES]), st.integers(1, 9)), min_size=2, max_size=4)


@settings(max_examples=12, deadline=None)
@given(counts=st.tuples(st.integers(1, 4), st.integers(1, 4)), unavailable=st.integers(0, 1), walk=edits)
def test_however_a_split_is_edited_while_it_rolls_enough_serves_and_the_last_edit_is_reached(
    counts: tuple[int, int], unavailable: int, walk: list[tuple[str, int]]
) -> None:
    rollout = RolloutSpec(max_surge=1, max_unavailable=unavailable)
    here = loaded_split(counts, 24, rollout, (0.5, 0.5))
    least = []
    for place, (what, turns) in enumerate(walk):
        relabel(here, what, str(place)) if what in HALVES else here.change(what)
        for _ in range(turns):
            here.turn()
            least.append(capacity(here))
    least.append(least_until_through(here))
    assert min(least) >= 1.0 - unavailable / min(counts) - 1e-9
