"""Generations of a split: which one is shown, which replicas stay for a front, and which routers may choose them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.render.pools import NAMESPACE, UID, pool, spec
from weft.converge.generations import (
    Generation,
    kept_for_their_front,
    last_of_each,
    pair_of_replica,
    routers_of,
    shown_to_a_picker,
)
from weft.converge.replicas import Replica
from weft.converge.split_routing import Routing
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RolloutSpec, RolloutStrategy
from weft.domain.status import Assignment
from weft.domain.workload import Role

OLD, NEW, NEWEST, NOW = "old", "new", "newest", 5000.0


def replica(number: int, pair: str, *, stays: bool, answers: bool = True) -> Replica:
    identity = PodIdentity(UID, number, 0, pair)
    pod = PodRecord(NAMESPACE, f"chat-{number}", f"uid-{number}", PodPhase.Running, "n", (), identity, pair=pair)
    served = (replace(pod, ready=answers, routed=answers),)
    return Replica(number, Assignment(number, pair, ("n",), 1, 0.0) if stays else None, served)


def router(**fields: object) -> PodRecord:
    known = PodRecord(NAMESPACE, "front", "uid-front", PodPhase.Running, "n", (), front_of=UID, pair=OLD)
    return replace(known, **fields)  # type: ignore[arg-type]


def last(*replicas: Replica, outlived: str = OLD) -> list[int]:
    return [each.number for each in last_of_each(replicas, {outlived}, pair_of_replica)]


def test_the_last_replica_of_a_generation_that_leaves_is_one_that_answers() -> None:
    leaving = replica(0, OLD, stays=False), replica(1, OLD, stays=False)
    assert last(*leaving) == [1]
    assert last(*leaving, replica(2, OLD, stays=False, answers=False)) == [1]


@pytest.mark.parametrize("order", [1, -1])
def test_one_that_stays_is_enough_wherever_it_stands(order: int) -> None:
    """Then none of those that leave is kept for the front."""
    some = [replica(0, OLD, stays=True), replica(1, OLD, stays=False), replica(2, OLD, stays=False)]
    assert last(*some[::order]) == []


def test_one_that_stays_and_does_not_answer_keeps_nobody_from_being_the_last() -> None:
    assert last(replica(0, OLD, stays=True, answers=False), replica(1, OLD, stays=False)) == [1]


def test_only_generations_that_routers_outlive_keep_one() -> None:
    assert last(replica(0, OLD, stays=False), replica(1, NEW, stays=False)) == [0]


def unbound(each: Replica) -> Replica:
    return Replica(each.number, each.assignment, tuple(replace(pod, node=None, ready=False) for pod in each.pods))


def kept(*replicas: Replica, strategy: RolloutStrategy = RolloutStrategy.Surge, chosen: str = OLD) -> list[int]:
    half = replace(pool(spec(Role.Prefill)), status=pool().status)
    assert half.spec is not None
    half = replace(half, spec=replace(half.spec, pair=NEW, rollout=RolloutSpec(strategy)))
    return [each.number for each in kept_for_their_front(half, replicas, [router(pair=chosen)], NOW)]


def test_the_last_one_is_kept_once_somebody_who_stays_has_a_place() -> None:
    """Before, it may be in the way of a successor; a missed probe later changes nothing."""
    leaving = replica(0, OLD, stays=False)
    assert kept(leaving, replica(1, NEW, stays=True)) == [0]
    assert kept(leaving, replica(1, NEW, stays=True, answers=False)) == [0]
    assert kept(leaving, replica(1, NEWEST, stays=True)) == [0]
    assert kept(leaving, unbound(replica(1, NEW, stays=True))) == []
    assert kept(leaving, replica(1, NEW, stays=False)) == []
    assert kept(leaving, replica(1, NEW, stays=True), strategy=RolloutStrategy.Recreate) == []


def test_so_is_that_of_the_pair_that_is_asked_for_again_after_it_was_given_up() -> None:
    assert kept(replica(0, NEW, stays=False), replica(1, OLD, stays=True), chosen=NEW) == [0]


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({}, True),
        ({"gone_by": NOW - 59.0}, True),
        ({"gone_by": NOW - 60.0}, False),
        ({"phase": PodPhase.Failed}, False),
        ({"namespace": "others"}, False),
        ({"front_of": "another"}, False),
    ],
)
def test_routers_of_a_pool_are_those_that_may_still_choose_its_replicas(
    fields: dict[str, object],
    counts: bool,  # noqa: FBT001 - a case
) -> None:
    assert bool(list(routers_of(pool(), [router(**fields)], NOW))) == counts


@pytest.mark.parametrize(
    ("staying", "before", "shown", "expected"),
    [
        ((1, 1), (2, 2), OLD, OLD),  # not as many as the one before has
        ((2, 2), (2, 2), OLD, NEW),
        ((1, 1), (1, 1), OLD, NEW),  # fewer than desired, and no fewer than before
        ((0, 1), (2, 2), NEW, OLD),  # shown already, and one half of it is gone
        ((1, 1), (2, 2), NEW, NEW),  # shown already, and a pair still
    ],
)
def test_a_picker_is_shown_the_next_generation_once_it_is_whole(
    staying: tuple[int, int], before: tuple[int, int], shown: str, expected: str
) -> None:
    desired = (2, 2)
    known = [Generation(NEW, staying, staying, desired), Generation(OLD, (0, 0), before, (0, 0))]
    assert shown_to_a_picker(known, desired, shown).pair == expected


def test_a_generation_of_which_a_half_is_missing_is_never_whole() -> None:
    """Where none of a half is desired either."""
    known = [Generation(NEW, (0, 2), (0, 2), (0, 2)), Generation(OLD, (0, 0), (2, 2), (0, 0))]
    assert shown_to_a_picker(known, (0, 2), OLD).pair == OLD


@pytest.mark.parametrize(
    ("starting", "expected"),
    [
        ({NEWEST, NEW}, OLD),  # it has fewer replicas, and the only router that answers
        ({NEWEST}, NEW),
        ({NEWEST, NEW, OLD}, NEW),  # nobody answers: the one that soon serves most
    ],
)
def test_of_two_whole_pairs_beside_a_third_front_the_service_keeps_to_one_whose_front_answers(
    starting: set[str], expected: str
) -> None:
    """Where the fronts stay as they are, as the spec cannot be read any more."""
    none, few, more = (0, 0), (1, 1), (2, 2)
    known = (Generation(NEWEST, none, none, none), Generation(NEW, more, more, more), Generation(OLD, none, few, none))
    why = Explanation(Reason.FrontStarting, "no pod is ready yet")
    trouble = {each.pair: why if each.pair in starting else None for each in known}
    assert Routing(known, {each.pair: 1 for each in known}, trouble).only == expected
