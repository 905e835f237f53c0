"""A prefill replica from which all decode replicas fail to fetch KV: named by what expires there, and replaced."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.slow import STEP, assert_a_second_pass_says_the_same, ready_ones
from tests.decide.test_cut_off import HOUR, PATIENCE, failing, tell
from tests.decide.test_splits import half, split_conditions, split_world
from tests.decide.world import World, external
from weft.domain.reasons import Reason
from weft.domain.snapshot import PodObservation, PoolObservation
from weft.domain.workload import Role

SAID = "has computed KV for 5 min most of which decode failed to fetch, unlike its siblings'"
RANKS = 4  # of each prefill engine


def serving(prefill: int = 2, decode: int = 2, boards: int = 4, **rollout: object) -> World:
    spec = half(Role.Prefill, scaling=external(prefill))
    spec = replace(spec, rollout=replace(spec.rollout, **rollout))  # type: ignore[arg-type]
    world = split_world(spec, half(Role.Decode, scaling=external(decode)), boards)
    world.turn(6)
    assert (world.serving("pd-prefill"), world.serving("pd-decode")) == (prefill, decode)
    return world


def run(world: World, expired: dict[int, float], shares: dict[int, float], passes: int, seconds: float = STEP) -> None:
    """Of 60 prompts of each prefill replica such a part of the KV expires; decode fails to fetch these shares."""
    for _ in range(passes):
        tell(world, shares)
        pods = tuple(
            PodObservation(
                name,
                2.0,
                requests_per_second=1.0,
                input_tokens=1000.0,
                ttft_mean=0.2,
                requests_done=60.0,
                kv_expired=60.0 * RANKS * expired.get(replica, 0.0),
            )
            for replica, name in ready_ones(world, "pd-prefill")
        )
        seen = PoolObservation(len(pods), len(pods), 2.0, requests_per_second=1.0 * len(pods), pods=pods)
        world.observations["uid-pd-prefill"] = seen
        world.turn(1, seconds)


def ids(world: World) -> list[int]:
    return [each.replica for each in world.status("pd-prefill").assignments]


def told(world: World) -> str:
    found = [each for each in world.decision("pd-prefill").conditions if each.kind == "TransfersFailing"]
    return "; ".join(f"{each.explanation.reason.value}: {each.explanation.message}" for each in found)


def test_it_is_named_replaced_first_and_drained_after() -> None:
    world = serving()
    run(world, {0: 1.0}, {0: 0.5, 1: 0.5}, PATIENCE - 1)
    assert (ids(world), told(world)) == ([0, 1], "")
    run(world, {0: 1.0}, {0: 0.5, 1: 0.5}, 1)
    assert ids(world) == [0, 1, 2]
    assert told(world) == f"CutOffFromDecode: replica 0 {SAID}, and is replaced"
    assert failing(world).startswith("TransfersFail: replicas 0, 1 have failed")
    assert split_conditions(world)["TransfersFailing"][0] == "True"
    assert [each.reason for each in world.decision("pd-prefill").events] == [Reason.CutOffFromDecode]
    while 0 in ids(world):
        run(world, {0: 1.0}, {0: 0.5, 1: 0.5}, 1)
        assert world.serving("pd-prefill") >= 2
    run(world, {}, {}, PATIENCE)
    assert (ids(world), told(world), failing(world)) == ([1, 2], "", "")
    assert [each.replica for each in world.status("pd-decode").assignments] == [0, 1]
    assert "TransfersFailing" not in split_conditions(world)


@pytest.mark.parametrize(
    ("expired", "shares"),
    [
        ({0: 1.0}, {}),
        ({0: 1.0}, {0: 0.5}),
        ({0: 1.0, 1: 1.0}, {0: 0.9, 1: 0.9}),
        ({0: 0.3}, {0: 0.5, 1: 0.5}),
        ({}, {0: 0.5, 1: 0.5}),
    ],
    ids=["decode fetches all", "one decode replica is cut off", "all expires", "too little", "nothing expires"],
)
def test_without_both_signs_no_prefill_replica_goes(expired: dict[int, float], shares: dict[int, float]) -> None:
    world = serving()
    run(world, expired, shares, PATIENCE + 5)
    assert (ids(world), told(world)) == ([0, 1], "")


def test_a_lone_prefill_replica_stays() -> None:
    world = serving(prefill=1)
    run(world, {0: 1.0}, {0: 1.0, 1: 1.0}, PATIENCE + HOUR)
    assert (ids(world), told(world)) == ([0], "")


def test_one_decode_replica_is_enough_to_tell() -> None:
    world = serving(decode=1)
    run(world, {1: 1.0}, {0: 0.5}, PATIENCE)
    assert ids(world) == [0, 1, 2]


def test_a_successor_that_is_cut_off_too_stays_for_a_day() -> None:
    world = serving(3)
    run(world, {0: 1.0}, {0: 0.3, 1: 0.3}, PATIENCE + 10)
    assert ids(world) == [1, 2, 3]
    run(world, {3: 1.0}, {0: 0.3, 1: 0.3}, 3 * HOUR)
    assert ids(world) == [1, 2, 3]
    assert told(world).endswith("it replaced one with the same fault, so the cause is something else")


def test_of_two_the_next_waits_for_an_hour() -> None:
    world, both = serving(4, boards=6), {0: 1.0, 2: 1.0}
    run(world, both, {0: 0.5, 1: 0.5}, PATIENCE + 10)
    assert ids(world) == [1, 2, 3, 4]
    assert told(world) == f"CutOffFromDecode: replica 2 {SAID}, and stays: at most one is replaced in an hour"
    run(world, both, {0: 0.25, 1: 0.25}, HOUR)
    assert ids(world) == [1, 3, 4, 5]


def test_where_nothing_comes_first_it_is_told_and_stays() -> None:
    world = serving(max_surge=0, max_unavailable=1)
    run(world, {0: 1.0}, {0: 0.5, 1: 0.5}, PATIENCE + 10)
    assert ids(world) == [0, 1]
    assert told(world).endswith("and stays: spec.rollout.maxSurge allows no replacement first")


def test_a_second_pass_at_the_same_time_says_the_same() -> None:
    world = serving()
    for _ in range(PATIENCE + 3):
        run(world, {0: 1.0}, {0: 0.5, 1: 0.5}, 1)
        assert_a_second_pass_says_the_same(world)
