"""Counts follow live demand through the whole pass."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from tests.scaling.cases import seen
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.snapshot import Caveat
from weft.domain.workload import Slo

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolObservation

AUTO = ScalingSpec(max_replicas=4, scale_down_delay_seconds=60.0, headroom=0.0)


def auto_world(scaling: ScalingSpec = AUTO, boards: int = 6) -> World:
    world = World.of([board(f"b-{i}") for i in range(boards)], pool("chat", pool_spec(8, scaling)))
    world.turn(5)
    return world


def capacity(world: World) -> float:
    plan = world.status("chat").plan
    assert plan is not None
    return plan.prediction.capacity


def observe(world: World, replicas_worth: float, **fields: object) -> None:
    """Traffic that so many replicas could serve."""
    observation = seen(replicas_worth * capacity(world), world.serving("chat"))
    world.observations["uid-chat"] = replace(observation, **fields)  # type: ignore[arg-type]


def test_demand_beyond_capacity_adds_replicas_in_one_decision() -> None:
    world = auto_world()
    observe(world, 2.5)
    world.turn()
    assert len(world.status("chat").assignments) == 3
    event = world.decision("chat").events[0]
    assert event.reason is Reason.ScaleUp
    assert event.message.startswith("1 -> 3 replicas: ")


def test_of_a_pool_whose_count_others_own_traffic_moves_nothing_but_what_is_recommended() -> None:
    """The advisory mode of Dynamo's planner: from no request to many times what runs, and back."""
    world = auto_world(replace(external(2, most=20), scale_down_delay_seconds=60.0, headroom=0.0))
    before, recommended = world.status("chat"), []
    pods = set(world.pods)
    for worth in (0.0, 1.5, 9.0, 0.5):
        for _ in range(40):
            observe(world, worth)
            world.turn()
            after = world.status("chat")
            assert (after.desired_replicas, after.assignments, after.plan) == (2, before.assignments, before.plan)
            assert set(world.pods) == pods
        recommended.append(world.decision("chat").recommended)
    assert [1, 2, 1] == [recommended[0], recommended[1], recommended[3]]
    assert 9 <= recommended[2] <= 13


def test_a_new_pool_is_told_its_shape_before_how_many_replicas_of_it() -> None:
    world = World.of([board("b-0")], pool("chat", pool_spec(8, AUTO)))
    told: list[Reason] = []
    for _ in range(3):
        world.turn()
        told += [event.reason for event in world.decision("chat").events]
    assert [Reason.ShapeChosen, Reason.ScaleUp] == told


@settings(max_examples=15, deadline=None)
@given(less=st.floats(0, 6), more=st.floats(0, 6), past=st.lists(st.floats(0, 5), max_size=6))
def test_more_demand_never_means_fewer_replicas_of_a_fixed_shape(less: float, more: float, past: list[float]) -> None:
    """After any history, in turns of half a minute; nothing but the bounds limits the count."""
    counts = []
    for worth in sorted((less, more)):
        world = auto_world(replace(AUTO, max_replicas=8), boards=8)
        for replicas_worth in (*past, worth, worth, worth):
            observe(world, replicas_worth)
            world.turn(seconds=30.0)
        counts.append(world.status("chat").desired_replicas)
    assert counts[0] <= counts[1]


def test_a_quiet_window_removes_them_again() -> None:
    world = auto_world()
    observe(world, 2.5)
    world.turn(5)
    assert world.serving("chat") == 3
    for _ in range(30):  # 150 s: a minute after the last new replica, which nothing is concluded from, and the window
        observe(world, 0.5)
        world.turn()
    assert world.serving("chat") == 1
    assert world.status("chat").scale is not None


def test_without_metrics_the_count_stays() -> None:
    world = auto_world()
    observe(world, 2.5)
    world.turn(5)
    world.observations.clear()
    world.turn(60)
    assert world.serving("chat") == 3
    scale = world.status("chat").scale
    assert scale is not None
    assert scale.reason is Reason.HoldMetricsMissing


def test_the_status_calls_live_what_is_in_force() -> None:
    world = auto_world()
    observe(world, 0.5, input_tokens=1040.0)
    world.turn()
    observed = world.status("chat").observed
    assert observed is not None
    assert observed.live == ("requestsPerSecond",)
    observe(world, 0.5, input_tokens=4000.0)
    world.turn()
    observe(world, 0.0)
    world.turn()
    observed = world.status("chat").observed
    assert observed is not None
    assert observed.live == ("requestsPerSecond", "inputTokens")


def test_one_minute_of_a_few_longer_prompts_changes_nothing() -> None:
    """Of twelve requests a minute chance alone makes a third more; what lasts for minutes is followed."""
    world = auto_world()
    for tokens, minutes, taken in ((1000.0, 9, 1000.0), (1300.0, 1, 1000.0), (1300.0, 9, 1300.0)):
        observe(world, 0.5, input_tokens=tokens, requests_per_second=0.2)
        world.turn(minutes, seconds=60.0)
        workload = world.memory["uid-chat"].workload
        assert workload is not None
        assert workload.input_tokens == pytest.approx(taken, rel=0.05)


def test_an_edited_workload_counts_at_once_where_nothing_else_is_measured() -> None:
    world = auto_world()
    observe(world, 0.9)
    world.turn(2)
    assert world.status("chat").desired_replicas == 1
    spec = pool_spec(8, AUTO)
    longer = replace(spec.workload, input_tokens=4000, output_tokens=800, input_tokens_p95=8000, output_tokens_p95=1600)
    world.edit("chat", replace(spec, workload=longer))
    world.turn()
    assert world.status("chat").desired_replicas > 1


def test_what_margins_cost_is_learnt_anew_once_the_lengths_that_work_is_counted_in_were_edited() -> None:
    world, requests = auto_world(), []
    spec = pool_spec(8, AUTO)
    observe(world, 0.9)
    for workload in (spec.workload, replace(spec.workload, output_tokens=800, output_tokens_p95=1600)):
        world.edit("chat", replace(spec, workload=workload))
        world.turn(20 if workload == spec.workload else 1, seconds=30.0)
        state = world.memory["uid-chat"].forecast
        assert state is not None
        requests.append(state.costs[0])
    assert requests[0] > 10 * requests[1] > 0.0


def test_longer_requests_need_more_replicas_at_the_same_rate() -> None:
    """Live token counts change what one replica serves; the shape stays as it is."""
    world = auto_world()
    shape = world.status("chat").plan
    observe(world, 0.9, input_tokens=4000.0, output_tokens=800.0)
    world.turn()
    assert world.status("chat").desired_replicas > 1
    assert world.status("chat").plan == shape


def test_a_count_that_has_no_slots_stays_desired_and_is_placed_when_there_are() -> None:
    world = auto_world(boards=2)
    observe(world, 3.5)
    world.turn(3)
    assert world.status("chat").desired_replicas == 4
    assert len(world.status("chat").assignments) == 2
    assert world.condition("chat", "Placed")[1] == "NoSlot"
    world.nodes += [board("b-8"), board("b-9")]
    world.turn()
    assert len(world.status("chat").assignments) == 4


def test_ten_quiet_minutes_write_nothing() -> None:
    """L3: the same traffic with its noise leaves status and conditions as they are, but for the live figures."""
    world = auto_world()
    observe(world, 2.5)
    world.turn(8)
    observe(world, 2.5)
    world.turn(20)
    written = set()
    for index in range(120):
        observe(world, 2.45 if index % 2 else 2.55, waiting=float(index % 3), running=20.0 + index % 5)
        world.turn()
        status = replace(world.status("chat"), observed=None)
        written.add((status, world.decision("chat").conditions, world.decision("chat").recommended))
    assert len(written) == 1


def measured(**fields: object) -> PoolObservation:
    return replace(seen(1.0, 1), **fields)  # type: ignore[arg-type]


def test_slo_conditions_compare_percentiles_with_their_targets() -> None:
    world = auto_world()
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, slo=Slo(ttft=((95, 0.5),), tpot=((90, 0.05),))))
    answers = []
    for observation in (
        None,
        measured(),
        measured(ttft=((95, 0.4),), tpot=((90, 0.04),)),
        measured(ttft=((95, 0.6),), tpot=((90, 0.04),)),
    ):
        world.observations = {"uid-chat": observation} if observation else {}
        world.turn()
        answers.append(world.condition("chat", "SLOMet"))
    assert [reason for _, reason, _ in answers] == ["MetricsMissing", "NoTraffic", "WithinSLO", "AboveSLO"]
    assert answers[3] == ("False", "AboveSLO", "p95 TTFT is above 500 ms")


def test_a_target_inside_the_first_bucket_is_judged_by_the_mean_and_says_so() -> None:
    """VLLM's first bucket of TPOT ends at 10 ms: a percentile in there is not told by it."""
    world = auto_world()
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, slo=Slo(tpot=((95, 0.008),))))
    buckets = ((0.01, 100.0), (0.025, 100.0), (math.inf, 100.0))
    fast = measured(tpot=((95, 0.004),), unresolved=(("tpot", 95),), tpot_buckets=buckets)
    world.observations = {"uid-chat": fast}
    world.turn()
    assert world.condition("chat", "SLOMet") == ("True", "WithinSLO", "p95 TPOT (by its mean) within target")


class TestCaveats:
    """SLOMet says what is odd about the latencies that it judges, and nothing about others."""

    FIRST_BUCKET = Caveat("TPOT percentiles below 10 ms are in the first bucket", "tpot", (0.0, 0.01))
    RENAMED = Caveat("x is read in place of y", "tpot")
    OTHERS = (Caveat("the engine does not show z"), Caveat("TTFT is odd", "ttft"))

    def told(self, target: float, *caveats: Caveat) -> str:
        world = auto_world()
        spec = world.pools["chat"].spec
        assert spec is not None
        world.edit("chat", replace(spec, slo=Slo(tpot=((95, target),))))
        unresolved = (("tpot", 95), ("ttft", 95))
        world.observations = {"uid-chat": measured(tpot=((95, 0.004),), unresolved=unresolved, caveats=caveats)}
        world.turn()
        return world.condition("chat", "SLOMet")[2]

    def test_one_about_a_latency_with_a_target_is_told(self) -> None:
        assert self.told(0.03, *self.OTHERS, self.RENAMED) == "p95 TPOT within target; x is read in place of y"
        assert self.told(0.001, self.RENAMED) == "p95 TPOT is above 1 ms; x is read in place of y"

    def test_one_about_blurred_percentiles_only_where_the_target_is_in_the_blur(self) -> None:
        assert self.told(0.008, self.FIRST_BUCKET).endswith(
            "target; TPOT percentiles below 10 ms are in the first bucket"
        )
        assert self.told(0.03, self.FIRST_BUCKET) == "p95 TPOT within target"

    def test_all_of_them_are_in_the_status(self) -> None:
        world = auto_world()
        world.observations = {"uid-chat": measured(caveats=(*self.OTHERS, self.RENAMED))}
        world.turn()
        observed = world.status("chat").observed
        assert observed is not None
        assert observed.caveats == ("the engine does not show z", "TTFT is odd", "x is read in place of y")


def test_latencies_that_an_engine_does_not_show_are_no_lack_of_traffic() -> None:
    world = auto_world()
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, slo=Slo(ttft=((95, 0.5),))))
    world.observations = {"uid-chat": measured(missing=("vllm:time_to_first_token_seconds",))}
    world.turn()
    expected = ("Unknown", "MetricsMissing", "the engine's metrics lack vllm:time_to_first_token_seconds")
    assert world.condition("chat", "SLOMet") == expected


@pytest.mark.parametrize("scaling", [replace(AUTO, max_gpus=4), replace(external(3), max_gpus=4)], ids=["auto", "own"])
def test_a_budget_below_one_replica_is_named_where_people_look(scaling: ScalingSpec) -> None:
    """S4: the count is below `minReplicas`, so the condition says which field keeps it there."""
    world = auto_world(scaling)
    assert world.status("chat").desired_replicas == 0
    assert world.condition("chat", "Placed") == (
        "False",
        "BudgetExhausted",
        "spec.scaling.maxGPUs 4 allows 0 replicas of 8 GPUs: raise it to at least 8",
    )


def test_a_budget_below_the_minimum_is_named_although_what_it_pays_for_is_placed() -> None:
    world = auto_world(replace(AUTO, min_replicas=3, max_gpus=16))
    assert world.serving("chat") == 2
    assert world.condition("chat", "Placed")[:2] == ("False", "BudgetExhausted")
