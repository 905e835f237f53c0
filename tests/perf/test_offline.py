"""All requests at once: facts of published throughput tables, as directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.replicas import Parallel, replica
from weft.domain.hardware import Precision
from weft.perf.benchmarks.offline import offline_throughput
from weft.perf.benchmarks.seats import seats, seats_together
from weft.perf.steps import stepper

if TYPE_CHECKING:
    from weft.perf import ReplicaModel

LLAMA_70B = "Llama-3.3-70B-Instruct"
H200 = replica(LLAMA_70B, "H200", Precision.FP8, 2)
SIZES = (1, 2, 4, 8)


def per_second(model: ReplicaModel) -> float:
    """Output tokens of a replica at a thousand tokens in and out."""
    return offline_throughput(model, 1000, 1000).output_tokens_per_second


def fp8(accelerator: str, size: int) -> ReplicaModel:
    return replica(LLAMA_70B, accelerator, Precision.FP8, size, kv=Precision.FP8)


def test_70b_in_fp8_falls_off_a_cliff_on_one_h100() -> None:
    """Weights leave no room for KV there: the second GPU is worth far more than the first."""
    assert per_second(fp8("H100", 2)) > 2 * 2 * per_second(fp8("H100", 1))


def test_gpt_oss_on_two_h100_gives_more_than_twice_what_one_does() -> None:
    one, two = (per_second(replica("gpt-oss-120b", "H100", Precision.MXFP4, size)) for size in (1, 2))
    assert two > 2 * one


def test_70b_in_fp8_on_h200_is_best_per_gpu_on_one_and_keeps_less_of_it_on_each_size_more() -> None:
    each = [per_second(fp8("H200", size)) / size for size in SIZES]
    assert sorted(each, reverse=True) == each
    assert 0.3 * each[0] < each[-1] < 0.8 * each[0]


def test_405b_in_nvfp4_on_four_b200_gives_more_as_two_stages_than_as_one_group() -> None:
    stages, group = (
        per_second(replica("Llama-3.1-405B-Instruct", "B200", Precision.NVFP4, sizes, kv=Precision.FP8))
        for sizes in (Parallel(tensor=2, pipeline=2), Parallel(tensor=4))
    )
    assert stages > group


def test_by_hand_every_token_costs_its_step_and_its_part_of_all_prompts() -> None:
    found, steps = offline_throughput(H200, 2000, 500, 64), stepper(H200)
    shared = 2000 / H200.efficiency.batched_tokens
    tpot = steps.decode(64, 2250).seconds + 64 * steps.prefill(2000, 0, shared).seconds / 500
    assert found.batch == 64
    assert found.tpot_seconds == pytest.approx(tpot)
    assert found.output_tokens_per_second == pytest.approx(64 / tpot)


def test_stages_work_on_prompts_of_their_own_where_there_are_enough() -> None:
    """The same GPUs as stages: a prompt takes half of them, but that the second stage waits for the first chunk."""
    model = replica(LLAMA_70B, "H200", Precision.FP8, Parallel(tensor=2, pipeline=2))
    steps, part = stepper(model), 8000 / model.efficiency.batched_tokens
    for users in (1, 2, 32):
        chunks = max(1, users * part)
        tpot = steps.decode(users, 8500).seconds
        tpot += users * steps.prefill(8000, 0, part).seconds * (chunks + 1) / 2 / chunks / 1000
        assert offline_throughput(model, 8000, 1000, users).tpot_seconds == pytest.approx(tpot)


@given(st.integers(1, 10_000), st.floats(1, 20_000), st.floats(1, 20_000))
def test_users_cap_the_batch_and_fewer_never_give_more(users: int, input_tokens: float, output_tokens: float) -> None:
    capped, full = (offline_throughput(H200, input_tokens, output_tokens, most) for most in (users, None))
    more = offline_throughput(H200, input_tokens, output_tokens, 2 * users)
    assert capped.batch == min(float(users), seats_together(H200, input_tokens, output_tokens))
    assert full.batch == seats(H200, input_tokens, output_tokens)
    for larger in (more, full) if capped.batch <= full.batch else (more,):
        assert 0 < capped.output_tokens_per_second <= larger.output_tokens_per_second * (1 + 1e-9)
        assert capped.tpot_seconds <= larger.tpot_seconds * (1 + 1e-9)


def test_who_queues_more_than_the_engine_admits_by_default_has_told_it_to_admit_them() -> None:
    """3000 requests at once on eight GPUs, where memory holds many more than the default of 1024."""
    roomy = replica(LLAMA_70B, "MI300X", Precision.FP8, 8, kv=Precision.FP8)
    told, default = (offline_throughput(roomy, 128, 2048, users) for users in (3000, None))
    assert (3000, 1024) == (told.batch, default.batch)
    assert told.output_tokens_per_second > default.output_tokens_per_second


def test_requests_that_start_together_are_long_together_and_fewer_fit() -> None:
    """A thousand tokens in and four thousand out: of all ages they keep 3400 each, together 5000."""
    together = offline_throughput(H200, 1000, 4000, 100_000).batch
    assert together == seats_together(H200, 1000, 4000)
    assert together / seats(H200, 1000, 4000) == pytest.approx(3400 / 5000, rel=0.01)
