"""Shapes of prefill halves beside each other, of which replicas serve more together than so many alone (ADR 0113).

One of the small shape serves 1 request/s alone, and each of four or more 1.5; one of the large shape 2 and 2.5.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.render.pools import LLAMA, RELEASE, plan, pool, shape, spec
from weft.decide.counting.counts import Prospect, count
from weft.decide.course import Turn, from_nothing
from weft.decide.plans.planning import Planned
from weft.decide.replicas.health import AssignedReplica
from weft.decide.replicas.survivors import Survivors
from weft.decide.shapes.at_maximum import is_too_small_at_its_maximum, would_be_too_small_again
from weft.decide.shapes.comparing import (
    as_many_as_serve_now,
    never_serves_less,
    part_served,
    serves_the_rate,
    wanted_at_once,
)
from weft.domain.calibration import CalibrationSubject
from weft.domain.capacity import Capacity
from weft.domain.pool_memory import LoadSample, ScaleMemory
from weft.domain.reasons import Explanation, Reason
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.snapshot import Snapshot
from weft.domain.start_up import StartUp
from weft.domain.status import Assignment, LeftShape
from weft.domain.workload import Role
from weft.scaling import ScaleAnswer

if TYPE_CHECKING:
    from weft.domain.shape import Plan

NOW, HOUR = 10_000.0, 3600.0
SMALL, LARGE = Capacity(1.0, (1.0, 1.2, 1.4, 1.5)), Capacity(2.0, (1.0, 1.1, 1.2, 1.25))
SMALL_SHAPE, LARGE_SHAPE = shape(1), shape(2)


def of_shape(capacity: Capacity) -> Plan:
    found = SMALL_SHAPE if capacity.alone == SMALL.alone else LARGE_SHAPE
    return replace(plan(found), prediction=replace(plan(found).prediction, capacity=capacity.alone))


def turn(
    capacity: Capacity, have: int, desired: int, *, before: Capacity | None = None, most: int = 8, rate: float = 1.0
) -> Turn:
    """A half of so many replicas of a shape; `before` is of the plan in its status, and `rate` what users declared."""
    scaling = ScalingSpec(max_replicas=most, headroom=0.0)
    wanted, known = of_shape(capacity), spec(Role.Prefill)
    known = replace(known, scaling=scaling, workload=replace(known.workload, requests_per_second=rate))
    record, earlier = pool(known), before if before is not None else capacity
    record = replace(record, status=replace(record.status, plan=of_shape(earlier)))
    subject, memory = CalibrationSubject.of(LLAMA, RELEASE, wanted.shape), ScaleMemory(since=0.0)
    planned = Planned(record, known, wanted, "new", capacity, capacity, earlier, subject, StartUp(1, 1, 1))
    there = [AssignedReplica(Assignment(number, "new", ("n",), 1, 0.0), ()) for number in range(have)]
    answer = ScaleAnswer(desired, desired, Explanation(Reason.AtMaximum, "at its maximum"), memory)
    return Turn(planned, Survivors(tuple(there)), answer, None, (), memory)


def lasting(of: Turn, rate: float) -> Turn:
    """The same where so many requests a second came for long."""
    return replace(
        of, memory=replace(of.memory, lasting=rate, seen=NOW, came_lately=((NOW, rate),), since=NOW - 2 * HOUR)
    )


@pytest.mark.parametrize(("rate", "too_small"), [(9.0, False), (13.0, False), (13.3, True)])
def test_a_half_at_its_maximum_is_too_small_for_more_than_all_of_it_serves_together(
    rate: float,
    too_small: bool,  # noqa: FBT001
) -> None:
    """Eight serve 12 requests/s, and a tenth may be lacking; eight alone would serve 8."""
    assert is_too_small_at_its_maximum(lasting(turn(SMALL, 8, 8), rate), NOW) is too_small


@pytest.mark.parametrize(("peak", "too_small"), [(7.0, False), (9.5, False), (9.7, True)])
def test_a_half_goes_back_to_a_shape_that_together_serves_the_peak_and_a_quarter_more(
    peak: float,
    too_small: bool,  # noqa: FBT001
) -> None:
    """From eight large ones, which serve 20 requests/s together, to eight small ones, which serve 12."""
    back = turn(SMALL, 6, 8, before=LARGE)
    left = LeftShape(str(SMALL_SHAPE), NOW - HOUR, "", outgrown=True)
    record = replace(back.planned.pool, status=replace(back.planned.pool.status, left_shape=left))
    back = lasting(replace(back, planned=replace(back.planned, pool=record)), peak)
    assert would_be_too_small_again(back) is too_small


def test_a_part_is_of_what_all_that_are_wanted_serve_together() -> None:
    """Eight small ones serve 12 requests/s, three large ones 7.2 and four 10: alone they would serve 8, 6 and 8."""
    small, large = turn(SMALL, 8, 8), turn(LARGE, 0, 5)
    found = [part_served(large, count, small, (5, 8)) for count in (3, 4, 5)]
    assert found == pytest.approx([0.6, 10.0 / 12.0, 1.0])


def test_what_serves_now_is_of_replicas_in_company() -> None:
    """Eight small ones serve 12 requests/s, of which four large ones would serve 10."""
    assert not never_serves_less(turn(LARGE, 0, 4), turn(SMALL, 8, 8))
    assert never_serves_less(turn(LARGE, 0, 5), turn(SMALL, 8, 8))


def test_replicas_in_company_serve_the_declared_rate() -> None:
    """Four large ones serve 10 requests/s together, and 8 alone; eight small ones serve 12."""
    pairs = [(turn(LARGE, 0, 4, most=4, rate=rate), turn(SMALL, 8, 8, rate=rate)) for rate in (9.0, 11.0)]
    assert [True, False] == [serves_the_rate(*pair) for pair in pairs]


def test_as_many_as_serve_now_are_counted_in_company() -> None:
    """Eight small ones serve 12 requests/s, for which five large ones are needed; four serve 10."""
    assert as_many_as_serve_now(turn(LARGE, 8, 8, before=SMALL)) == 5
    assert as_many_as_serve_now(turn(SMALL, 2, 8, before=LARGE)) == 4, "two large ones serve 4.4, and three small 4.2"


def test_no_more_are_missed_than_serve_the_rate_together() -> None:
    """Four large ones and a part of a fifth serve 12 requests/s; alone it would be six of them."""
    assert wanted_at_once(from_nothing(turn(LARGE, 0, 4), 4), SMALL.of(8)) == 4
    assert wanted_at_once(from_nothing(turn(SMALL, 0, 2), 2), LARGE.of(2)) == 3


def test_no_replica_more_comes_from_a_rounding_error_where_another_shape_takes_over() -> None:
    """14 replicas of 0.3 requests/s serve 4.2, as 7 of 0.6 do; in binary fractions it is a little more."""
    small, planned = Capacity(0.3), turn(Capacity(0.6), 14, 14, before=Capacity(0.3)).planned
    verdict = Explanation(Reason.Outgrown, "it serves more")
    planned = replace(planned, before=small, plan=replace(planned.plan, shape=shape(4), verdict=verdict))
    record = replace(planned.pool, status=replace(planned.pool.status, desired_replicas=14))
    planned = replace(planned, pool=record, spec=replace(planned.spec, scaling=ScalingSpec(max_replicas=20)))
    known = {record.key.uid: ScaleMemory(since=0.0, loads=(LoadSample(NOW, 0.0, 0.0, 14),))}
    prospect, snapshot = Prospect(record, planned, None, None), Snapshot(NOW, (record,), (), (), (), memory=known)
    (answer,) = count((prospect,), None, snapshot, {})
    assert answer.desired == 7
