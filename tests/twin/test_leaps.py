"""An engine that leaps from event to event does what one does that goes step by step, over random loads."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.twin.oracle import Asked, Oracle
from weft.twin.engine.counts import TPOT_BUCKETS
from weft.twin.engine.engine import SimulatedEngine
from weft.twin.engine.request import RequestStage, SimulatedRequest
from weft.twin.engine.speed import EngineSpeed
from weft.twin.engine.steps import Graphs, StepTable

# Times that never meet those of the loads below.
TABLE = StepTable(
    decode={
        (float(batch), float(context)): 0.00817 + 0.000731 * batch + 0.00002113 * context * math.sqrt(batch)
        for batch in (1, 3, 7)
        for context in (1, 20, 70, 400)
    },
    prompts={
        (float(tokens), float(context)): 0.00411 + 0.000313 * tokens + 0.0000097 * tokens * context
        for tokens in (1, 16, 64)
        for context in (1, 30, 300)
    },
    launch_seconds=0.00107,
    graphs=Graphs(9, 0.02917),
)
LAST = 1e4


class Moment(NamedTuple):
    """What happens from outside, to which request."""

    at: float
    what: str
    number: int


class Found(NamedTuple):
    """What an engine did."""

    engine: SimulatedEngine
    requests: list[SimulatedRequest]
    ended: list[int]


speeds = st.builds(
    EngineSpeed,
    steps=st.just(TABLE),
    max_batch=st.integers(1, 6),
    kv_tokens=st.integers(100, 260),
    batched_tokens=st.sampled_from([6, 16, 40]),
    block_tokens=st.just(4),
    hash_tokens=st.sampled_from([0, 8]),
    transfer_seconds=st.sampled_from([0.0, 0.0313]),
    transfer_seconds_per_token=st.sampled_from([0.0, 0.000717]),
    transfer_beside_others=st.sampled_from([1.0, 0.6]),
)


@st.composite
def loads(draw: st.DrawFn) -> list[Asked]:
    """Requests in bursts and alone, some with prefixes in common, some remote, some that go away."""
    now, load = 0.0, []
    for number in range(draw(st.integers(1, 14))):
        now += draw(st.sampled_from([0.0, 0.0, 0.01, 0.05, 0.5])) * 1.0173
        prompt, answer = draw(st.integers(1, 60)), draw(st.integers(1, 40))
        family = draw(st.integers(0, 2))
        own = draw(st.integers(0, 6))
        hashes = tuple(family * 1000 + place + (100 * number if place >= own else 0) for place in range(25))
        load.append(
            Asked(
                number,
                now,
                prompt,
                answer,
                hashes=hashes[: draw(st.integers(0, 25))] if family else (),
                remote=draw(st.integers(0, 3)) == 0,
                keeps_kv=draw(st.integers(0, 3)) == 0,
                cancelled_at=now + draw(st.floats(0.0, 1.0)) * 1.00031 if draw(st.integers(0, 4)) == 0 else None,
                released_at=now + draw(st.floats(0.0, 2.0)) * 1.00013 if draw(st.booleans()) else LAST + number,
            )
        )
    return load


def moments(load: list[Asked]) -> list[Moment]:
    """In order of time; whoever comes at one moment comes before anybody leaves."""
    found = [Moment(asked.arrives, "comes", asked.number) for asked in load]
    found += [Moment(at, "goes", asked.number) for asked in load if (at := asked.cancelled_at) is not None]
    found += [Moment(at, "released", asked.number) for asked in load if (at := asked.released_at) is not None]
    return sorted(found, key=lambda moment: moment.at)


def leaping(speed: EngineSpeed, load: list[Asked], looks: tuple[float, ...] = ()) -> Found:
    """The engine under this load, looked at now and then."""
    engine = SimulatedEngine(speed)
    requests = [
        SimulatedRequest(a.arrives, a.prompt, a.answer, a.hashes, remote=a.remote, keeps_kv=a.keeps_kv) for a in load
    ]
    numbers = {id(request): number for number, request in enumerate(requests)}
    ended: list[SimulatedRequest] = []
    does = {"comes": engine.submit, "goes": engine.cancel, "released": engine.release}
    for moment in sorted([*moments(load), *(Moment(at, "looked", 0) for at in looks)], key=lambda moment: moment.at):
        if moment.what == "looked":
            ended += engine.advance(moment.at)
        else:
            does[moment.what](requests[moment.number], moment.at)
    ended += engine.advance(2 * LAST)
    return Found(engine, requests, [numbers[id(request)] for request in ended])


def walking(speed: EngineSpeed, load: list[Asked]) -> Oracle:
    """The oracle under the same load, untouched by an earlier run."""
    oracle = Oracle(speed, [Asked(*(getattr(asked, name) for name in FIELDS)) for asked in load])
    oracle.run()
    return oracle


FIELDS = ("number", "arrives", "prompt", "answer", "hashes", "remote", "keeps_kv", "cancelled_at", "released_at")
many = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _end(asked: Asked) -> tuple[float, int]:
    """Whoever ends in one step ends in no order."""
    return asked.times[-1], asked.number


@given(speeds, loads())
@many
def test_the_same_requests_end_in_the_same_order_at_the_same_times(speed: EngineSpeed, load: list[Asked]) -> None:
    oracle, found = walking(speed, load), leaping(speed, load)
    told = [(found.requests[number].last_token_at, number) for number in found.ended]
    assert [at for at, _ in told] == sorted(at for at, _ in told)
    assert [asked.number for asked in sorted(oracle.ended, key=_end)] == [number for _, number in sorted(told)]
    for asked in oracle.ended:
        request = found.requests[asked.number]
        times = (asked.scheduled_at, asked.times[0], asked.times[-1])
        assert times == pytest.approx((request.scheduled_at, request.first_token_at, request.last_token_at), abs=1e-6)
        assert (asked.answer, asked.preempted) == (request.made, request.preemptions)


@given(speeds, loads())
@many
def test_it_counts_the_same(speed: EngineSpeed, load: list[Asked]) -> None:
    oracle, found = walking(speed, load), leaping(speed, load)
    counts = found.engine.counts
    assert (oracle.tokens, oracle.preemptions) == (counts.generated_tokens, counts.preemptions)
    assert (oracle.prefix_queries, oracle.prefix_hits) == (counts.prefix_queries, counts.prefix_hits)
    assert (len(oracle.ended), oracle.cancelled) == (counts.answered, counts.cancelled)
    begun = [asked for asked in oracle.load if asked.times]
    assert sum(asked.prompt for asked in begun) == counts.prompt_tokens
    assert len(begun) == sum(counts.ttft.buckets)
    assert oracle.gaps(TPOT_BUCKETS) == counts.inter_token.buckets
    gaps = sum(asked.times[-1] - asked.times[0] for asked in begun)
    assert gaps == pytest.approx(counts.inter_token.total, abs=1e-6)


@given(speeds, loads(), st.lists(st.floats(0.0, 3.0), max_size=6))
@many
def test_looking_changes_nothing_and_shows_the_last_step(
    speed: EngineSpeed, load: list[Asked], looks: list[float]
) -> None:
    """However often it is advanced; what it shows is what an engine shows between two steps."""
    oracle, alone, looked = walking(speed, load), leaping(speed, load), leaping(speed, load, tuple(looks))
    assert alone.ended == looked.ended
    assert [each.last_token_at for each in alone.requests] == pytest.approx(
        [each.last_token_at for each in looked.requests], abs=1e-6
    )
    assert alone.engine.counts.inter_token.buckets == looked.engine.counts.inter_token.buckets
    engine = SimulatedEngine(speed)
    requests = [
        SimulatedRequest(a.arrives, a.prompt, a.answer, a.hashes, remote=a.remote, keeps_kv=a.keeps_kv) for a in load
    ]
    does = {"comes": engine.submit, "goes": engine.cancel, "released": engine.release}
    happening = iter([*moments(load), Moment(math.inf, "", 0)])
    moment = next(happening)
    for look in sorted(each * 1.00021 for each in looks):
        while moment.at <= look:
            does[moment.what](requests[moment.number], moment.at)
            moment = next(happening)
        engine.advance(look)
        seen = next((each for each in reversed(oracle.looks) if each.time < look), None)
        if seen is not None and not _is_between(oracle, load, seen.time, look):
            shown = (engine.running, engine.waiting_for_transfer, engine.counts.generated_tokens)
            assert (seen.running, seen.for_transfer, seen.tokens) == shown
            assert round(engine.kv_usage * speed.kv_blocks) == seen.held_blocks


def _is_between(oracle: Oracle, load: list[Asked], step: float, look: float) -> bool:
    """Whether an idle engine was told something since: what it makes of it shows with its next step."""
    next_look = min((each.time for each in oracle.looks if each.time > step), default=math.inf)
    return next_look <= look or any(step < moment.at <= look for moment in moments(load))


@given(speeds, loads())
@many
def test_nothing_is_lost_and_memory_is_given_back(speed: EngineSpeed, load: list[Asked]) -> None:
    found = leaping(speed, load)
    ended, now = len(found.ended), 2 * LAST
    for _ in load:  # whoever waited for memory that was kept may keep some in turn
        now += LAST
        for request in found.requests:
            found.engine.release(request, now)
        ended += len(found.engine.advance(now + LAST / 2))
    assert {RequestStage.Answered, RequestStage.Cancelled} >= {request.stage for request in found.requests}
    assert ended == found.engine.counts.answered == sum(each.stage is RequestStage.Answered for each in found.requests)
    assert (0, 0.0) == (found.engine.load, found.engine.kv_usage)
    assert math.inf == found.engine.next_event()


@given(speeds, loads())
@many
def test_events_tell_when_to_look_next(speed: EngineSpeed, load: list[Asked]) -> None:
    """Whoever goes from event to event misses no end, and always gets further."""
    engine, ended, coming = SimulatedEngine(speed), 0, [asked for asked in load if not asked.keeps_kv]
    for asked in coming:
        while (event := engine.next_event()) <= asked.arrives:
            assert engine.advance(event - 1e-9) == []
            ended += len(engine.advance(event))
        engine.submit(SimulatedRequest(asked.arrives, asked.prompt, asked.answer, asked.hashes), asked.arrives)
    for _ in itertools.takewhile(math.isfinite, iter(engine.next_event, None)):
        ended += len(engine.advance(engine.next_event()))
    assert len(coming) == ended
