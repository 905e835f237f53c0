"""Replicas of a new revision that are on trial: they answer, and no earlier one leaves for them yet."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.decide.loaded import Loaded, loaded_split
from tests.decide.test_broken_rollouts import SERVES_SECONDS, STEP, lasts
from tests.decide.test_rollouts import change, outdated, rolling_world
from tests.fabric.cluster import board
from tests.placement.cases import free_map
from weft.decide.rollouts.rollout import leaving
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RolloutSpec
from weft.domain.status import Assignment
from weft.placement import Departure

if TYPE_CHECKING:
    from tests.decide.world import World

TRIAL = 30.0
TOLD = "replicas of the earlier revision stay until those of the new one have answered for 30 s"
IN_ITS_PLACE = RolloutSpec(max_surge=0, max_unavailable=1, min_ready_seconds=TRIAL)


def seconds_until_through(world: World) -> float:
    began = world.now
    world.turn(1, STEP)
    while outdated(world) or world.serving("chat") < world.status("chat").desired_replicas:
        world.turn(1, STEP)
        assert world.now - began < 3600.0
    return world.now - began


def ready_at(world: World) -> float:
    """When the first replica of the planned revision answers; goes on until then."""
    revision = world.status("chat").revision
    while True:
        world.turn(1, STEP)
        for pod in world.pods.values():
            if pod.identity and pod.identity.revision not in {"", revision} and pod.ready:
                return world.now


@pytest.mark.parametrize(("trial", "serve"), [(TRIAL, 1), (0.0, 0)])
def test_engines_that_end_under_their_first_requests_take_no_replica_that_serves(trial: float, serve: int) -> None:
    """Each is ready for less long than its trial; without one the only replica leaves for the first of them."""
    assert trial == 0.0 or trial > SERVES_SECONDS
    world = rolling_world(1, 3, RolloutSpec(min_ready_seconds=trial))
    change(world)
    assert lasts(world, 1800.0) == serve


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_rollout_takes_as_much_longer_for_each_step(replicas: int) -> None:
    took = {}
    for trial in (0.0, TRIAL):
        world = rolling_world(replicas, 6, RolloutSpec(min_ready_seconds=trial))
        change(world)
        took[trial] = seconds_until_through(world)
    assert replicas * (TRIAL - STEP) <= took[TRIAL] - took[0.0] <= replicas * TRIAL  # a pass looks a step later


def test_where_one_leaves_first_the_next_one_stays_until_its_successor_was_tried() -> None:
    world = rolling_world(3, 3, IN_ITS_PLACE)
    change(world)
    began = ready_at(world)
    while outdated(world) == 2:
        world.turn(1, STEP)
    assert TRIAL <= world.now - began <= TRIAL + 2 * STEP


def test_who_stays_and_for_how_long_is_told_and_time_alone_ends_it() -> None:
    world = rolling_world(2, 4, RolloutSpec(min_ready_seconds=TRIAL))
    change(world)
    ready_at(world)
    assert world.decide().wake_after_seconds == pytest.approx(TRIAL)
    assert TOLD in world.condition("chat", "Placed")[2]
    world.now += TRIAL
    world.decide()
    assert 1 == outdated(world)
    assert TOLD not in world.condition("chat", "Placed")[2]


def test_a_trial_takes_no_longer_when_the_clock_was_set_back() -> None:
    world = rolling_world(1, 3, RolloutSpec(min_ready_seconds=TRIAL))
    change(world)
    ready_at(world)
    world.now -= 3600.0
    assert world.decide().wake_after_seconds == pytest.approx(TRIAL)


def test_a_spec_that_is_edited_back_takes_back_at_once_who_came_for_it() -> None:
    """Replicas of the revision that is planned again have served for long: nobody has to be tried."""
    world = rolling_world(2, 4, RolloutSpec(min_ready_seconds=TRIAL))
    before = world.pools["chat"].spec
    assert before is not None
    change(world)
    ready_at(world)
    world.edit("chat", before)
    world.turn(1, STEP)
    assert 0 == outdated(world)
    assert 2 == world.serving("chat")


def test_growth_asks_for_no_trial_and_nothing_is_told_of_one() -> None:
    world = rolling_world(1, 4, RolloutSpec(min_ready_seconds=TRIAL))
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=replace(spec.scaling, replicas=3)))
    for _ in range(12):
        world.turn(1, STEP)
        assert TOLD not in world.condition("chat", "Placed")[2]
    assert 3 == world.serving("chat")


@pytest.mark.parametrize("slow", ["pd-prefill", "pd-decode"])
def test_halves_of_a_pair_are_tried_together(slow: str) -> None:
    """No request reaches one before the other answers: its trial begins then, and neither half loses a replica."""
    here = loaded_split((1, 1), 6, RolloutSpec(min_ready_seconds=TRIAL), (0.5, 0.5))
    here.change()
    here.turn(1)
    for _ in range(20):
        here.turn()
        _does_not_answer(here, slow)
    assert [1, 1] == [here.outdated(name) for name in here.demand]
    here.turn(1)
    began = here.world.now
    while any(here.outdated(name) for name in here.demand):
        here.turn()
        assert here.outdated("pd-prefill") == here.outdated("pd-decode")
    assert TRIAL <= here.world.now - began <= TRIAL + 20.0


def here(number: int, *, since: float = 0.0, **more: Any) -> Departure:  # noqa: ANN401 - any field
    return Departure(Assignment(number, "r", ("b-0",), 1, since), **{"ready": True, "outdated": False, **more})


@pytest.mark.parametrize(("trial", "goes"), [(0.0, [0]), (TRIAL, [])])
def test_one_that_missed_a_probe_stays_while_only_a_replica_on_trial_answers(trial: float, goes: list[int]) -> None:
    silent = here(0, ready=False, outdated=True, may_answer_again=True)
    found = leaving([silent, here(1, trial_seconds=trial)], 1, RolloutSpec(), free_map([board("b-0")]))
    assert goes == [each.assignment.replica for each in found]


@pytest.mark.parametrize(("trial", "goes"), [(0.0, [0]), (TRIAL, [])])
def test_one_that_moves_for_others_in_mid_roll_waits_for_a_trial_too(trial: float, goes: list[int]) -> None:
    moves = here(0, displaced=Explanation(Reason.MakesRoom, "makes room for pool team/other"))
    found = leaving([moves, here(1, trial_seconds=trial)], 1, RolloutSpec(), free_map([board("b-0")]))
    assert goes == [each.assignment.replica for each in found]


def _does_not_answer(here: Loaded, name: str) -> None:
    status = here.world.status(name)
    for pod in here.world.pods.values():
        if pod.identity and pod.identity.revision == status.revision and pod.name.startswith(name):
            here.world.pods[pod.name] = replace(pod, ready=False)
