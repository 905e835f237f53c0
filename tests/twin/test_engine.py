"""A simulated engine behaves like one: little load is fast, much load queues, nothing is lost."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from weft.twin.engine import EngineSpeed, Request, SimulatedEngine
from weft.twin.exposition import EngineMetrics
from weft.twin.traffic import Lengths, Profile, arrivals

if TYPE_CHECKING:
    from weft.twin.engine import Finished

SPEED = EngineSpeed(
    prefill_tokens_per_second=20_000,
    step_seconds=0.01,
    step_seconds_per_sequence=0.0002,
    max_batch=64,
    kv_tokens=100_000,
)
STEP = 0.05


def run(rate: float, seconds: float = 60.0) -> tuple[SimulatedEngine, list[Finished]]:
    """Feed an engine 1000-in 100-out requests at a steady rate."""
    engine, finished = SimulatedEngine(SPEED), []
    clock = 0.0
    while clock < seconds:
        if rate * clock // 1 != rate * (clock + STEP) // 1:
            engine.submit(Request(arrived=clock, input_tokens=1000, output_tokens=100))
        clock += STEP
        finished += engine.advance(clock, STEP)
    return engine, finished


def test_a_lightly_loaded_engine_answers_at_its_own_speed() -> None:
    """Queueing adds nothing: TTFT is about one prefill, TPOT about one decode step."""
    _, finished = run(rate=0.5)
    assert len(finished) > 20
    assert max(answer.ttft for answer in finished) < 0.2
    assert max(answer.tpot for answer in finished) < 0.02


def test_an_overloaded_engine_queues_and_its_ttft_grows() -> None:
    """More than it can prefill per second piles up, and latency says so."""
    engine, finished = run(rate=18.0)
    assert engine.load > 50
    assert finished[-1].ttft > 5 * finished[0].ttft


def test_no_request_is_lost_or_answered_twice() -> None:
    """What went in is inside or came out."""
    engine, finished = run(rate=6.0)
    submitted = sum(1 for step in range(1200) if 6.0 * step * STEP // 1 != 6.0 * (step * STEP + STEP) // 1)
    assert abs(submitted - (engine.load + len(finished))) <= 2


def test_kv_room_is_given_back() -> None:
    """An idle engine holds no KV."""
    engine = SimulatedEngine(SPEED)
    engine.submit(Request(arrived=0.0, input_tokens=500, output_tokens=5))
    assert [answer.output_tokens for step in range(40) for answer in engine.advance(step * STEP, STEP)] == [5]
    assert engine.kv_usage == 0


def test_a_transferred_prompt_starts_decoding_beside_the_others() -> None:
    """Its KV is there already: a busy engine does not keep it waiting."""
    engine = SimulatedEngine(SPEED)
    engine.submit(Request(arrived=0.0, input_tokens=1000, output_tokens=4000))
    for step in range(1, 21):
        engine.advance(step * STEP, STEP)
    engine.submit(Request(arrived=1.0, input_tokens=1000, output_tokens=10, transferred=True))
    finished = [answer for step in range(21, 40) for answer in engine.advance(step * STEP, STEP)]
    assert [answer.output_tokens for answer in finished] == [10]
    assert finished[0].ttft <= 2 * STEP


def test_metrics_carry_the_names_that_weft_reads() -> None:
    """The exposition has vLLM's counters with their totals and a histogram per latency."""
    engine, finished = run(rate=2.0, seconds=10)
    metrics = EngineMetrics("tiny")
    for answer in finished:
        metrics.observe(answer)
    text = metrics.text(engine).decode()
    assert f'vllm:prompt_tokens_total{{engine="0",model_name="tiny"}} {1000.0 * len(finished)}' in text
    assert "vllm:time_to_first_token_seconds_bucket" in text
    assert 'vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 0.0' in text


def test_arrivals_follow_the_profile_and_repeat_with_the_seed() -> None:
    """Twice the rate gives about twice the requests; the same seed gives the same ones."""
    profile = Profile(((0, 10.0), (100, 10.0), (101, 20.0), (200, 20.0)))
    times = arrivals(profile, 0, 200, Random(1))
    slow, fast = sum(time < 100 for time in times), sum(time >= 100 for time in times)
    assert 1.7 < fast / slow < 2.3
    assert times == arrivals(profile, 0, 200, Random(1))


def test_lengths_have_the_mean_that_was_asked_for() -> None:
    """The log-normal is parametrised by its mean, not its median."""
    random = Random(3)
    drawn = [Lengths(800.0).draw(random) for _ in range(4000)]
    assert 760 < sum(drawn) / len(drawn) < 840
