"""What a forecast has learnt survives a restart: it is in the status, seldom written, and read by a new process."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from tests.scaling.cases import seen
from weft.api import pool_status
from weft.api.status_reading import read_pool_status
from weft.catalog import load
from weft.decide import decide
from weft.decide.telling.forecasts import MOST_IN_A_PASS
from weft.domain.forecast import KeptForecast, Past
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.workload import Slo
from weft.scaling.forecasting.forecast import BIN_SECONDS, forecast
from weft.scaling.forecasting.keeping import LEAST_KEPT_SECONDS, restored
from weft.scaling.forecasting.seasons import QUARTERS_A_DAY

if TYPE_CHECKING:
    from weft.domain.forecast import ForecastState
    from weft.domain.status import PoolStatus

SCALING = ScalingSpec(max_replicas=20, scale_down_delay_seconds=300.0, headroom=0.1)
LOOK, MINUTE, HOUR = 15.0, 4, 240  # seconds, looks, looks
STARTUP, PAUSE = 400.0, 2 * MINUTE


def serving_world(*names: str, scaling: ScalingSpec = SCALING) -> World:
    """Pools of one GPU a replica that serve, and of which no metrics were seen."""
    world = World.of([board(f"b-{at}") for at in range(4)], *(pool(name, pool_spec(1, scaling)) for name in names))
    world.turn(5)
    return world


def calm(looks: int) -> list[float]:
    """Traffic in replicas' worth that scatters by a twentieth."""
    random = np.random.default_rng(7)
    return [4.5 * math.exp(0.05 * random.normal()) for _ in range(looks)]


def bursts(looks: int) -> list[float]:
    """Traffic that wanders within half an hour, too, to half and to twice as much."""
    random = np.random.default_rng(5)
    wander, found = 0.0, []
    for _ in range(looks):
        wander += 0.05 * random.normal() - 0.008 * wander
        found.append(4.0 * math.exp(wander + 0.1 * random.normal()))
    return found


def look(world: World, worth: float, prompts: float | None = None) -> None:
    """One look and decision, with traffic that so many replicas could serve, and prompts of so many tokens."""
    for name in world.pools:
        plan = world.status(name).plan
        assert plan is not None
        found = seen(worth * plan.prediction.capacity, world.serving(name))
        world.observations[f"uid-{name}"] = replace(found, startup_seconds=STARTUP, input_tokens=prompts)
    world.turn(1, LOOK)


def learnt(world: World) -> ForecastState:
    state = world.memory["uid-chat"].forecast
    assert state is not None
    return state


def restarted(world: World, status: PoolStatus) -> World:
    """The same cluster under a process that knows of its pool what this status says, as the API server keeps it."""
    decision = replace(world.decision("chat"), status=status)
    written = json.loads(json.dumps(pool_status(decision, {}, world.now)))
    record = replace(world.pools["chat"], status=read_pool_status(written))
    return replace(world, pools={"chat": record}, pods=dict(world.pods), memory={}, observations={})


@dataclass(frozen=True)
class Course:
    """What was desired and foretold look by look, after a pause in which a process that is not there cannot look."""

    counts: list[int]
    most: list[float]

    @classmethod
    def of(cls, world: World, traffic: list[float], *, restarted: bool) -> Course:
        counts, most = [], []
        for worth in traffic[:PAUSE]:
            if restarted:
                world.now += LOOK
            else:
                look(world, worth)
        for worth in traffic[PAUSE:]:
            look(world, worth)
            counts.append(world.status("chat").desired_replicas)
            ahead = forecast(learnt(world), learnt(world).seen)
            most.append(ahead.quantile(0.95) if ahead is not None else math.inf)
        return cls(counts, most)

    def apart(self, other: Course, since: int) -> float:
        """The most by which what was foretold differs from that look on, as a part."""
        pairs = zip(self.most[since:], other.most[since:], strict=True)
        return max(abs(mine / theirs - 1.0) for mine, theirs in pairs)

    def looks_apart(self, other: Course, since: int) -> float:
        """The part of looks from that one on at which another count was desired."""
        pairs = zip(self.counts[since:], other.counts[since:], strict=True)
        return float(np.mean([mine != theirs for mine, theirs in pairs]))


@dataclass(frozen=True)
class Restart:
    """One course without a restart, one with it, and one after which nothing was known."""

    unbroken: Course
    restored: Course
    forgotten: Course

    @classmethod
    def amid(cls, traffic: list[float]) -> Restart:
        """Three hours, then two minutes without a process, and what the status said last."""
        world, following = serving_world("chat"), traffic[3 * HOUR :]
        for worth in traffic[: 3 * HOUR]:
            look(world, worth)
        status = world.status("chat")
        restored, forgotten = restarted(world, status), restarted(world, replace(status, forecast=None))
        return cls(
            Course.of(world, following, restarted=False),
            Course.of(restored, following, restarted=True),
            Course.of(forgotten, following, restarted=True),
        )


def test_a_restart_in_calm_traffic_changes_no_count() -> None:
    """Nor what is foretold by more than the 5 % that are worth no write, from the second minute on."""
    restart = Restart.amid(calm(4 * HOUR))
    assert restart.restored.counts == restart.unbroken.counts
    assert restart.restored.apart(restart.unbroken, 2 * MINUTE) < 0.05


def test_after_a_restart_amid_bursts_margins_are_those_of_before() -> None:
    """Within a tenth after a quarter of an hour, and with the same counts at nearly all looks after half of one."""
    restart = Restart.amid(bursts(4 * HOUR))
    assert restart.restored.apart(restart.unbroken, 15 * MINUTE) < 0.1
    assert restart.restored.looks_apart(restart.unbroken, 30 * MINUTE) < 0.05
    assert restart.forgotten.apart(restart.unbroken, 15 * MINUTE) > 0.2
    restored, forgotten = (
        each.looks_apart(restart.unbroken, 30 * MINUTE) for each in (restart.restored, restart.forgotten)
    )
    assert forgotten > 2.0 * restored


def writes_for_the_forecast(world: World, traffic: list[float]) -> list[float]:
    """When a status changed in nothing else, but in how long starts took, which is written with it."""
    found = []
    for worth in traffic:
        before = world.status("chat")
        look(world, worth)
        now = replace(world.status("chat"), observed=before.observed)
        if now != before and replace(now, forecast=before.forecast, start_up=before.start_up) == before:
            found.append(world.now)
    return found


def test_a_steady_pool_writes_its_forecast_no_more() -> None:
    """L3: the first thing learnt, and then each time that twice as much is known of the same errors."""
    world = serving_world("chat")
    first = writes_for_the_forecast(world, [4.5] * 4)
    assert len(first) == 1
    assert len(writes_for_the_forecast(world, [4.5] * 4 * HOUR)) <= 2


def test_a_restless_pool_writes_its_forecast_at_most_once_in_a_quarter_of_an_hour() -> None:
    """Its count belongs to somebody, so that there is no other reason to write."""
    world = serving_world("chat", scaling=external(6))
    times = writes_for_the_forecast(world, bursts(4 * HOUR))
    assert 1 < len(times)
    assert min(later - earlier for earlier, later in pairwise(times)) >= LEAST_KEPT_SECONDS


def test_a_pool_without_metrics_has_nothing_to_write() -> None:
    world = serving_world("chat")
    world.turn(20, BIN_SECONDS)
    assert world.status("chat").forecast is None


@pytest.mark.parametrize(("looks", "carries"), [(2 * MINUTE, True), (2, False)])
def test_a_status_that_is_written_anyway_carries_the_forecast_after_a_minute(*, looks: int, carries: bool) -> None:
    """A pool that grows tells what it had learnt by then."""
    world = serving_world("chat")
    while world.status("chat").forecast is None:
        look(world, 0.5)
    for _ in range(looks):
        look(world, 0.5)
    before = world.status("chat")
    look(world, 3.5)
    now = world.status("chat")
    assert now.desired_replicas > before.desired_replicas
    assert (now.forecast != before.forecast) is carries


def test_a_forecast_is_never_beside_another_unit_than_its_own() -> None:
    """Targets are edited right after a write: what replicas serve of long prompts changes more than of declared ones.

    A new process would take the same work for a third more, or less, than has ever come.
    """
    spec, prompts = replace(pool_spec(1, SCALING), slo=Slo(ttft=((95, 0.5),))), 6000.0
    world = World.of([board(f"b-{at}") for at in range(4)], pool("chat", spec))
    world.turn(5)
    while world.status("chat").forecast is None:
        look(world, 2.0, prompts)
    before = learnt(world)
    world.edit("chat", replace(spec, slo=Slo(ttft=((95, 4.0),))))
    look(world, 2.0, prompts)
    assert abs(learnt(world).highest - before.highest) > math.log(1.3)
    again = restarted(world, world.status("chat"))
    look(again, 2.0, prompts)
    assert learnt(again).highest == pytest.approx(learnt(world).highest, abs=0.01)


def test_few_statuses_are_written_for_forecasts_in_one_pass() -> None:
    """All pools learn in the same one; a second decision on its result finds nothing left to do."""
    names = [f"pool-{at:02}" for at in range(MOST_IN_A_PASS + 5)]
    world = serving_world(*names)
    told = []
    for _ in range(6):
        look(world, 0.5)
        first = {name: world.status(name).forecast for name in names}
        told.append(sum(kept is not None for kept in first.values()))
        world.decide()
        assert first == {name: world.status(name).forecast for name in names}
    assert sorted({0, MOST_IN_A_PASS, len(names)}) == sorted(set(told))


@pytest.mark.parametrize("text", ["2.", "2.AAAA", "1.AAAA", "3.AAAA", "anything"])
def test_what_cannot_be_read_is_as_if_nothing_was_known_and_is_replaced(text: str) -> None:
    world = serving_world("chat")
    for worth in [0.5] * 8:
        look(world, worth)
    status = replace(world.status("chat"), forecast=KeptForecast(text, world.now))
    again, nothing = restarted(world, status), restarted(world, replace(status, forecast=None))
    for _ in range(int(LEAST_KEPT_SECONDS / LOOK) + 4):
        look(again, 0.5)
        look(nothing, 0.5)
        assert learnt(again) == learnt(nothing)
    kept = again.status("chat").forecast
    assert kept is not None
    assert kept.learnt != text


def test_days_that_were_counted_before_the_first_look_are_known_from_then_on() -> None:
    """They are taken over once, with all else that the forecast has learnt, and go into the status."""
    world, past = serving_world("chat"), Past(((0.25,) * QUARTERS_A_DAY, ()), (1.0, 1.0))
    look(world, 0.5)
    world.now += LOOK
    decisions = decide(replace(world.snapshot(), pasts={"uid-chat": past}), load())
    found = decisions.memory["uid-chat"].forecast
    assert found is not None
    assert (found.days, found.foretold) == (past.days, past.foretold)
    world.memory = dict(decisions.memory)
    for _ in range(4):
        look(world, 0.5)
    again = restored(world.status("chat").forecast, world.now)
    assert again is not None
    assert again.days == past.days
