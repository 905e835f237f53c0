"""Counts of replicas that share a queue, each of which carries more than one alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.scaling.cases import Pool, seen
from weft.domain.capacity import Capacity
from weft.domain.workload import Role
from weft.scaling import RatioGuard, ScaleAnswer, scale_pool, scale_split

if TYPE_CHECKING:
    from weft.domain.capacity import Gains
    from weft.domain.snapshot import PoolObservation

GAINS = (1.0, 1.2, 1.5)


def step(pool: Pool, observation: PoolObservation | None, gains: Gains = GAINS) -> ScaleAnswer:
    pool.now += 10.0
    return pool.accept(scale_pool(replace(pool.request(observation), capacity=Capacity(pool.capacity, gains))))


def why(answer: ScaleAnswer) -> str:
    """Why the count has changed."""
    assert answer.changed is not None
    return answer.changed.message


def test_a_pool_grows_to_what_carries_the_demand_together() -> None:
    """11 requests/s with headroom: six alone, four that carry 3 each in company."""
    together, alone = Pool(), Pool()
    for _ in range(12):
        step(together, seen(10.0, 4))
        step(alone, seen(10.0, 4), ())
    assert (together.current, alone.current) == (4, 6)


def test_the_first_count_is_of_replicas_in_company_and_says_so() -> None:
    first = step(Pool(declared_rate=8.0), None)
    assert first.desired == 3
    assert "one replica serves 2 requests/s, each of 3 behind their router 3" in why(first)


def test_nothing_is_said_of_company_that_a_replica_does_not_have() -> None:
    assert "behind their router" not in why(step(Pool(declared_rate=1.0), None))


def test_what_saturated_replicas_carry_less_is_seen_although_they_share_a_queue() -> None:
    """Two that are counted on for 3 each answer 2.2 each, and requests wait: more than one alone was to carry."""
    pool = Pool()
    pool.current = 2
    answers = [step(pool, seen(4.4, 2, waiting=30.0), (1.0, 1.5)) for _ in range(10)]
    assert pool.history[0] == 2
    assert pool.current == 3
    assert next(why(each) for each in answers if each.changed is not None).endswith("one replica serves 2.2 requests/s")


def test_a_saturated_pool_that_does_as_it_should_keeps_what_it_gains() -> None:
    """Four answer 3 each, as was foretold of four: 13.2 requests/s with headroom need five such, not seven alone."""
    pool = Pool()
    pool.current = 4
    for _ in range(10):
        step(pool, seen(12.0, 4, waiting=20.0), (1.0, 1.0, 1.0, 1.5))
    assert pool.current == 5


def test_each_half_of_a_split_has_company_of_its_own() -> None:
    prefill, decode = Pool(role=Role.Prefill, declared_rate=8.0), Pool(role=Role.Decode, declared_rate=8.0)
    first = replace(prefill.request(None), capacity=Capacity(prefill.capacity, GAINS))
    counts = [each.desired for each in scale_split(first, decode.request(None), RatioGuard())]
    assert counts == [3, 5]
