"""What a bin needs: tokens where they are made, prompts without what is cached, the largest batch that is in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.domain.workload import Slo
from weft.twin.engine.engine import SimulatedEngine
from weft.twin.engine.request import SimulatedRequest
from weft.twin.engine.speed import EngineSpeed
from weft.twin.engine.steps import StepTable
from weft.twin.hindsight.need import answerable, attainable, cached_tokens, demand, replicas_needed, split_needed
from weft.twin.traffic.trace import Trace

TPOT = 0.05
SLO = Slo(ttft=((99, 2.0),), tpot=((95, TPOT / 2.0), (99, TPOT)))
# A decode step takes 10 ms and 1 ms a sequence, a prompt's token 0.1 ms, and a step with prompts 5 ms more.
TABLE = StepTable(
    {(float(size), 1.0): 0.010 + 0.001 * size for size in (1, 1000)},
    {(float(tokens), 1.0): 0.005 + 0.0001 * tokens for tokens in (1, 10_000)},
    launch_seconds=0.005,
)


def speed(max_batch: int = 1000, kv_tokens: int = 1_000_000, per_token: float = 0.0) -> EngineSpeed:
    return EngineSpeed(TABLE, max_batch, kv_tokens, 8192, transfer_seconds_per_token=per_token)


def trace(
    *requests: tuple[float, int, int], blocks: tuple[tuple[int, ...], ...] = (), block_tokens: int = 512
) -> Trace:
    arrivals, inputs, outputs = zip(*requests, strict=True)
    columns = np.array(inputs, dtype=np.int32), np.array(outputs, dtype=np.int32)
    return Trace(np.array(arrivals, dtype=np.float64), *columns, blocks, block_tokens)


def steady(inputs: int, outputs: int, per_second: int = 10, seconds: int = 600) -> Trace:
    return trace(*[(at / per_second, inputs, outputs) for at in range(per_second * seconds)])


# ------------------------------------------------------------------------------------------------------------- demand


def test_requests_and_prompts_fall_into_the_bin_in_which_they_arrive() -> None:
    found = demand(trace((0.0, 100, 1), (59.0, 200, 1), (60.0, 400, 1), (185.0, 800, 1)), 60.0)
    assert [2.0, 1.0, 0.0, 1.0] == found.requests.tolist()
    assert [300.0, 400.0, 0.0, 800.0] == found.inputs.tolist() == found.computed.tolist()


def test_tokens_fall_into_the_bins_in_which_they_are_made() -> None:
    """The first token comes with the prompt; the other 60 take 120 seconds from second 30 on."""
    found = demand(trace((30.0, 100, 61), (200.0, 100, 1)), 60.0, token_seconds=2.0)
    assert found.decoded == pytest.approx([15.0, 30.0, 15.0, 0.0])
    assert found.context[:3] == pytest.approx(130.5)
    assert demand(trace((30.0, 100, 61), (200.0, 100, 1)), 60.0).decoded == pytest.approx([60.0, 0.0, 0.0, 0.0])


@given(
    requests=st.lists(
        st.tuples(st.floats(0.0, 900.0), st.integers(1, 5000), st.integers(1, 900)), min_size=1, max_size=30
    ),
    token_seconds=st.sampled_from([0.0, 0.05, 1.0]),
    bin_seconds=st.sampled_from([15.0, 60.0, 600.0]),
)
def test_no_token_is_made_twice(
    requests: list[tuple[float, int, int]], token_seconds: float, bin_seconds: float
) -> None:
    found = demand(trace(*sorted(requests), (5000.0, 1, 1)), bin_seconds, token_seconds)
    assert found.requests.sum() == len(requests) + 1
    assert found.decoded.sum() == pytest.approx(sum(outputs - 1 for *_, outputs in requests), abs=1e-3)
    assert found.decoded.min() >= 0.0


def test_a_bin_has_a_length() -> None:
    with pytest.raises(ValueError, match="a bin has a length"):
        demand(trace((0.0, 1, 1)), 0.0)


def test_what_came_before_is_cached_but_for_the_last_token() -> None:
    """Blocks of 512: the second prompt shares one block, the third is a copy of the first and computes one again."""
    blocks = ((1, 2), (1, 3), (1, 2))
    found = trace((0.0, 1024, 1), (1.0, 1000, 1), (2.0, 1024, 1), blocks=blocks)
    assert [0.0, 512.0, 512.0] == cached_tokens(found).tolist()
    assert [1024.0 + 488.0 + 512.0] == demand(found, 60.0).computed.tolist()


# ---------------------------------------------------------------------------------------------------------------- need


def test_a_steady_need_is_the_work_of_a_second() -> None:
    """40 sequences take 50 ms: 1.25 ms a token. Ten requests take 1 s for prompts and 1.25 s for 1000 tokens."""
    found = replicas_needed(steady(1000, 101), speed(), SLO, 60.0)
    assert found[1:-1] == pytest.approx(2.25)
    assert 2.0 < found[0] < 2.25


def test_prompts_on_the_same_replica_leave_smaller_batches() -> None:
    """A prompt and its hundred tokens: each sequence waits 1 ms a token, so 20 of them take 30 + 20 ms."""
    found = replicas_needed(steady(1000, 101), speed(), Slo(tpot=((99, 0.0505),)), 60.0, interrupted=True)
    assert found[1:-1] == pytest.approx(1.0 + 1.5)


@pytest.mark.parametrize(
    ("limited", "size"), [(speed(max_batch=10), 10), (speed(kv_tokens=21_010), 20), (speed(kv_tokens=16), 1)]
)
def test_seats_and_memory_bound_the_batch(limited: EngineSpeed, size: int) -> None:
    found = replicas_needed(steady(1000, 101), limited, SLO, 60.0)
    assert found[1:-1] == pytest.approx(1.0 + 1000.0 * (0.010 + 0.001 * size) / size)


def test_a_target_that_one_sequence_misses_limits_nothing() -> None:
    hopeless, none = Slo(tpot=((99, 0.001),)), Slo()
    found = [replicas_needed(steady(1000, 101), speed(max_batch=50), each, 60.0)[5] for each in (hopeless, none)]
    assert found == pytest.approx([1.0 + 1000.0 * 0.060 / 50.0] * 2)


def test_no_count_serves_prompts_and_answers_in_time_that_one_replica_alone_is_too_slow_for() -> None:
    """A prompt of 30,000 tokens takes 3 s, one whose beginning is cached less; a token takes 11 ms."""
    some = trace((0.0, 30_000, 5), (1.0, 1000, 5), (2.0, 1000, 5), (3.0, 1000, 1))
    assert 0.75 == attainable(some, speed(), SLO)
    assert 0.25 == attainable(some, speed(), Slo(((99, 2.0),), ((99, 0.0109),)))
    assert 1.0 == attainable(some, speed(), Slo())
    seen = trace((0.0, 20_000, 5), (1.0, 30_000, 5), blocks=((1,), (1, 2)), block_tokens=20_000)
    assert 1.0 == attainable(seen, speed(), Slo(ttft=((99, 2.1),)))


def test_what_engines_refuse_as_too_long_is_no_need_but_that_it_was_asked() -> None:
    """Memory for 1000 tokens, of which the last one needs none, or a context of 700."""
    some = trace(
        (0.0, 601, 400), (1.0, 602, 400), (2.0, 900, 2), (3.0, 2_000_000_000, 2_000_000_000), blocks=((1,),) * 4
    )
    small = replace(speed(), kv_tokens=1000, block_tokens=1)
    assert [601, 1, 900, 1] == answerable(some, [small]).inputs.tolist()
    assert [400, 1, 2, 1] == answerable(some, [small]).outputs.tolist()
    assert ((1,), (), (1,), ()) == answerable(some, [small]).blocks
    assert [1, 1, 1, 1] == answerable(some, [replace(small, context_tokens=700)]).inputs.tolist()
    assert [601, 602, 900, 1] == answerable(some, [small, speed()]).inputs.tolist()
    assert some.arrivals.tolist() == answerable(some, [small]).arrivals.tolist()
    fits = trace((0.0, 600, 400))
    assert answerable(fits, [small]) is fits
    engine = SimulatedEngine(small)
    takes = [
        engine.holds(SimulatedRequest(0.0, *each))
        for each in zip(some.inputs.tolist(), some.outputs.tolist(), strict=True)
    ]
    assert [True, False, True, False] == takes


def test_a_split_needs_both_pools_and_the_links_between_them() -> None:
    prompts, answers = split_needed(steady(1000, 101), speed(), speed(), SLO, 60.0)
    assert prompts[1:-1] == pytest.approx(1.0)
    assert answers[1:-1] == pytest.approx(1.25)
    behind_links = split_needed(steady(1000, 101), speed(), speed(per_token=0.0002), SLO, 60.0)[1]
    assert behind_links[1:-1] == pytest.approx(2.0)


def test_no_engine_does_more_than_the_need_says() -> None:
    """One engine of the twin that always has enough to do, with targets that bind nothing: the bound holds, closely."""
    some = trace(*[(0.0, 500 + 7 * at % 300, 50 + 11 * at % 100) for at in range(2000)])
    engine = SimulatedEngine(speed(max_batch=100))
    for tokens_in, tokens_out in zip(some.inputs.tolist(), some.outputs.tolist(), strict=True):
        engine.submit(SimulatedRequest(0.0, tokens_in, tokens_out), 0.0)
    ended = engine.advance(10_000.0)
    needed = float(replicas_needed(some, speed(max_batch=100), Slo(), 1.0)[0])
    assert len(ended) == 2000
    assert needed < max(each.last_token_at for each in ended) < 1.15 * needed
