"""Capacity under an SLO, for each role."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog.configs import TINY_LLAMA
from tests.perf.replicas import Parallel, replica, workload
from weft.catalog import architecture_from_config
from weft.domain.hardware import Precision
from weft.domain.shape import Limit
from weft.domain.workload import Role, Slo, Workload
from weft.perf import ErrorBar, Question, ReplicaModel, assess, half_as_likely, predict

LLAMA_70B = "Llama-3.3-70B-Instruct"
TINY = json.dumps(TINY_LLAMA | {"torch_dtype": "float32"})
H200 = replica(LLAMA_70B, "H200", Precision.FP8, 2)
EASY = Slo(ttft=((95, 2.0),), tpot=((95, 0.05),))


def test_a_tiny_model_on_the_test_accelerator_serves_one_to_two_requests_a_second() -> None:
    """The assumption that end-to-end scenarios on two cores are written against."""
    model = replace(
        replica("Llama-3.1-8B-Instruct", "cpu", Precision.BF16), architecture=architecture_from_config("t", TINY)
    )
    for slo in (Slo(), Slo(ttft=((95, 2.0),), tpot=((95, 0.2),))):
        assert 1.0 < predict(model, Workload(1, 64, 32, 64, 32), slo, Role.Aggregated).capacity < 2.0


@pytest.mark.parametrize("role", list(Role))
def test_every_role_has_a_capacity_with_and_without_targets(role: Role) -> None:
    for slo in (Slo(), EASY):
        assert predict(H200, workload(), slo, role).capacity > 0


def test_separate_roles_serve_more_than_one_that_does_both() -> None:
    both = predict(H200, workload(), EASY, Role.Aggregated).capacity
    assert predict(H200, workload(), EASY, Role.Prefill).capacity > both
    assert predict(H200, workload(), EASY, Role.Decode).capacity > both


def test_targets_count_only_where_the_role_works() -> None:
    impossible_tpot, impossible_ttft, brief = Slo(tpot=((50, 1e-6),)), Slo(ttft=((50, 1e-6),)), Slo(ttft=((50, 0.08),))
    assert predict(H200, workload(), impossible_tpot, Role.Prefill).capacity > 0
    assert predict(H200, workload(), brief, Role.Prefill).capacity == 0
    assert predict(H200, workload(), brief, Role.Decode).capacity > 0
    assert predict(H200, workload(), impossible_ttft, Role.Decode).capacity == 0  # KV has to come first
    assert predict(H200, workload(), impossible_tpot, Role.Aggregated).capacity == 0


def test_a_target_that_an_idle_replica_misses_is_told_with_both_numbers() -> None:
    found = assess(H200, Question(workload(), Slo(ttft=((95, 0.001),), tpot=((50, 10.0),)), Role.Aggregated))
    assert found.prediction.capacity == 0
    (miss,) = found.misses
    assert (miss.metric, miss.percentile, miss.target_seconds) == ("TTFT", 95, 0.001)
    assert miss.predicted_seconds > 0.05
    assert str(miss).startswith("TTFT p95 ")
    assert str(miss).endswith(" of 1 ms")


def test_predicted_means_stay_below_the_targets_that_capacity_keeps() -> None:
    predicted = predict(H200, workload(), EASY, Role.Aggregated)
    assert predicted.ttft.mean < 2.0
    assert predicted.tpot.mean < 0.05


def test_without_targets_four_fifths_of_the_kv_room_are_used() -> None:
    """Little's law holds at the predicted point: requests inside = rate x time inside."""
    predicted = predict(H200, workload(), Slo(), Role.Decode)
    assert predicted.limit is Limit.KVMemory
    inside = predicted.capacity * 200 * predicted.tpot.mean
    assert inside == pytest.approx(0.8 * predicted.max_batch)


def test_a_model_that_does_not_fit_has_no_capacity() -> None:
    predicted = predict(replica(LLAMA_70B, "H100", Precision.BF16), workload(), Slo(), Role.Aggregated)
    assert (predicted.capacity, predicted.max_batch, predicted.limit) == (0.0, 0, Limit.KVMemory)


def test_a_tight_tpot_binds_decode_and_a_tight_ttft_prefill() -> None:
    assert predict(H200, workload(), Slo(tpot=((95, 0.03),)), Role.Aggregated).limit is Limit.MemoryBandwidth
    assert predict(H200, workload(), Slo(ttft=((99, 0.4),)), Role.Aggregated).limit is Limit.Compute


def test_cached_prefixes_raise_capacity() -> None:
    cold = predict(H200, workload(4000, 100), EASY, Role.Aggregated).capacity
    assert predict(H200, workload(4000, 100, prefix_hit=0.8), EASY, Role.Aggregated).capacity > 1.5 * cold


def test_prefix_hits_of_all_tokens_and_empty_requests_stay_finite() -> None:
    for role in Role:
        for strange in (workload(1000, 200, prefix_hit=1.0), Workload(0, 0, 0, 0, 0)):
            assert 0 < predict(H200, strange, Slo(), role).capacity < 1e6


def test_70b_in_fp8_falls_off_a_cliff_on_one_h100() -> None:
    """Published: on H100 one GPU leaves no room for KV, two are far better than twice as fast."""
    one = predict(replica(LLAMA_70B, "H100", Precision.FP8, 1), workload(), Slo(), Role.Aggregated).capacity
    two = predict(replica(LLAMA_70B, "H100", Precision.FP8, 2), workload(), Slo(), Role.Aggregated).capacity
    assert two > 4 * one


def test_70b_in_fp8_on_h200_is_cheapest_per_gpu_on_one() -> None:
    """Published: offline throughput per GPU is best at TP1, and eight GPUs keep about 62 % of it."""
    one, eight = (
        predict(replica(LLAMA_70B, "H200", Precision.FP8, size), workload(), Slo(), Role.Aggregated).capacity / size
        for size in (1, 8)
    )
    assert 0.3 * one < eight < one


TARGETS = st.floats(min_value=0.001, max_value=5.0)
MODELS = st.sampled_from(
    [
        H200,
        replica("Llama-3.1-8B-Instruct", "H100", Precision.BF16),
        replica("DeepSeek-V3", "GB200", Precision.FP8, Parallel(tensor=2, data=8, expert=16)),
        replica("gpt-oss-120b", "H100", Precision.MXFP4),
    ]
)
PERCENTILES = st.sampled_from([50, 90, 95, 99])
# Halving finds a load to a few thousandths, so equal capacities may differ by that.
SLACK = 1.005


@given(MODELS, st.tuples(TARGETS, TARGETS), st.floats(1.0, 10.0), PERCENTILES, st.sampled_from(list(Role)))
def test_looser_targets_never_lower_capacity(
    model: ReplicaModel, targets: tuple[float, float], factor: float, percentile: int, role: Role
) -> None:
    ttft, tpot = targets
    tight = predict(model, workload(), Slo(((percentile, ttft),), ((percentile, tpot),)), role)
    loose = predict(model, workload(), Slo(((percentile, ttft * factor),), ((percentile, tpot * factor),)), role)
    assert loose.capacity * SLACK >= tight.capacity


@given(MODELS, TARGETS, st.floats(1.0, 10.0), st.sampled_from(list(Role)))
def test_faster_memory_never_lowers_capacity(model: ReplicaModel, tpot: float, factor: float, role: Role) -> None:
    bandwidth = model.accelerator.memory_bandwidth * factor
    faster = replace(model, accelerator=replace(model.accelerator, memory_bandwidth=bandwidth))
    slo = Slo(tpot=((95, tpot),))
    assert predict(faster, workload(), slo, role).capacity * SLACK >= predict(model, workload(), slo, role).capacity


@given(st.floats(1, 100_000), st.floats(1, 10_000), st.floats(0, 1), st.sampled_from(list(Role)))
def test_any_workload_has_finite_predictions(inputs: float, outputs: float, hit: float, role: Role) -> None:
    predicted = predict(H200, workload(inputs, outputs, hit), EASY, role)
    assert 0 <= predicted.capacity < 1e7
    assert 0 <= predicted.ttft.mean < 1e6
    assert 0 <= predicted.tpot.mean < 1e3


def test_pools_that_differ_in_their_rate_alone_share_an_answer() -> None:
    few, many = (Question(replace(workload(), requests_per_second=rate), EASY, Role.Aggregated) for rate in (0.5, 50.0))
    assert assess(H200, few) is assess(H200, many)


class TestDoubt:
    """What may be longer than predicted costs replicas, and a guess at it costs no more than as many again."""

    CLOSE = Slo(tpot=((95, 0.02),))  # an idle replica takes 13.6 ms

    def capacity(self, error_bar: ErrorBar) -> float:
        return assess(H200, Question(workload(), self.CLOSE, Role.Aggregated, error_bar)).prediction.capacity

    def test_a_measured_doubt_takes_whatever_it_takes(self) -> None:
        assert 0.0 < self.capacity(ErrorBar(tpot=1.3)) < 0.3 * self.capacity(ErrorBar())

    def test_a_guessed_one_takes_half_at_most(self) -> None:
        likely = self.capacity(ErrorBar())
        assert self.capacity(ErrorBar(tpot=1.3, guessed=True)) == pytest.approx(0.5 * likely, rel=0.01)
        slight = ErrorBar(tpot=1.05)
        assert self.capacity(slight) > 0.6 * likely
        assert self.capacity(replace(slight, guessed=True)) == self.capacity(slight)

    def test_a_target_that_even_an_idle_replica_may_miss_stays_missed(self) -> None:
        asked = Question(workload(), self.CLOSE, Role.Aggregated, ErrorBar(tpot=3.0, guessed=True))
        assert assess(H200, asked).misses
        assert assess(H200, asked).prediction.capacity == 0.0
        assert half_as_likely(H200, asked) == pytest.approx(0.5 * self.capacity(ErrorBar()))
        assert half_as_likely(H200, replace(asked, error_bar=ErrorBar(tpot=3.0))) == 0.0

    @given(tpot=st.floats(1.0, 4.0), ttft=st.floats(1.0, 4.0))
    def test_more_doubt_is_never_more_capacity(self, tpot: float, ttft: float) -> None:
        found = [self.capacity(ErrorBar(ttft, tpot * more, guessed=True)) for more in (1.0, 1.05)]
        assert found[1] <= found[0] * 1.005
