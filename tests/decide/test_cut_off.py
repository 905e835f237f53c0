"""A decode replica that keeps failing to fetch KV beside siblings that fetch: named, and replaced like a slow one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.slow import STEP, assert_a_second_pass_says_the_same, ready_ones
from tests.decide.test_splits import half, split_conditions, split_world
from tests.decide.world import external
from weft.domain.reasons import Reason
from weft.domain.snapshot import PodObservation, PoolObservation
from weft.domain.workload import Role

if TYPE_CHECKING:
    from tests.decide.world import World

PATIENCE = 31  # passes: five minutes, and one to begin with
SAID = "has failed for 5 min to fetch KV as its siblings do, and computes such prompts itself"
HOUR = 360  # passes


def serving(decode: int = 2, boards: int = 4, **rollout: object) -> World:
    """A split of two prefill replicas and so many of decode, half a board each."""
    spec = half(Role.Decode, scaling=external(decode))
    spec = replace(spec, rollout=replace(spec.rollout, **rollout))  # type: ignore[arg-type]
    world = split_world(half(Role.Prefill, scaling=external(2)), spec, boards)
    world.turn(6)
    assert (world.serving("pd-prefill"), world.serving("pd-decode")) == (2, decode)
    return world


def tell(world: World, shares: dict[int, float], slow: frozenset[int] = frozenset()) -> None:
    """Metrics of decode: at each replica that serves 60 transfers ended, of which such a part failed."""
    ready = ready_ones(world, "pd-decode")
    pods = tuple(pod(name, shares.get(replica, 0.0), 0.04 if replica in slow else 0.02) for replica, name in ready)
    world.observations["uid-pd-decode"] = PoolObservation(
        len(pods), len(pods), 2.0, requests_per_second=2.0 * len(pods), pods=pods
    )


def pod(name: str, share: float, tpot: float) -> PodObservation:
    failed = 60.0 * share
    seen = PodObservation(name, 2.0, requests_per_second=2.0, transfers_done=60.0 - failed, transfers_failed=failed)
    return replace(seen, input_tokens=1000.0, output_tokens=200.0, tpot_mean=tpot)


def run(
    world: World, shares: dict[int, float], passes: int, seconds: float = STEP, slow: frozenset[int] = frozenset()
) -> None:
    for _ in range(passes):
        tell(world, shares, slow)
        world.turn(1, seconds)


def ids(world: World) -> list[int]:
    return [each.replica for each in world.status("pd-decode").assignments]


def failing(world: World) -> str:
    """What the condition says; empty where there is none."""
    found = [each for each in world.decision("pd-decode").conditions if each.kind == "TransfersFailing"]
    assert all(each.status == "True" for each in found)
    return "; ".join(f"{each.explanation.reason.value}: {each.explanation.message}" for each in found)


def events(world: World) -> list[Reason]:
    return [event.reason for event in world.decision("pd-decode").events]


def test_it_is_named_replaced_first_and_drained_after() -> None:
    world = serving()
    run(world, {0: 0.5}, PATIENCE - 1)
    assert (ids(world), failing(world)) == ([0, 1], "")
    run(world, {0: 0.5}, 1)
    assert ids(world) == [0, 1, 2]
    assert failing(world) == f"CutOffFromPrefill: replica 0 {SAID}, and is replaced"
    assert split_conditions(world)["TransfersFailing"] == ("True", "CutOffFromPrefill")
    assert world.condition("pd-decode", "Placed")[2].endswith(f"replica 0 is replaced, as it {SAID}")
    assert events(world) == [Reason.CutOffFromPrefill]
    for _ in range(10):
        run(world, {0: 0.5}, 1)
        assert world.serving("pd-decode") >= 2
    assert (ids(world), failing(world)) == ([1, 2], "")
    assert "TransfersFailing" not in split_conditions(world)


@pytest.mark.parametrize("boards", [2, 4], ids=["no room", "room"])
def test_a_second_pass_at_the_same_time_says_the_same(boards: int) -> None:
    """L1 and L3."""
    world = serving(boards=boards)
    for _ in range(PATIENCE + 3):
        tell(world, {0: 0.5})
        world.now += STEP
        assert_a_second_pass_says_the_same(world)
        world.turn(1, 0.0)


def test_a_prefill_engine_that_dies_cuts_nobody_off() -> None:
    """Transfers fail for a while at one that had met it; so they do when one prefill engine after the other dies."""
    world = serving()
    for _ in range(6):
        run(world, {0: 0.5}, PATIENCE - 3)
        run(world, {}, 3)
        assert (ids(world), failing(world), events(world)) == ([0, 1], "", [])


def test_where_all_fail_alike_it_is_told_and_nobody_is_replaced() -> None:
    world = serving(3)
    run(world, dict.fromkeys(range(3), 0.5), PATIENCE)
    assert events(world) == [Reason.TransfersFail] * 3
    run(world, dict.fromkeys(range(3), 0.5), HOUR)
    assert ids(world) == [0, 1, 2]
    assert failing(world) == (
        "TransfersFail: replicas 0, 1, 2 have failed for 5 min to fetch part of their KV, and compute such prompts "
        "themselves; not replaced: too few siblings are better to expect an improvement"
    )
    run(world, {}, 1)
    assert failing(world) == ""


def test_one_without_siblings_is_told_and_stays() -> None:
    world = serving(1)
    run(world, {0: 1.0}, PATIENCE + HOUR)
    assert ids(world) == [0]
    assert failing(world).startswith("TransfersFail: replica 0 has failed for 5 min to fetch part of its KV, and")


def test_of_two_the_next_waits_for_an_hour() -> None:
    world = serving(4, 6)
    both = {0: 0.25, 2: 0.5}
    run(world, both, PATIENCE + 10)
    assert ids(world) == [1, 2, 3, 4]
    stays = f"CutOffFromPrefill: replica 2 {SAID}, and stays: at most one is replaced in an hour"
    assert failing(world) == stays
    run(world, both, HOUR - 20)
    assert (ids(world), failing(world)) == ([1, 2, 3, 4], stays)
    run(world, both, 30)
    assert ids(world) == [1, 3, 4, 5]
    assert failing(world) == ""


def test_a_successor_that_fails_too_is_not_replaced_for_a_day() -> None:
    """The cause is elsewhere: a prefill engine that only this one is paired with, for example."""
    world = serving(4, 6)
    run(world, {0: 0.5}, PATIENCE + 10)
    assert ids(world) == [1, 2, 3, 4]
    run(world, {4: 0.5}, 5 * HOUR)
    assert ids(world) == [1, 2, 3, 4]
    assert failing(world).endswith("and stays: it replaced one with the same fault, so the cause is something else")
    run(world, {4: 0.5, 1: 0.5}, PATIENCE + 10)
    assert ids(world) == [2, 3, 4, 5], "one that was there before is another matter"


def test_one_that_is_slow_as_well_goes_as_cut_off_and_its_successor_stays_for_a_day() -> None:
    """It computes prompts between its steps, and is slow for long enough before it fails for long enough."""
    world = serving(4, 6)
    run(world, {0: 0.5}, PATIENCE - 1, slow=frozenset({0}))
    assert ids(world) == [0, 1, 2, 3]
    assert world.condition("pd-decode", "Placed")[2].endswith(
        "replica 0 has been slower than its siblings for 3 min, at no higher load, and stays: "
        "it fails to fetch KV, too, and computes such prompts itself, which may be all that makes it slow"
    )
    run(world, {0: 0.5}, 10, slow=frozenset({0}))
    assert ids(world) == [1, 2, 3, 4]
    run(world, {4: 0.5}, 5 * HOUR, slow=frozenset({4}))
    assert ids(world) == [1, 2, 3, 4]
    run(world, {}, 10, slow=frozenset({4}))
    assert ids(world) == [1, 2, 3, 5], "one that fetches and is slow all the same is another matter"


def test_after_a_day_a_successor_counts_like_any_other() -> None:
    world = serving(3, 6)
    run(world, {0: 0.5}, PATIENCE + 10)
    run(world, {}, 24 * 60, 60.0)
    assert world.memory["uid-pd-decode"].outliers is None
    run(world, {3: 0.5}, PATIENCE + 10)
    assert ids(world) == [1, 2, 4]


@pytest.mark.parametrize(
    ("boards", "rollout", "why"),
    [
        (2, {}, "nothing has room for its successor"),
        (4, {"paused": True}, "spec.rollout.paused is set"),
        (4, {"max_surge": 0, "max_unavailable": 1}, "spec.rollout.maxSurge allows no replacement first"),
    ],
)
def test_one_that_cannot_be_replaced_is_told_with_why(boards: int, rollout: dict[str, object], why: str) -> None:
    world = serving(2, boards, **rollout)
    run(world, {0: 0.5}, PATIENCE)
    assert events(world) == [Reason.CutOffFromPrefill]
    run(world, {0: 0.5}, 5)
    assert ids(world) == [0, 1]
    assert failing(world) == f"CutOffFromPrefill: replica 0 {SAID}, and stays: {why}"
    assert events(world) == []


@pytest.mark.parametrize("blind", ["gone", "stale", "one is silent"])
def test_who_is_blind_names_nobody(blind: str) -> None:
    """One look in five minutes that does not tell of all starts the time anew."""
    world = serving()
    run(world, {0: 0.5}, PATIENCE - 1)
    seen = world.observations["uid-pd-decode"]
    changes = {
        "gone": None,
        "stale": replace(seen, age_seconds=300.0),
        "one is silent": replace(seen, answered=1, pods=seen.pods[:1]),
    }
    told = changes[blind]
    world.observations = {} if told is None else {"uid-pd-decode": told}
    world.turn(1, STEP)
    run(world, {0: 0.5}, PATIENCE - 1)
    assert (ids(world), failing(world)) == ([0, 1], "")
    run(world, {0: 0.5}, 1)
    assert ids(world) == [0, 1, 2]


def test_many_that_fail_are_counted_rather_than_listed() -> None:
    world = serving(8, 6)
    run(world, dict.fromkeys(range(8), 0.5), PATIENCE)
    assert "replicas 0, 1, 2, 3, 4 and 3 more have failed" in failing(world)
