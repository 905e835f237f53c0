"""Prefill and decode apart: what each side gains, and when one waits for the other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.replicas import replica
from weft.domain.hardware import Precision
from weft.perf.benchmarks.closed_loop import ClosedLoop, Latencies, closed_loop_latencies, closed_loop_work
from weft.perf.benchmarks.disaggregated import Half, disaggregated_latencies
from weft.perf.steps import stepper

H200 = replica("Llama-3.3-70B-Instruct", "H200", Precision.FP8, 2)
SLACK = 1 + 1e-6


def split(prefills: int, decoders: int, users: float, lengths: tuple[float, float]) -> Latencies:
    return disaggregated_latencies(Half(H200, prefills), Half(H200, decoders), users, *lengths)


def per_second(prefills: int, decoders: int, users: float, lengths: tuple[float, float]) -> float:
    """Requests by Little's law."""
    found = split(prefills, decoders, users, lengths)
    return users / (found.ttft + lengths[1] * found.tpot)


@pytest.mark.parametrize("users", [4, 32, 96])
def test_tokens_come_faster_than_from_a_replica_that_prefills_too(users: float) -> None:
    both = closed_loop_latencies(
        closed_loop_work(H200, ClosedLoop(users, 1000, 500, equal_lengths=False)), H200.efficiency
    )
    assert split(8, 1, users, (1000, 500)).tpot < both.tpot


def test_with_enough_prefill_a_token_takes_a_step_of_all_users_and_nothing_else() -> None:
    found = split(8, 2, 64, (1000, 500))
    assert found.tpot == pytest.approx(stepper(H200).decode(32, 1250).seconds)


def test_the_first_token_waits_for_the_prompt_its_way_over_the_network_and_a_step() -> None:
    steps = stepper(H200)
    alone = H200.efficiency.request_seconds + steps.prefill(4000, 0, 1).seconds + steps.decode(1, 4250).seconds
    sent = 4000 * 80 * 2 * 8 * 128 * 2 / 2  # of 80 layers, keys and values of 8 heads in 16 bits, on each of two GPUs
    transfer = sent / (H200.accelerator.network_bandwidth * 0.9)
    waiting = H200.efficiency.at_once / 8 * steps.prefill(4000, 0, 1).seconds
    assert split(8, 1, 1, (4000, 500)).ttft == pytest.approx(alone + transfer + 0.03 + waiting, rel=1e-6)


def test_too_little_prefill_makes_users_wait_for_it_and_leaves_decode_half_empty() -> None:
    lengths, users = (8000, 200), 100
    short, ample = split(1, 2, users, lengths), split(16, 2, users, lengths)
    assert short.ttft > 5 * ample.ttft
    assert short.tpot < ample.tpot
    prompt = stepper(H200).prefill(8000, 0, 1).seconds
    decoding = 200 * short.tpot / prompt  # Little's law, at the rate of prefill
    assert decoding < users / 2
    assert users / (short.ttft + 200 * short.tpot) == pytest.approx(1 / prompt, rel=1e-3)


def test_without_a_seat_for_decode_users_wait_before_it() -> None:
    few, many = split(64, 1, 400, (8000, 1000)), split(64, 1, 800, (8000, 1000))
    assert many.tpot == few.tpot
    assert many.ttft > few.ttft + 100 * few.tpot


@pytest.mark.parametrize(
    ("lengths", "best"), [((8000, 50), "prefill"), ((200, 2000), "decode")], ids=["long prompts", "long answers"]
)
def test_the_longer_side_wants_the_gpus(lengths: tuple[float, float], best: str) -> None:
    prefill, decode = per_second(3, 1, 256, lengths), per_second(1, 3, 256, lengths)
    assert best == ("prefill" if prefill > decode else "decode")
    assert max(prefill, decode) > 1.3 * min(prefill, decode)


REPLICAS = st.integers(1, 8)
LENGTHS = st.tuples(st.floats(1, 20_000), st.floats(1, 5000))


@given(REPLICAS, REPLICAS, st.tuples(st.integers(1, 2000), st.integers(1, 500)), LENGTHS)
def test_more_users_never_wait_less(
    prefills: int, decoders: int, users: tuple[int, int], lengths: tuple[float, float]
) -> None:
    few, many = (split(prefills, decoders, each, lengths) for each in (users[0], sum(users)))
    assert 0 < few.ttft <= many.ttft * SLACK
    assert 0 < few.tpot <= many.tpot * SLACK
