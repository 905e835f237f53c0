"""Which learnt factors decisions use, and which of them the status keeps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.scaling.learning import RELEASE, START, SUBJECT, FixedCosts, Pool, off, shape_of
from tests.shaping.cases import LLAMA_70B
from weft.domain.calibration import Calibrated, CalibrationSubject, factors_for, measured_on
from weft.domain.pool_memory import CalibrationMemory
from weft.domain.shape import Calibration
from weft.scaling.calibrating import taking_over
from weft.scaling.calibrating.taking_over import what_is_phased

if TYPE_CHECKING:
    from weft.scaling.calibrating.taking_over import CapacityUnder


def in_force(
    known: tuple[Calibrated, ...], memory: CalibrationMemory, now: float, capacity: CapacityUnder = lambda _: 0.0
) -> tuple[Calibrated, ...]:
    """Where nobody knows what capacity makes of it, latencies alone bound a step."""
    return taking_over.in_force(known, memory, now, capacity)


class TestInForce:
    """What decisions use and the status keeps."""

    def test_the_first_measurement_is_told(self) -> None:
        pool = Pool(Calibration(1.2, 1.2))
        pool.run(2)
        assert [(each.subject, each.factors.points) for each in pool.known] == [(SUBJECT, 1)]

    @pytest.mark.parametrize(
        ("factor", "points", "after_seconds", "changes"),
        [
            (1.5, 12, 299, False),
            (1.04, 12, 3600, False),
            (1.06, 12, 300, True),
            (0.94, 12, 300, True),
            (1, 24, 300, True),
            (1.5, 12, -60, True),
        ],
    )
    def test_it_stays_until_it_is_old_and_off(
        self,
        factor: float,
        points: int,
        after_seconds: float,
        changes: bool,  # noqa: FBT001 - a case
    ) -> None:
        """L3: 5 %, or twice as many points, at most every 5 minutes; a clock that was set back is no reason to wait."""
        known = (Calibrated(SUBJECT, Calibration(1.2, 1.2, 12, 12), START),)
        memory = CalibrationMemory(SUBJECT, Calibration(1.2 * factor, 1.2, points, points))
        assert (in_force(known, memory, START + after_seconds) != known) is changes

    @pytest.mark.parametrize(("after_seconds", "changes"), [(119.0, False), (120.0, True)])
    def test_the_first_ones_follow_as_they_are_measured(self, after_seconds: float, changes: bool) -> None:  # noqa: FBT001 - a case
        """A count that is made of guesses costs GPUs for as long as it is: there are only a few of them."""
        known = (Calibrated(SUBJECT, Calibration(1.0, 1.0, 2, 2, None, 1.4), START),)
        memory = CalibrationMemory(SUBJECT, Calibration(1.0, 1.0, 3, 3, None, 1.2))
        assert (in_force(known, memory, START + after_seconds) != known) is changes

    def test_a_large_change_is_phased_in(self) -> None:
        """Latencies in force change by a fifth at most each five minutes, until they are those that were learnt."""
        exact = Calibration(1.0, 1.5, 40, 40, None, 1.3)
        known: tuple[Calibrated, ...] = (Calibrated(SUBJECT, Calibration(1.0, 1.0, 39, 39, None, 1.0), START),)
        longer = [1.0]
        for passed in range(1, 8):
            known = in_force(known, CalibrationMemory(SUBJECT, exact), START + 300.0 * passed)
            factors = known[0].factors
            assert factors.tpot_tail is not None
            longer.append(factors.decode * factors.tpot_tail)
        assert all(1.0 <= later / earlier < 1.23 for earlier, later in pairwise(longer))
        assert longer[3] < longer[4] == pytest.approx(1.5 * 1.3, rel=0.03)

    def test_close_to_a_target_steps_are_as_small_as_capacity_asks_for(self) -> None:
        """A target of twice what an idle replica does: 1.2 times the step at 1.5 times it would halve capacity."""
        exact, asked = Calibration(1.0, 1.9, 40, 40), []

        def capacity(factors: Calibration) -> float:
            asked.append(factors)
            return 2.0 - factors.decode

        known: tuple[Calibrated, ...] = (Calibrated(SUBJECT, Calibration(1.0, 1.5, 39, 39), START),)
        memory, found, told = CalibrationMemory(SUBJECT, exact), [0.5], []
        for passed in range(1, 12):
            then = in_force(known, memory, START + 300.0 * passed, capacity)
            told.append(what_is_phased(known, then, memory))
            known = then
            found.append(2.0 - known[0].factors.decode)
        assert all(2 / 3 <= later / earlier <= 1.0 for earlier, later in pairwise(found))
        assert known[0].factors.decode == pytest.approx(exact.decode, rel=0.05)
        phased = [each is not None for each in told]
        assert 3 <= sum(phased) < len(phased)
        assert phased == sorted(phased, reverse=True)
        asked.clear()
        in_force(known, CalibrationMemory(SUBJECT, exact), START + 4200.0, capacity)
        assert asked == []  # nothing changes, so that nobody has to predict anything

    def test_the_first_step_of_another_shape_goes_on_from_what_its_kin_taught(self) -> None:
        """Which is what decisions were made with until then: nothing falls back to the bare model."""
        kin = Calibrated(
            CalibrationSubject.of(LLAMA_70B, RELEASE, shape_of(LLAMA_70B, 2)), Calibration(2.0, 2.0, 40, 40), START
        )
        memory = CalibrationMemory(SUBJECT, Calibration(2.1, 2.1, 1, 1))
        then = in_force((kin,), memory, START + 300.0)
        assert then[0].factors.decode == pytest.approx(2.1, rel=0.02)
        assert what_is_phased((kin,), then, memory) is None

    @pytest.mark.parametrize(
        ("exact", "told"),
        [
            (Calibration(1.0, 1.5, 40, 40, None, 1.3), "a TPOT of 1.95 times what"),
            (Calibration(2.0, 0.5, 40, 40), "a TTFT of 2 times and a TPOT of 0.5 times what"),
            (Calibration(1.1, 1.1, 40, 40), None),
        ],
    )
    def test_what_is_phased_in_is_said_when_it_changes(self, exact: Calibration, told: str | None) -> None:
        known = (Calibrated(SUBJECT, Calibration(1.0, 1.0, 39, 39, None, 1.0), START),)
        memory = CalibrationMemory(SUBJECT, exact)
        then = in_force(known, memory, START + 300.0)
        assert then != known
        said = what_is_phased(known, then, memory)
        assert (said is None) == (told is None)
        assert said is None or (told or "") in said.message
        assert what_is_phased(known, known, memory) is None

    def test_a_tail_is_told_as_soon_as_there_is_one(self) -> None:
        """Even one that is just as expected: it takes the place of an error bar."""
        known = (Calibrated(SUBJECT, Calibration(1.2, 1.2, 12, 12), START),)
        measured = Calibration(1.2, 1.2, 13, 13, 1.0, 1.0)
        assert in_force(known, CalibrationMemory(SUBJECT, measured), START + 299.0) == known
        (found,) = in_force(known, CalibrationMemory(SUBJECT, measured), START + 300.0)
        assert (found.factors.ttft_tail, found.factors.tpot_tail) == (1.0, 1.0)

    def test_enough_points_are_told_once(self) -> None:
        known = (Calibrated(SUBJECT, Calibration(1.2, 1.2, 8, 8), START),)
        assert in_force(known, CalibrationMemory(SUBJECT, Calibration(1.2, 1.2, 9, 9)), START + 900) == known
        found = in_force(known, CalibrationMemory(SUBJECT, Calibration(1.2, 1.2, 10, 10)), START + 900)
        assert found[0].factors.points == 10

    def test_what_is_hardly_off_is_not_rounded_anew(self) -> None:
        """Next to a target a step of 2 % is 15 % of capacity: more points, or another latency, are no reason for it."""
        known = (Calibrated(SUBJECT, Calibration(0.98, 0.961, 34, 34, 1.0, 0.98), START),)
        (told,) = in_force(known, CalibrationMemory(SUBJECT, Calibration(0.969, 0.962, 68, 68, 1.02, 1.0)), START + 300)
        assert told.factors == Calibration(0.98, 0.961, 68, 68, 1.0, 0.98)
        (told,) = in_force(known, CalibrationMemory(SUBJECT, Calibration(1.07, 0.962, 68, 68, 1.02, 1.0)), START + 300)
        assert told.factors == Calibration(1.06, 0.961, 68, 68, 1.02, 0.98)
        both = in_force(known, CalibrationMemory(SUBJECT, Calibration(0.98, 1.0, 68, 68, 1.0, 1.02)), START + 300)
        assert both[0].factors == Calibration(0.98, 1.0, 68, 68, 1.0, 1.02), "4 % of each is 8 % of a latency"
        early = (Calibrated(SUBJECT, Calibration(0.98, 0.961, 10, 10, 1.0, 0.98), START),)
        (told,) = in_force(early, CalibrationMemory(SUBJECT, Calibration(0.969, 0.962, 20, 20, 1.02, 1.0)), START + 300)
        assert told.factors == Calibration(0.961, 0.961, 20, 20, 1.02, 1.0), "in the first hour more is known each time"

    def test_a_steady_pool_ends_in_no_write(self) -> None:
        """L3: a few while it learns, a dozen more as points double, and none after a thousand points."""
        pool = FixedCosts(Calibration(1.3, 0.9))
        pool.run(60)
        learning = pool.writes
        pool.run(1000)
        counted = pool.writes
        pool.run(50)
        assert learning <= 20
        assert counted - learning <= 6
        assert pool.writes == counted

    def test_a_restart_goes_on_from_what_is_in_force(self) -> None:
        pool = Pool(Calibration(1.6, 1.3))
        before = pool.run(30)
        pool.memory = None
        after = pool.step()
        assert max(off(after, before)) < 1.05
        assert after.points > 15

    def test_what_was_measured_with_another_release_or_model_goes(self) -> None:
        newer = replace(SUBJECT, release=replace(RELEASE, version="0.34.0"))
        other = replace(SUBJECT, model="meta-llama/Llama-3.1-8B-Instruct")
        sibling = CalibrationSubject.of(LLAMA_70B, RELEASE, shape_of(LLAMA_70B, 2))
        known = tuple(Calibrated(each, Calibration(1.5, 1.5, 9, 9), START) for each in (newer, other, sibling))
        found = in_force(known, CalibrationMemory(SUBJECT, Calibration(1.1, 1.1, 1, 1)), START)
        assert [SUBJECT, sibling] == [each.subject for each in found]

    def test_the_last_four_shapes_are_kept(self) -> None:
        known: tuple[Calibrated, ...] = ()
        for tensor in (1, 2, 4, 8, 16):
            subject = CalibrationSubject.of(LLAMA_70B, RELEASE, shape_of(LLAMA_70B, tensor))
            known = in_force(known, CalibrationMemory(subject, Calibration(1.1, 1.1, 1, 1)), START)
        assert [each.subject.shape for each in known] == [
            "H200 BF16 TP16",
            "H200 BF16 TP8",
            "H200 BF16 TP4",
            "H200 BF16 TP2",
        ]

    def test_kin_lend_factors_but_no_points(self) -> None:
        known = (Calibrated(SUBJECT, Calibration(1.5, 1.2, 40, 30), START),)
        sibling = CalibrationSubject.of(LLAMA_70B, RELEASE, shape_of(LLAMA_70B, 8))
        assert factors_for(sibling, known) == Calibration(1.5, 1.2)
        assert measured_on(sibling, known) is None
        for stranger in (
            replace(sibling, model="another"),
            replace(sibling, accelerator="H100"),
            replace(sibling, release=replace(RELEASE, version="0.34.0")),
        ):
            assert factors_for(stranger, known) == Calibration()
