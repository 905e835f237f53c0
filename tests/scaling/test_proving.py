"""A load at which targets were met counts, whatever is predicted; and until it is seen to miss one."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scaling.cases import AUTO, Pool, seen
from tests.scaling.learning import DECLARED, SUBJECT, look, quiet
from weft.domain.calibration import ProvenLoad
from weft.domain.capacity import Capacity
from weft.domain.pool_memory import CalibrationMemory
from weft.domain.shape import Calibration
from weft.domain.workload import Role, Slo
from weft.scaling.calibrating.calibration import watched
from weft.scaling.calibrating.proving import (
    Tried,
    at_least_as_proven,
    holds,
    rate_of_each,
    targets_in_words,
    with_evidence,
)

if TYPE_CHECKING:
    from weft.domain.snapshot import Buckets, PoolObservation

SLO = Slo(ttft=((95, 1.5),))
WORDS = targets_in_words(Role.Aggregated, SLO)
NOTHING_YET = CalibrationMemory(SUBJECT, Calibration())
PROVEN = ProvenLoad(SUBJECT.words, WORDS, 2.0, 4, 1000.0, 200.0)
EDGES = (0.5, 1.0, 1.25, 1.5, 2.0, 5.0, math.inf)


def first_tokens(late: float, count: float = 600.0) -> Buckets:
    """Log-normal first tokens, of which this share takes longer than 1.5 s."""
    times = NormalDist(math.log(1.5) - 0.4 * NormalDist().inv_cdf(1.0 - late), 0.4)
    return tuple((edge, count if math.isinf(edge) else count * times.cdf(math.log(edge))) for edge in EDGES)


def at(rate: float, late: float) -> PoolObservation:
    return replace(quiet(rate=rate), ttft_buckets=first_tokens(late))


def tried(replicas: int = 4, **changes: Any) -> Tried:  # noqa: ANN401 - any field
    return replace(Tried(replicas, DECLARED, SLO.ttft, (), WORDS), **changes)


def after(memory: CalibrationMemory, *looks: tuple[float, float], replicas: int = 4) -> CalibrationMemory:
    """The memory after measurements at so many requests a second, of which a share was late."""
    for rate, late in looks:
        memory = with_evidence(memory, at(rate, late), tried(replicas))
    return memory


def rate_of(memory: CalibrationMemory) -> float:
    return 0.0 if memory.proven is None else memory.proven.rate


def test_a_load_is_proven_by_enough_requests_that_were_in_time() -> None:
    """Of 200 requests ten are late where a target of 95 % is just met; a measurement at 2 requests/s has 120."""
    once = after(NOTHING_YET, (2.0, 0.02))
    assert once.proven is None
    twice = after(once, (2.0, 0.02))
    assert twice.proven == ProvenLoad(SUBJECT.words, "TTFT p95 1.5 s", 0.5, 4, 1000.0, 200.0)


@pytest.mark.parametrize("late", [0.05, 0.06, 0.3])
def test_a_target_that_is_just_met_or_missed_proves_nothing(late: float) -> None:
    assert after(NOTHING_YET, *[(8.0, late)] * 20).proven is None


def test_a_higher_load_takes_the_place_of_a_lower_one_and_not_the_other_way_round() -> None:
    found = after(NOTHING_YET, *[(8.0, 0.02)] * 3, *[(12.0, 0.02)] * 3)
    assert rate_of(found) == pytest.approx(3.0)
    assert rate_of(after(found, *[(4.0, 0.01)] * 5)) == pytest.approx(3.0)


def test_what_misses_its_targets_at_that_load_counts_for_less_until_it_meets_them() -> None:
    known = replace(NOTHING_YET, proven=PROVEN)
    missed = after(known, (7.6, 0.1))
    assert rate_of(missed) == pytest.approx(0.9 * 1.9)
    assert rate_of(after(missed, *[(6.6, 0.12)] * 2)) < 0.9 * 1.65
    assert rate_of(after(missed, *[(6.8, 0.02)] * 9)) == rate_of(missed)


def test_what_misses_its_targets_at_a_higher_load_says_nothing_of_this_one() -> None:
    assert after(replace(NOTHING_YET, proven=PROVEN), *[(12.0, 0.5)] * 9).proven == PROVEN


def test_fewer_replicas_that_miss_refute_no_more_than_what_they_counted_for() -> None:
    """Two of four count for 0.71 of what each of four does."""
    known = replace(NOTHING_YET, proven=PROVEN)
    assert after(known, *[(3.4, 0.5)] * 9, replicas=2).proven == PROVEN
    assert rate_of(after(known, *[(2.6, 0.5)] * 9, replicas=2)) < PROVEN.rate


def test_a_status_that_somebody_else_wrote_is_corrected_by_one_measurement() -> None:
    bogus = replace(NOTHING_YET, proven=replace(PROVEN, rate=1000.0))
    assert rate_of(after(bogus, (8.0, 0.5))) == pytest.approx(1.8)


def test_other_counts_or_loads_begin_anew() -> None:
    one = after(NOTHING_YET, (2.0, 0.02))
    assert after(one, (2.0, 0.02), replicas=3).proven is None
    assert after(one, (2.8, 0.02)).proven is None
    longer = replace(DECLARED, input_tokens=1100)
    assert with_evidence(one, at(2.0, 0.02), tried(workload=longer)).proven is None


def test_other_targets_forget_what_was_proven_of_these() -> None:
    other = tried(ttft=((95, 0.6),), words="TTFT p95 0.6 s")
    assert with_evidence(replace(NOTHING_YET, proven=PROVEN), at(8.0, 0.3), other).proven is None


@pytest.mark.parametrize("buckets", [(), ((2.5, 600.0), (math.inf, 600.0)), ((0.5, 0.0), (2.5, 0.0))])
def test_a_target_that_buckets_do_not_resolve_proves_nothing(buckets: Buckets) -> None:
    found = with_evidence(NOTHING_YET, replace(at(8.0, 0.02), ttft_buckets=buckets), tried())
    assert found.evidence is None


@pytest.mark.parametrize("seconds", [-0.1, 0.0, 0.2, 0.5])
def test_no_target_in_or_below_the_first_bucket_is_resolved(seconds: float) -> None:
    assert with_evidence(NOTHING_YET, at(8.0, 0.02), tried(ttft=((95, seconds),))).evidence is None


def test_where_a_few_prompts_are_far_longer_the_bucket_of_a_target_may_hold_them_all() -> None:
    rare = tried(workload=replace(DECLARED, rare_prompts=(0.06, 9.0)))
    buckets = ((1.0, 560.0), (2.5, 600.0), (math.inf, 600.0))
    told = replace(at(8.0, 0.02), ttft_buckets=((0.5, 500.0), *buckets))
    assert with_evidence(NOTHING_YET, told, tried()).proven is not None
    assert with_evidence(NOTHING_YET, told, rare).proven is None


def test_beyond_the_last_edge_only_what_is_below_that_is_known_to_be_in_time() -> None:
    buckets = ((0.5, 300.0), (1.0, 594.0), (math.inf, 600.0))
    found = with_evidence(NOTHING_YET, replace(at(8.0, 0.02), ttft_buckets=buckets), tried()).evidence
    assert found is not None
    assert found.shares == (0.99,)


@pytest.mark.parametrize("late", [0.01, 0.03, 0.1])
def test_inside_a_bucket_latencies_are_log_normal(late: float) -> None:
    """And no more than 99.5 % of them are known to be below its upper edge."""
    buckets = tuple((edge, count) for edge, count in first_tokens(late) if edge != 1.5)
    found = with_evidence(NOTHING_YET, replace(at(8.0, 0.02), ttft_buckets=buckets), tried()).evidence
    assert found is not None
    assert found.shares[0] == pytest.approx(1.0 - late, abs=0.007)
    assert found.shares[0] <= 1.0 - late + 1e-9


def test_both_latencies_have_to_be_in_time() -> None:
    both = tried(tpot=((90, 0.03),))
    steps = ((0.01, 100.0), (0.025, 590.0), (0.05, 600.0), (math.inf, 600.0))
    assert with_evidence(NOTHING_YET, replace(at(8.0, 0.02), tpot_buckets=steps), both).proven is not None
    slow = ((0.01, 0.0), (0.025, 300.0), (0.05, 600.0), (math.inf, 600.0))
    assert with_evidence(NOTHING_YET, replace(at(8.0, 0.02), tpot_buckets=slow), both).proven is None
    assert with_evidence(NOTHING_YET, at(8.0, 0.02), both).evidence is None


def test_it_holds_for_the_same_engines_and_targets_and_for_requests_that_are_not_far_longer() -> None:
    assert holds(PROVEN, SUBJECT, WORDS, DECLARED) == PROVEN
    longer = holds(PROVEN, SUBJECT, WORDS, replace(DECLARED, output_tokens=240))
    assert longer is not None
    assert longer.rate == pytest.approx(2.0 / 1.2)
    assert holds(PROVEN, SUBJECT, WORDS, replace(DECLARED, input_tokens=1300)) is None
    assert holds(PROVEN, SUBJECT, WORDS, replace(DECLARED, input_tokens=1300, prefix_hit=0.5)) == PROVEN
    assert holds(PROVEN, SUBJECT, "TTFT p95 1.4 s", DECLARED) is None
    assert holds(PROVEN, replace(SUBJECT, shape="H200 FP8 TP8"), WORDS, DECLARED) is None


def test_targets_in_words_are_those_of_the_role() -> None:
    slo = Slo(((50, 0.3), (95, 1.5)), ((90, 0.025),))
    assert targets_in_words(Role.Aggregated, slo) == "TTFT p50 0.3 s, TTFT p95 1.5 s, TPOT p90 0.025 s"
    assert targets_in_words(Role.Prefill, slo) == "TTFT p50 0.3 s, TTFT p95 1.5 s"
    assert targets_in_words(Role.Decode, slo) == "TPOT p90 0.025 s"


def test_fewer_replicas_count_for_less_and_one_alone_for_what_is_predicted() -> None:
    found = at_least_as_proven(Capacity(0.1), PROVEN)
    assert [found.each(count) for count in (1, 2, 4, 9)] == pytest.approx([0.1, math.sqrt(2.0), 2.0, 2.0])
    assert at_least_as_proven(Capacity(2.5), PROVEN) == Capacity(2.5)
    assert at_least_as_proven(Capacity(0.0), PROVEN) == Capacity(0.0)
    assert at_least_as_proven(Capacity(0.1), replace(PROVEN, replicas=1)).each(1) == pytest.approx(2.0)


@given(
    alone=st.floats(0.01, 3.0),
    gains=st.lists(st.floats(1.0, 3.0), max_size=9).map(sorted),
    replicas=st.integers(1, 12),
    rate=st.floats(0.05, 5.0),
)
def test_no_number_of_replicas_counts_for_less_than_predicted_or_proven(
    alone: float, gains: list[float], replicas: int, rate: float
) -> None:
    predicted = Capacity(alone, (1.0, *gains[1:]) if gains else ())
    proven = replace(PROVEN, replicas=replicas, rate=rate)
    found = at_least_as_proven(predicted, proven)
    each = [found.each(count) for count in range(1, 20)]
    assert each == sorted(each)
    for count, serves in enumerate(each, 1):
        shown = rate_of_each(proven, count) if predicted.each(replicas) < rate else 0.0
        assert serves == pytest.approx(max(predicted.each(count), shown))
    assert found.needed(found.of(7)) <= 7


def test_a_new_process_counts_on_what_was_proven_before_it() -> None:
    found = watched(None, look(), (), PROVEN)
    assert found.proven == PROVEN
    other = replace(look(), subject=replace(SUBJECT, shape="H200 FP8 TP8"))
    assert watched(found, other, (), PROVEN).proven is None


def test_a_pool_keeps_the_replicas_that_meet_its_targets_and_says_so() -> None:
    """Predicted are 0.05 requests/s each, and 160 replicas for 8 of them."""
    pool = Pool(capacity=0.05, proven=replace(PROVEN, rate=2.5), spec=replace(AUTO, max_replicas=200))
    pool.current = 4
    assert pool.run(seen(8.0, 4), 900.0).desired == 4
    told = pool.step(seen(16.0, 4)).changed
    assert told is not None
    assert "one replica serves 0.05 requests/s as predicted, and each of 8 2.5, as 4 replicas met" in told.message
