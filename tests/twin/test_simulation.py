"""Whole simulations: the operator's own functions run the cluster that serves a trace."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.twin.simulated import INPUT, OUTPUT, Written, chat, duo, setting, trace
from weft.domain.reasons import Reason
from weft.domain.workload import Role
from weft.twin.cluster.start_up import Fault, FaultKind, StartPhases
from weft.twin.engine.steps import StepTable
from weft.twin.serving.front import FrontOptions
from weft.twin.simulation import FINISH_SECONDS, USUAL_MOMENTS, sample_seconds, simulate
from weft.twin.traffic.trace import Trace

if TYPE_CHECKING:
    from weft.twin.outcome import PoolSample, SimulationOutcome

EVEN = StartPhases(image_seconds=30.0, weights_seconds=60.0, compile_seconds=5.0, capture_seconds=5.0, spread=0.0)


def samples(outcome: SimulationOutcome, at: float, pool: int = 0) -> PoolSample:
    """One pool at one moment of the timeline."""
    return next(moment.pools[pool] for moment in outcome.timeline if moment.at >= at)


def reasons(outcome: SimulationOutcome) -> list[Reason]:
    return [each.explanation.reason for each in outcome.told]


def test_the_fleet_is_up_for_the_declared_rate_before_the_first_request() -> None:
    """At no cost: its GPU-hours begin with the trace."""
    outcome = simulate(setting(trace((120.0, 0.5)), chat(), start_up=EVEN))
    first = outcome.timeline[0]
    assert first.at == 0.0
    assert first.pools[0].ready == first.pools[0].desired == first.pools[0].paid > 0
    assert outcome.answers.completed.all()
    assert outcome.pools[0].gpu_seconds == pytest.approx(120.0 * first.pools[0].desired)
    assert outcome.pools[0].cost == pytest.approx(outcome.pools[0].gpu_seconds / 3600.0 * 1.2)
    assert (outcome.policy, outcome.stream, outcome.model) == ("weft", "chat", "meta-llama/Llama-3.1-8B-Instruct")


def test_the_fleet_is_up_before_the_first_request_however_long_a_start_takes() -> None:
    """Two hours and more: `--start-up` takes up to a day."""
    slow = replace(EVEN, weights_seconds=7200.0)
    outcome = simulate(setting(trace((120.0, 0.5)), chat(), start_up=slow))
    first = outcome.timeline[0].pools[0]
    assert first.ready == first.desired > 0
    assert outcome.answers.completed.all()


def test_a_step_in_the_demand_grows_the_pool_and_its_end_shrinks_it_without_a_lost_request() -> None:
    step = trace((180.0, 1.0), (420.0, 6.0), (600.0, 1.0))
    outcome = simulate(setting(step, chat(), start_up=EVEN))
    before, grown, after = (samples(outcome, at).desired for at in (120.0, 540.0, 1140.0))
    assert before < grown
    assert after < grown
    assert samples(outcome, 540.0).ready == grown
    assert samples(outcome, 1140.0).paid == after
    assert {Reason.ScaleUp, Reason.ScaleDown} <= set(reasons(outcome))
    assert outcome.answers.completed.all()
    assert outcome.pools[0].changes == sum(reason in {Reason.ScaleUp, Reason.ScaleDown} for reason in reasons(outcome))


def test_an_order_in_a_short_trace_is_drawn_within_two_seconds() -> None:
    outcome = simulate(setting(trace((180.0, 1.0), (420.0, 6.0)), chat(), start_up=EVEN))
    wanted = [(moment.at, moment.pools[0].desired) for moment in outcome.timeline]
    drawn = [later for (_, before), (later, after) in pairwise(wanted) if before != after]
    ordered = [each.at for each in outcome.told if each.explanation.reason in {Reason.ScaleUp, Reason.ScaleDown}]
    assert len(drawn) == len(ordered) > 0
    assert all(0.0 <= at - order <= 2.0 for at, order in zip(drawn, ordered, strict=True))
    assert len(outcome.timeline) <= USUAL_MOMENTS + 2


@pytest.mark.parametrize(
    ("trace_seconds", "apart"), [(0.0, 1.0), (300.0, 1.0), (600.0, 2.0), (3600.0, 15.0), (86400.0, 60.0), (1e7, 60.0)]
)
def test_moments_are_a_minute_apart_and_closer_in_short_traces(trace_seconds: float, apart: float) -> None:
    assert sample_seconds(trace_seconds) == apart
    assert 60.0 % apart == 0.0


def test_how_often_is_looked_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    found = setting(trace((180.0, 1.0), (420.0, 6.0)), chat(), until_answered=True)
    often = simulate(found)
    monkeypatch.setattr("weft.twin.simulation.SAMPLE_SECONDS", (60.0,))
    seldom = simulate(found)
    assert len(often.timeline) > 20 * len(seldom.timeline)
    assert often.answers.ttft.tobytes() == seldom.answers.ttft.tobytes()
    assert (often.told, often.pools, often.seconds) == (seldom.told, seldom.pools, seldom.seconds)


@pytest.mark.parametrize("factor", [1.0, 2.5])
def test_a_step_buys_what_it_needs_and_little_for_the_backlog_of_its_starts(factor: float) -> None:
    """2 to 13 requests/s need 11 replicas; those that start for minutes find a backlog that takes a few more."""
    slow = replace(EVEN, image_seconds=factor * EVEN.image_seconds, weights_seconds=factor * EVEN.weights_seconds)
    step = trace((600.0, 2.0), (600.0, 13.0))
    outcome = simulate(setting(step, chat(max_replicas=60), start_up=slow, boards=8))
    counts = [moment.pools[0].desired for moment in outcome.timeline if moment.at >= 660.0]
    assert counts[0] >= 11
    assert max(counts) <= 1.5 * 11


def test_what_starts_is_paid_for_before_it_serves() -> None:
    outcome = simulate(setting(trace((360.0, 1.0)), chat(), start_up=EVEN), Written((0.0, 1), (60.0, 3)))
    growing = samples(outcome, 120.0)
    assert (growing.desired, growing.ready, growing.paid) == (3, 1, 3)
    assert samples(outcome, 240.0).ready == 3


def test_gpu_seconds_are_those_from_binding_to_end() -> None:
    """One replica of two GPUs throughout, a second one from 61 s on, when it is bound."""
    written = Written((0.0, 1), (60.0, 2))
    outcome = simulate(setting(trace((300.0, 0.2)), chat(tp=2), start_up=EVEN), written)
    assert outcome.pools[0].gpu_seconds == pytest.approx(2 * (300.0 + 300.0 - 61.0))
    later = simulate(setting(trace((300.0, 0.2)), chat(tp=2), start_up=EVEN, warm_up=100.0), Written(*written.plan))
    assert later.pools[0].gpu_seconds == pytest.approx(2 * (200.0 + 200.0))
    assert later.pools[0].changes == 0


def test_a_replica_on_a_node_that_fails_is_replaced() -> None:
    """Kubernetes needs 40 s to see it; whoever was inside is lost or tries again, nobody else."""
    faults = (Fault("b-0", 200.0, FaultKind.Fails), Fault("b-1", 200.0, FaultKind.Fails))
    found = setting(trace((600.0, 1.0)), chat(tp=8, min_replicas=2), start_up=EVEN, boards=4)
    outcome = simulate(replace(found, faults=faults))
    assert Reason.NodeNotReady in reasons(outcome)
    assert samples(outcome, 180.0).ready == 2
    assert samples(outcome, 240.0).ready < 2
    assert samples(outcome, 540.0).ready == 2
    late = outcome.answers.arrived > 300.0
    assert outcome.answers.completed[late].all()


def test_a_replica_leaves_a_cordoned_node_once_another_one_serves() -> None:
    faults = tuple(Fault(f"b-{index}", 100.0, FaultKind.Cordoned) for index in (0, 1))
    found = setting(trace((420.0, 1.0)), chat(tp=8, min_replicas=2), start_up=EVEN, boards=4)
    outcome = simulate(replace(found, faults=faults))
    assert len({each.explanation.message for each in outcome.told}) == len(outcome.told) == 2
    assert set(reasons(outcome)) == {Reason.NodeCordoned}
    assert {sample.paid for moment in outcome.timeline for sample in moment.pools} >= {2, 3}
    assert all(moment.pools[0].ready >= 2 for moment in outcome.timeline)
    assert outcome.answers.completed.all()


def test_a_policy_sees_its_pools_and_gets_its_counts() -> None:
    written = Written((0.0, 2), (120.0, 4), (300.0, 1))
    outcome = simulate(setting(trace((480.0, 0.5)), chat(min_replicas=2, max_replicas=3), start_up=EVEN), written)
    assert [samples(outcome, at).desired for at in (60.0, 240.0, 480.0)] == [2, 3, 2]
    assert outcome.pools[0].changes == 2
    assert outcome.policy == "written"
    (view,) = written.seen[6][1]
    assert (view.name, view.count, view.ready, view.least, view.most, view.gpus) == ("chat", 3, 2, 2, 3, 1)
    assert view.starting == 1
    assert view.capacity.of(2) > 0
    assert view.observation is not None
    assert [now for now, _ in written.seen[:3]] == [0.0, 30.0, 60.0]
    assert Reason.ScaleUp not in reasons(outcome)


@pytest.mark.parametrize(("image", "shares"), [(None, True), ("example.org/router:1", False)])
def test_a_policy_is_told_what_prefill_replicas_serve_together(image: str | None, shares: bool) -> None:  # noqa: FBT001
    """Behind a router of Weft's choice each serves more than alone (ADR 0113), whoever counts them."""
    asked = duo(trace((30.0, 1.0)), start_up=EVEN)
    spec = asked.splits[0].spec
    assert spec is not None
    behind = replace(asked.splits[0], spec=replace(spec, router=replace(spec.router, image=image)))
    written = Written((0.0, 1))
    simulate(replace(asked, splits=(behind,)), written)
    seen = {view.role: view.capacity for view in written.seen[0][1]}
    assert (seen[Role.Prefill].each(4) > 1.05 * seen[Role.Prefill].alone) is shares
    assert seen[Role.Decode].each(4) == seen[Role.Decode].alone > 0.0


def test_both_halves_of_a_split_serve_and_are_counted_apart() -> None:
    outcome = simulate(duo(trace((240.0, 3.0)), start_up=EVEN))
    assert [pool.name for pool in outcome.pools] == ["duo-prefill", "duo-decode"]
    assert all(sample.ready > 0 for sample in outcome.timeline[0].pools)
    assert outcome.answers.completed.all()
    assert outcome.slo.ttft == ((95, 5.0),)
    assert outcome.slo.tpot == ((95, 0.1),)


def test_a_policy_counts_both_halves_of_a_split() -> None:
    outcome = simulate(duo(trace((480.0, 1.0)), start_up=EVEN), Written((0.0, 2), (300.0, 3)))
    assert [samples(outcome, 240.0, half).ready for half in (0, 1)] == [2, 2]
    assert [sample.ready for sample in outcome.timeline[-1].pools] == [3, 3]


def test_the_same_setting_has_the_same_outcome() -> None:
    """Byte for byte, and another seed starts replicas at other times."""
    step = trace((60.0, 1.0), (240.0, 5.0))
    one, two = (simulate(setting(step, chat())) for _ in range(2))
    assert repr(replace(one, wall_seconds=0.0, answers=two.answers)) == repr(replace(two, wall_seconds=0.0))
    assert one.answers.ttft.tobytes() == two.answers.ttft.tobytes()
    assert one.answers.tpot.tobytes() == two.answers.tpot.tobytes()
    other = simulate(setting(step, chat(), seed=1))
    assert other.answers.ttft.tobytes() != one.answers.ttft.tobytes()


def test_engines_may_be_slower_than_the_model_has_them() -> None:
    """Weft plans with the model, and policies see it, but answers come as fast as engines truly are."""
    found = setting(trace((120.0, 0.5)), chat(), start_up=EVEN)
    usual = simulate(found, Written((0.0, 1)))
    slow = StepTable({(1, 1): 0.2, (101, 1): 0.3}, {(1, 1): 0.0001, (20_001, 1): 1.0})
    slower = simulate(replace(found, truth=lambda speed: replace(speed, steps=slow)), Written((0.0, 1)))
    assert np.nanmax(usual.answers.tpot) < 0.1
    assert np.nanmin(slower.answers.tpot) >= 0.19


def test_progress_goes_from_nothing_to_all_of_it() -> None:
    told: list[float] = []
    simulate(setting(trace((60.0, 0.5)), chat(), start_up=EVEN), progress=told.append)
    assert told == sorted(told)
    assert (told[0], told[-1]) == (0.0, 1.0)


def test_a_pool_that_nobody_asks_keeps_its_replicas_and_costs() -> None:
    """Without metrics nothing shrinks."""
    idle = replace(chat(), key=replace(chat().key, name="idle", uid="uid-idle"))
    outcome = simulate(setting(trace((180.0, 0.5)), chat(), idle, start_up=EVEN))
    assert [pool.name for pool in outcome.pools] == ["chat", "idle"]
    asked, quiet = outcome.timeline[-1].pools
    assert quiet.ready == outcome.timeline[0].pools[1].ready > 0
    assert (quiet.waiting, quiet.running) == (0, 0)
    assert asked.ready > 0
    assert outcome.pools[1].gpu_seconds == pytest.approx(180.0 * quiet.ready)


def test_a_fleet_that_has_no_room_begins_as_far_as_it_came() -> None:
    """What nobody could place is wanted all the same, and costs nothing."""
    outcome = simulate(setting(trace((60.0, 0.2)), chat(tp=8, min_replicas=3), start_up=EVEN, boards=2))
    first = outcome.timeline[0].pools[0]
    assert (first.desired, first.ready, first.paid) == (3, 2, 2)
    assert outcome.answers.completed.all()


def test_what_is_inside_an_engine_on_a_failed_node_is_lost_unless_its_client_tries_again() -> None:
    faults = (Fault("b-0", 60.0, FaultKind.Fails),)
    found = setting(trace((240.0, 1.0)), chat(tp=8, min_replicas=2), start_up=EVEN, boards=2)
    lost = simulate(replace(found, faults=faults))
    again = simulate(replace(found, faults=faults, front=FrontOptions(retries=2)))
    assert not lost.answers.completed.all()
    assert again.answers.completed.all()
    assert again.retried > 0 == lost.retried


def at_once(requests: int) -> Trace:
    """All of them at the very beginning."""
    return Trace(np.zeros(requests), np.full(requests, INPUT, np.int32), np.full(requests, OUTPUT, np.int32))


def last_answer(outcome: SimulationOutcome) -> float:
    answers = outcome.answers
    return float(np.max(answers.arrived + answers.ttft + (OUTPUT - 1) * answers.tpot))


def test_requests_that_all_come_at_once_are_paid_for_until_the_last_one_is_answered() -> None:
    """One replica of two GPUs, for as long as it works."""
    found = setting(at_once(50), chat(tp=2), start_up=EVEN, until_answered=True)
    outcome = simulate(found, Written((0.0, 1)))
    assert outcome.answers.completed.all()
    assert outcome.seconds == pytest.approx(last_answer(outcome), abs=0.1) != 0.0
    assert outcome.pools[0].gpu_seconds == pytest.approx(2 * outcome.seconds)
    assert outcome.timeline[-1].at == outcome.seconds


def test_the_operator_goes_on_while_the_last_requests_wait() -> None:
    """More than its one replica answers in ten minutes come within a second: it orders more of them."""
    outcome = simulate(setting(at_once(1200), chat(), start_up=EVEN, until_answered=True))
    assert outcome.pools[0].changes > 0
    assert outcome.timeline[-1].pools[0].paid > outcome.timeline[0].pools[0].paid


def test_what_never_ends_is_not_waited_for_for_ever() -> None:
    """No node is left that could answer."""
    faults = tuple(Fault(f"b-{index}", 0.0, FaultKind.Fails) for index in range(3))
    found = setting(trace((60.0, 0.5)), chat(), start_up=EVEN, until_answered=True)
    outcome = simulate(replace(found, faults=faults))
    assert outcome.seconds == 60.0 + FINISH_SECONDS


def test_a_benchmark_counts_until_the_last_arrival_alone() -> None:
    """Rows of bench/scaling_rows.jsonl were counted so."""
    found = setting(trace((120.0, 0.5)), chat(), start_up=EVEN)
    outcome, longer = simulate(found), simulate(replace(found, until_answered=True))
    assert outcome.seconds == 120.0 < longer.seconds < 150.0
    assert outcome.pools[0].gpu_seconds < longer.pools[0].gpu_seconds
    assert outcome.answers.ttft.tolist() == longer.answers.ttft.tolist()
