"""A simulated engine behaves like one: little load is fast, much load queues, nothing is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.twin.engine.engine import SimulatedEngine
from weft.twin.engine.request import RequestStage, SimulatedRequest
from weft.twin.engine.speed import EngineSpeed
from weft.twin.engine.steps import StepTable
from weft.twin.live.exposition import EngineMetrics

# A step takes 10 ms and 0.2 ms for each sequence; prompts run at 20,000 tokens a second.
SPEED = EngineSpeed(
    StepTable({(1, 1): 0.0102, (101, 1): 0.0302}, {(1, 1): 0.00005, (10_001, 1): 0.50005}),
    max_batch=64,
    kv_tokens=100_000,
)


def run(rate: float, seconds: float = 60.0) -> tuple[SimulatedEngine, list[SimulatedRequest]]:
    """Feed an engine 1000-in 100-out requests at a steady rate."""
    engine = SimulatedEngine(SPEED)
    for number in range(int(rate * seconds)):
        engine.submit(SimulatedRequest(number / rate, input_tokens=1000, output_tokens=100), number / rate)
    return engine, engine.advance(seconds)


def ended(engine: SimulatedEngine) -> list[SimulatedRequest]:
    """Let it finish everything."""
    return engine.advance(1e6)


def test_a_lightly_loaded_engine_answers_at_its_own_speed() -> None:
    """Queueing adds nothing: TTFT is one prefill, TPOT one decode step."""
    _, answers = run(rate=0.5)
    assert len(answers) == 30
    assert [0.05] * 30 == pytest.approx([answer.ttft for answer in answers])
    assert [0.0102] * 30 == pytest.approx([answer.tpot for answer in answers])


def test_what_a_request_takes_beside_its_steps_is_in_its_first_token_and_holds_up_nobody() -> None:
    plain, slow = (SimulatedEngine(replace(SPEED, request_seconds=seconds)) for seconds in (0.0, 0.02))
    for engine in (plain, slow):
        for number in range(20):
            engine.submit(SimulatedRequest(number / 10, 1000, 100), number / 10)
    before, after = ended(plain), ended(slow)
    assert [each.ttft + 0.02 for each in before] == pytest.approx([each.ttft for each in after])
    assert [each.latency + 0.02 for each in before] == pytest.approx([each.latency for each in after])
    assert [(each.tpot, each.queue) for each in before] == [(each.tpot, each.queue) for each in after]
    assert slow.counts.ttft.total == pytest.approx(plain.counts.ttft.total + 20 * 0.02)
    assert slow.counts.latency.total == pytest.approx(plain.counts.latency.total + 20 * 0.02)


def test_an_overloaded_engine_queues_and_its_ttft_grows() -> None:
    """More than it can answer per second piles up, and latency says so."""
    engine, answers = run(rate=25.0)
    assert engine.load > 50
    assert engine.waiting_for_capacity > 0
    assert answers[-1].ttft > 5 * answers[0].ttft


def test_no_request_is_lost_or_answered_twice() -> None:
    """What went in is inside or came out."""
    engine, answers = run(rate=6.0)
    assert 360 == engine.load + len(answers)
    assert 360 == len({id(answer) for answer in [*answers, *ended(engine)]})


def test_a_step_with_prompt_and_decode_takes_both_without_the_launch_of_one() -> None:
    table = StepTable({(1, 1): 0.01}, {(1, 1): 0.05}, launch_seconds=0.002)
    engine = SimulatedEngine(replace(SPEED, steps=table))
    engine.submit(SimulatedRequest(0.0, 100, 3), 0.0)
    engine.submit(SimulatedRequest(0.055, 100, 3), 0.055)  # in the first decode step, which ends at 0.06
    first, second = ended(engine)
    assert (0.05, 0.06 + 0.058) == pytest.approx((first.first_token_at, first.last_token_at))
    assert (0.118, 0.138) == pytest.approx((second.first_token_at, second.last_token_at))


def test_a_prompt_longer_than_a_step_takes_several_and_decode_goes_on_beside_it() -> None:
    engine = SimulatedEngine(replace(SPEED, batched_tokens=1024))
    engine.submit(SimulatedRequest(0.0, 16, 1000), 0.0)
    engine.submit(SimulatedRequest(0.1, 5000, 1), 0.1)
    (long,) = engine.advance(3.0)
    assert 5 == round((long.ttft - 0.25) / 0.0102)
    assert engine.counts.inter_token.buckets[3:5] == [5, 0]  # each chunk holds the other up


def test_kv_room_is_given_back() -> None:
    """An idle engine holds no KV."""
    engine = SimulatedEngine(SPEED)
    engine.submit(SimulatedRequest(arrived=0.0, input_tokens=500, output_tokens=5), 0.0)
    engine.advance(0.03)
    assert engine.kv_usage == pytest.approx(32 * 16 / 100_000)
    assert [answer.made for answer in engine.advance(2.0)] == [5]
    assert engine.kv_usage == 0


def test_the_youngest_is_computed_again_when_memory_is_full() -> None:
    """Both fit with their prompts and not with their answers; the first never waits."""
    engine = SimulatedEngine(replace(SPEED, kv_tokens=320))
    first, second = SimulatedRequest(0.0, 100, 150), SimulatedRequest(0.0, 100, 150)
    engine.submit(first, 0.0)
    engine.submit(second, 0.0)
    assert [first, second] == ended(engine)
    assert (0, 1) == (first.preemptions, second.preemptions)
    assert 300 == engine.counts.generated_tokens
    assert 200 == engine.counts.prompt_tokens


def test_prompts_that_begin_alike_are_computed_once() -> None:
    """But for the last token, which has to be computed for the answer to begin."""
    engine = SimulatedEngine(replace(SPEED, hash_tokens=512))
    for number in range(3):
        engine.submit(SimulatedRequest(float(number), 1024, 10, hashes=(1, 2)), float(number))
        ended_now = engine.advance(number + 0.9)
        assert (512 if number else 0) == ended_now[0].cached_tokens
    assert (3072, 1024) == (engine.counts.prefix_queries, engine.counts.prefix_hits)
    assert engine.kv_usage == 0


def test_kv_is_fetched_apart_from_waiting_for_capacity_and_then_decodes_beside_others() -> None:
    """Its memory is reserved while it comes: a busy engine does not keep it waiting after that."""
    engine = SimulatedEngine(replace(SPEED, transfer_seconds=0.1, transfer_seconds_per_token=0.0001))
    engine.submit(SimulatedRequest(0.0, 1000, 4000), 0.0)
    engine.submit(SimulatedRequest(1.0, 1000, 10, remote=True), 1.0)
    engine.submit(SimulatedRequest(1.0, 1000, 10, remote=True), 1.0)
    engine.advance(1.1)
    assert (1, 0, 2) == (engine.running, engine.waiting_for_capacity, engine.waiting_for_transfer)
    assert engine.kv_usage > 3000 / 100_000
    one, other = engine.advance(2.0)
    assert 0.2 <= one.queue <= 0.2 + 2 * 0.011
    assert 0.3 <= other.queue <= 0.3 + 2 * 0.011  # one link: its KV comes after the other's
    assert one.ttft <= one.queue + 0.011


def test_several_prompts_at_once_come_over_a_link_through_the_host_more_slowly() -> None:
    """The first has begun alone; one that comes when the link is free has all of it again."""
    each = replace(SPEED, transfer_seconds_per_token=0.0001, transfer_beside_others=0.5)
    engine = SimulatedEngine(each)
    asked = [SimulatedRequest(at, 1000, 2, remote=True) for at in (0.0, 0.0, 1.0)]
    for request in asked:
        engine.submit(request, request.arrived)
    ended = {request: request.queue for request in engine.advance(3.0)}
    for request, expected in zip(asked, (0.1, 0.3, 0.1), strict=True):
        assert expected <= ended[request] <= expected + 2 * 0.011


def test_a_prefill_engine_keeps_kv_until_it_is_released() -> None:
    engine = SimulatedEngine(replace(SPEED, kv_tokens=1600))
    first, second = SimulatedRequest(0.0, 1000, 1, keeps_kv=True), SimulatedRequest(0.0, 1000, 1)
    engine.submit(first, 0.0)
    engine.submit(second, 0.0)
    assert [first] == engine.advance(5.0)
    assert (RequestStage.Kept, 1) == (first.stage, engine.waiting_for_capacity)
    engine.release(first, 5.0)
    assert [second] == engine.advance(6.0)
    assert 5.05 == pytest.approx(second.first_token_at)
    assert engine.kv_usage == 0


def test_a_request_that_is_cancelled_leaves_with_the_step_under_way() -> None:
    engine = SimulatedEngine(SPEED)
    gone, stays = SimulatedRequest(0.0, 1000, 4000), SimulatedRequest(0.0, 1000, 100)
    for request in (gone, stays):
        engine.submit(request, 0.0)
    engine.cancel(gone, 0.5)
    assert [stays] == engine.advance(2.0)
    assert (RequestStage.Cancelled, 1, 0) == (gone.stage, engine.counts.cancelled, engine.load)
    assert 100 + gone.made == engine.counts.generated_tokens


def test_a_draining_engine_ends_what_it_has() -> None:
    engine = SimulatedEngine(SPEED)
    engine.submit(SimulatedRequest(0.0, 1000, 100), 0.0)
    engine.drain()
    with pytest.raises(ValueError, match="draining"):
        engine.submit(SimulatedRequest(0.1, 1000, 100), 0.1)
    assert 1 == len(ended(engine))
    assert 0 == engine.load


def test_what_never_fits_is_refused_and_the_past_is_over() -> None:
    engine = SimulatedEngine(replace(SPEED, kv_tokens=1600))
    with pytest.raises(ValueError, match="fit"):
        engine.submit(SimulatedRequest(0.0, 1500, 102), 0.0)
    engine.advance(5.0)
    with pytest.raises(ValueError, match="already"):
        engine.submit(SimulatedRequest(4.0, 100, 1), 4.0)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"max_batch": 10_000}, "every sequence"), ({"hash_tokens": 24}, "whole"), ({"kv_tokens": 1}, "no")],
)
def test_limits_that_no_engine_accepts_are_refused(wrong: dict[str, int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        replace(SPEED, **wrong)  # type: ignore[arg-type]


def test_metrics_carry_the_names_that_weft_reads() -> None:
    """The exposition has vLLM's counters with their totals and a histogram per latency."""
    engine, answers = run(rate=2.0, seconds=10)
    text = EngineMetrics("tiny", engine).text().decode()
    labels = 'engine="0",model_name="tiny"'
    assert f"vllm:prompt_tokens_total{{{labels}}} {1000.0 * 20}" in text
    assert 'vllm:time_to_first_token_seconds_bucket{engine="0",le="0.08",model_name="tiny"} 20.0' in text
    assert f"vllm:inter_token_latency_seconds_count{{{labels}}} {float(engine.counts.generated_tokens - 20)}" in text
    assert f'vllm:num_requests_waiting_by_reason{{{labels},reason="capacity"}} 0.0' in text
    success = 'vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"}'
    assert f"{success} {float(len(answers))}" in text


def test_memory_is_told_in_the_middle_of_a_leap_as_where_it_is_cut() -> None:
    """Whole engines are asked for their load now and then; cutting leaps for it would only take time."""
    whole, cut = SimulatedEngine(SPEED), SimulatedEngine(SPEED)
    for engine in (whole, cut):
        for number in range(5):
            engine.submit(SimulatedRequest(0.0, 1000 + number, 2000), 0.0)
    seen = set()
    for moment in (0.1 * turn for turn in range(1, 100)):
        assert whole.ended_by(moment) == cut.advance(moment)
        assert cut.kv_usage == pytest.approx(whole.kv_usage)
        seen.add(round(whole.kv_usage, 6))
    assert len(seen) > 50


def test_it_heeds_what_it_is_told_when_the_step_under_way_ends() -> None:
    """At once where there is none."""
    engine = SimulatedEngine(SPEED)
    engine.submit(SimulatedRequest(1.0, 1000, 100), 1.0)
    assert engine.heeds_at == 1.0
    prompt_is_done = engine.next_event()
    engine.submit(SimulatedRequest(1.01, 1000, 100), 1.01)
    assert engine.heeds_at == prompt_is_done == pytest.approx(1.05)
