"""What replicas did at most when all were saturated is remembered for a while."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.scaling.cases import Pool, seen
from tests.scaling.learning import SUBJECT
from weft.domain.capacity import Capacity
from weft.domain.pool_memory import CalibrationMemory, Saturation
from weft.domain.shape import Calibration
from weft.domain.workload import Role
from weft.scaling import scale_pool

if TYPE_CHECKING:
    from weft.domain.calibration import CalibrationSubject

HOUR = 3600.0


def pool(subject: CalibrationSubject = SUBJECT, role: Role = Role.Aggregated) -> Pool:
    """Two replicas that are counted on for 4 requests a second each, and that calibration knows."""
    found = Pool(capacity=4.0, role=role)
    found.current = 2
    found.step(seen(4.0, 2))
    return learning(found, subject)


def learning(found: Pool, subject: CalibrationSubject) -> Pool:
    assert found.answer is not None
    calibration = CalibrationMemory(subject, Calibration())
    found.answer = replace(found.answer, memory=replace(found.answer.memory, calibration=calibration))
    return found


def saturated(found: Pool, rate: float = 4.4) -> Pool:
    """Two minutes in which all replicas answer so many requests in all, and others wait."""
    found.run(seen(rate, 2, waiting=10.0), 120.0)
    return found


def known(found: Pool) -> Saturation | None:
    assert found.answer is not None
    return found.answer.memory.saturation


def test_what_was_bought_for_saturated_replicas_stays_once_their_backlog_is_gone() -> None:
    """They answer 2.2 each at most: 4.4 with headroom take three, where the prediction has two."""
    found = saturated(pool())
    found.run(seen(4.4, 3), HOUR / 2.0)
    assert found.current == 3
    found.run(seen(4.4, 3), HOUR)
    assert found.current == 2


def test_a_count_that_rests_on_it_says_so() -> None:
    found = saturated(pool())
    found.run(seen(4.4, 3), 600.0)
    changes = [found.step(seen(6.4, 3)) for _ in range(12)]
    told = [each.changed.message for each in changes if each.changed is not None]
    assert "one replica serves 2.2 requests/s, which is what it did at most when all were saturated 10" in told[0]


def test_it_counts_twice_as_long_each_time_that_it_comes_back() -> None:
    found = saturated(pool())
    found.now += 2.0 * HOUR
    saturated(found)
    assert known(found) == Saturation(SUBJECT, found.now, 2.2, times=2)
    found.run(seen(4.4, 3), 1.9 * HOUR, every=60.0)
    assert found.current == 3
    found.run(seen(4.4, 3), HOUR, every=60.0)
    assert found.current == 2


def test_what_replicas_do_more_than_that_counts_from_then_on() -> None:
    found = saturated(pool())
    found.run(seen(9.0, 3), 120.0)
    assert known(found) == Saturation(SUBJECT, known_at(found), 3.0)


def known_at(found: Pool) -> float:
    saturation = known(found)
    assert saturation is not None
    return saturation.at


def test_longer_requests_are_worth_less_of_it() -> None:
    """A replica serves half as many requests of twice the work: at most 1.1, not the 2 that are predicted."""
    found = pool()
    found.declared_capacity = 4.0
    saturated(found)
    found.capacity = 2.0
    found.run(seen(2.2, 3), 600.0)
    assert found.current == 3


@pytest.mark.parametrize("rate", [0.0, 3.9, 8.0, 9.0])
def test_engines_that_are_ill_or_do_as_predicted_teach_nothing(rate: float) -> None:
    assert known(saturated(pool(), rate)) is None


def test_a_half_of_a_split_may_wait_for_the_other_one() -> None:
    assert known(saturated(pool(role=Role.Prefill))) is None


def test_other_engines_begin_anew() -> None:
    found = saturated(pool())
    learning(found, replace(SUBJECT, model="other"))
    found.run(seen(4.4, 3), 600.0)
    assert found.current == 2


def test_a_second_look_at_the_same_moment_changes_nothing() -> None:
    found = pool()
    for _ in range(12):
        first = found.step(seen(4.4, 2, waiting=10.0))
        again = scale_pool(found.request(seen(4.4, 2, waiting=10.0)))
        assert again.memory == first.memory


def test_no_number_of_replicas_serves_more_each_than_is_known() -> None:
    capped = Capacity(2.0, (1.0, 1.2, 1.5)).at_most(2.2)
    assert [capped.each(count) for count in (1, 2, 3, 9)] == pytest.approx([2.0, 2.2, 2.2, 2.2])
    assert Capacity(4.0).at_most(2.2) == Capacity(2.2)
    assert Capacity(2.0, (1.0, 1.1)).at_most(2.2).gains == (1.0, 1.1)
