"""Dynamo's planner by hand: what an engine can do, the floor by forecast, steps of one where every engine agrees."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.twin.policies.fluid import Fluid
from tests.twin.policies.views import SPEED, STEPS, pod, view
from weft.domain.workload import Role
from weft.twin.engine.steps import StepTable
from weft.twin.policies.dynamo import DynamoOptions, _Forecast
from weft.twin.policies.forward_pass import ForwardPass, Requests, Targets
from weft.twin.policies.predictors import Kalman, PredictorName

PASSES = ForwardPass(SPEED)
REQUESTS = Requests.of(1000.0, 200.0, 0.0)
TARGETS = Targets(2.0, 0.030)


def test_decode_serves_the_largest_batch_within_the_itl() -> None:
    assert 40 / (200 * 0.030) == pytest.approx(PASSES.decode_capacity(REQUESTS, TARGETS))


def test_where_no_batch_is_within_the_itl_the_best_rate_counts() -> None:
    assert 64 / (200 * 0.042) == pytest.approx(PASSES.decode_capacity(REQUESTS, Targets(itl=0.001)))


def test_the_batch_is_bound_by_kv_memory() -> None:
    long = Requests.of(3000.0, 200.0, 0.0)  # 22 of 3,100 tokens fit
    assert 22 / (200 * 0.021) == pytest.approx(PASSES.decode_capacity(long, TARGETS))


def test_prefill_serves_batches_within_the_ttft_and_computes_what_is_not_cached() -> None:
    assert pytest.approx(100.0) == PASSES.prefill_capacity(REQUESTS, TARGETS)
    assert pytest.approx(200.0) == PASSES.prefill_capacity(Requests.of(1000.0, 200.0, 0.5), TARGETS)
    assert pytest.approx(50.0) == Requests.of(1000.0, 200.0, 1.0).computed  # more than 0.95 is not believed


def test_an_aggregated_engine_takes_in_prompts_with_every_pass() -> None:
    # a pass of 36 sequences has 180 prompt tokens: 10 + 18 + 1.8 ms
    assert 36 / (200 * 0.0298) == pytest.approx(PASSES.aggregated_capacity(REQUESTS, TARGETS))


def test_a_launch_is_paid_once_where_prompts_and_sequences_share_a_pass() -> None:
    passes = ForwardPass(replace(SPEED, steps=StepTable(STEPS.decode_points, STEPS.prompt_points, 0.002)))
    assert pytest.approx(0.010 + 0.015 - 0.002) == passes.drained(1000.0, 10.0, 11_000.0)
    assert pytest.approx(0.030 + 40 / 200 * (0.010 - 0.002)) == passes.mean_pass(REQUESTS, 40.0, 44_000.0)


def test_long_prompts_are_computed_in_chunks() -> None:
    assert pytest.approx(0.3) == PASSES.drained(30_000.0)


@pytest.mark.parametrize("name", PredictorName)
def test_zeros_before_the_first_request_are_no_data(name: PredictorName) -> None:
    predictor = name.make()
    predictor.add(0.0)
    assert predictor.next() is None
    predictor.add(7.0)
    assert 7.0 == predictor.next()


def test_the_last_value_is_the_next_one() -> None:
    predictor = PredictorName.Constant.make()
    for value in (3.0, 9.0, 0.0):
        predictor.add(value)
    assert 0.0 == predictor.next()


def test_the_filter_follows_a_line_and_goes_on_along_it() -> None:
    predictor = Kalman()
    predictor.add(0.0)
    assert predictor.next() is None
    predictor.add(100.0)
    assert 100.0 == predictor.next()
    for step in range(1, 4):
        predictor.add(100.0 * step + 100.0)
    assert pytest.approx(500.0, rel=0.02) == predictor.next()  # it waits for no fifth point
    for step in range(4, 30):
        predictor.add(100.0 * step + 100.0)
    assert pytest.approx(3100.0, rel=0.01) == predictor.next()


def test_the_filter_stays_on_a_constant_and_above_zero() -> None:
    steady, falling = Kalman(), Kalman()
    for step in range(20):
        steady.add(50.0)
        falling.add(max(0.0, 950.0 - 50.0 * step))
    assert pytest.approx(50.0) == steady.next()
    assert 0.0 == falling.next()


def test_the_first_two_steps_of_the_filter() -> None:
    predictor = Kalman()
    predictor.add(10.0)
    predictor.add(20.0)
    # variances 1000: the level's is 2001 before the second point, so gains are 2001 / 2011 and 1000 / 2011
    assert (10.0 + 10.0 * 2001 / 2011, 10.0 * 1000 / 2011) == pytest.approx((predictor._level, predictor._trend))


def run(policy: DynamoOptions, seconds: int, **of_view: object) -> int | None:
    """The last answer of a planner that looks every 5 s at the same pool."""
    planner = policy.policy()
    seen = view(*[pod(running=36.0, kv=36 / 64)] * 4, **of_view)  # type: ignore[arg-type]
    return [planner.counts(5.0 * tick, (seen,)) for tick in range(seconds // 5 + 1)][-1].get("chat")


def test_the_floor_comes_after_180_seconds_and_is_demand_over_capacity() -> None:
    assert 4 == run(DynamoOptions(), 175, role=Role.Decode, arriving=50.0)
    assert 8 == run(DynamoOptions(), 180, role=Role.Decode, arriving=50.0)  # 50 / 6.67 = 7.5
    assert 9 == run(DynamoOptions(), 180, role=Role.Aggregated, arriving=50.0)  # 50 / 6.04 = 8.3
    assert 3 == run(DynamoOptions(), 180, role=Role.Prefill, arriving=250.0)  # 250 / 100 = 2.5


def test_the_floor_is_of_what_is_foretold_and_load_is_judged_by_what_was_seen() -> None:
    """Answers grow by 20 tokens every three minutes: the filter goes on to 420, and none was longer than 400."""
    forecast = _Forecast(PredictorName.Kalman)
    seen = view(pod(), arriving=50.0)
    assert seen.observation is not None
    for interval in range(1, 16):
        grown = replace(seen.observation, output_tokens=100.0 + 20.0 * interval)
        forecast.look(180.0 * interval, replace(seen, observation=grown))
        assert pytest.approx(50.0, rel=0.01) == forecast.end_interval(180.0 * interval)
    assert 400.0 == forecast.seen(seen).answer
    assert pytest.approx(420.0, rel=0.01) == forecast.coming(seen).answer


@pytest.mark.parametrize("name", PredictorName)
def test_a_planner_is_named_by_its_predictor(name: PredictorName) -> None:
    expected = "dynamo" if name is PredictorName.Constant else f"dynamo-{name.value}"
    assert expected == DynamoOptions(name).policy().name


def test_the_floor_waits_while_replicas_start() -> None:
    assert run(DynamoOptions(), 180, role=Role.Decode, arriving=50.0, count=5) is None


def decode(*sequences: float, **of_view: object) -> dict[str, int]:
    """One look at decode engines with so many sequences each."""
    pods = [pod(running=each, kv=each / 64) for each in sequences]
    seen = view(*pods, role=Role.Decode, **of_view)  # type: ignore[arg-type]
    return dict(DynamoOptions().policy().counts(0.0, (seen,)))


def test_it_grows_by_one_and_only_where_every_engine_is_over_its_target() -> None:
    assert {"chat": 4} == decode(41.0, 50.0, 64.0)
    assert {"chat": 3} == decode(10.0, 64.0, 64.0)  # one hot pair is left alone


def test_it_shrinks_where_the_load_of_all_fits_on_one_less() -> None:
    assert {"chat": 2} == decode(18.0, 18.0, 18.0)  # 27 sequences take 23.5 ms of 24
    assert {"chat": 3} == decode(19.0, 19.0, 19.0)
    assert {"chat": 1} == decode(1.0)  # the last one stays


def test_prefill_is_judged_by_its_queue() -> None:
    def prefill(*waiting: float) -> dict[str, int]:
        seen = view(*[pod(waiting=each) for each in waiting], role=Role.Prefill)
        return dict(DynamoOptions().policy().counts(0.0, (seen,)))

    assert {"chat": 3} == prefill(200.0, 250.0)  # 201 prompts of 10 ms are over 2 s
    assert {"chat": 2} == prefill(198.0, 250.0)
    assert {"chat": 1} == prefill(79.0, 0.0)  # twice 79 x 10 ms is below 80 % of 1.99 s
    assert {"chat": 2} == prefill(80.0, 0.0)


@pytest.mark.parametrize(
    "of_view", [{"count": 4}, {"ready": 4, "count": 4}, {"blind": True}], ids=["starting", "silent", "blind"]
)
def test_it_only_looks_while_counts_do_not_agree(of_view: dict[str, object]) -> None:
    assert {} == decode(64.0, 64.0, 64.0, **of_view)


def test_engines_that_are_slower_than_their_profile_correct_it() -> None:
    planner = DynamoOptions().policy()
    slow = view(*[pod(running=36.0, kv=36 / 64, tpot=0.042)] * 4, role=Role.Decode, arriving=50.0)  # 28 by the profile
    answers = [planner.counts(5.0 * tick, (slow,))["chat"] for tick in range(37)]
    assert 5 == answers[10]  # 28 ms are 42 in truth, over the target
    assert 15 == answers[36]  # 20 sequences in 30 ms are 3.33 requests/s


def test_a_stricter_target_is_safer() -> None:
    counts = [run(DynamoOptions(target=part), 180, role=Role.Decode, arriving=50.0) for part in (1.2, 1.0, 0.7)]
    assert [7, 8, 10] == counts  # batches of 52, 40 and 22 take 36, 30 and 21 ms


def test_without_a_target_throughput_alone_counts() -> None:
    seen = replace(view(*[pod()] * 4, role=Role.Decode), slo=replace(view().slo, tpot=()))
    assert {"chat": 3} == DynamoOptions().policy().counts(0.0, (seen,))
    assert math.inf == Targets().itl


@pytest.mark.parametrize("rate", [12.0, 30.0, 90.0])
@pytest.mark.parametrize("predictor", [each for each in PredictorName if each.lacking is None])
def test_it_settles_within_its_targets(rate: float, predictor: PredictorName) -> None:
    fluid = Fluid(DynamoOptions(predictor).policy(), lambda _: rate).run(7200.0)
    assert 1 == len(set(fluid.last_counts))
    assert 0.0 == fluid.backlog


def test_one_step_at_a_time_does_not_catch_a_jump_while_replicas_start() -> None:
    """The floor waits for the step under way: ten minutes after a jump to five times the load it still queues."""
    fluid = Fluid(DynamoOptions().policy(), lambda now: 18.0 if now < 1000.0 else 90.0, start_seconds=300.0).run(1600.0)
    assert 5 >= max(fluid.counts[: int(1300 / 5)])
    assert fluid.backlog > 10_000
