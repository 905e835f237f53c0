"""A pool that meets its SLO with `maxReplicas` of its shape keeps it, whatever is predicted of them (ADR 0095)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import TYPE_CHECKING

import pytest

from tests.decide.kinds import Growing, open_spec
from tests.decide.test_at_maximum import FEW, HOUR, NODES, PATIENCE, at_most, part_of_four
from tests.decide.world import World, pool
from weft.domain.workload import Slo

if TYPE_CHECKING:
    from collections.abc import Iterator

WITHIN, ABOVE, NOTHING = 0.1, 0.3, None  # p95 of TPOT in seconds, of which the target is 0.2
TARGET = Slo(tpot=((95, 0.2),))


@dataclass
class Judged(Growing):
    """Engines tell latencies too, at each look the next of these."""

    latencies: Iterator[float | None] = field(default_factory=lambda: cycle([WITHIN]))

    def look(self) -> None:
        super().look()
        if (p95 := next(self.latencies)) is not NOTHING:
            seen = self.world.observations
            self.world.observations = {uid: replace(each, tpot=((95, p95),)) for uid, each in seen.items()}


def bound(latencies: list[float | None], rate: float = 60.0) -> Judged:
    """Four L40S, which are all that are allowed, and more comes than they serve by predictions."""
    spec = open_spec(FEW, at_most(4), slo=TARGET)
    judged = Judged(World.of(NODES, pool("chat", spec)), {"chat": FEW}, latencies=cycle(latencies))
    judged.turn(200.0)
    judged.turn(300.0, rate)
    return judged


@pytest.mark.parametrize("part", [1.15, 1.6, 3.0])
def test_one_that_meets_its_slo_keeps_its_shape_whatever_is_predicted(part: float) -> None:
    judged = bound([WITHIN], rate=part_of_four(part))
    judged.turn(2 * HOUR)
    assert ["L40S BF16 TP1"] == [shape for _, shape in judged.shapes]
    assert "Outgrown" not in judged.told


@pytest.mark.parametrize(
    ("looks", "kind"),
    [
        ([ABOVE], "H100"),
        ([ABOVE] * 8 + [WITHIN] * 2, "H100"),
        ([WITHIN] * 8 + [ABOVE] * 2, "L40S"),
        ([WITHIN, NOTHING, NOTHING], "L40S"),
        ([ABOVE, NOTHING, NOTHING], "H100"),
        ([NOTHING], "H100"),
    ],
)
def test_most_looks_decide_and_what_is_predicted_where_nobody_measures(looks: list[float | None], kind: str) -> None:
    judged = bound(looks)
    judged.turn(HOUR)
    assert kind == judged.kind()


def test_it_goes_once_its_slo_was_missed_for_ten_minutes() -> None:
    judged = bound([WITHIN])
    judged.turn(HOUR)
    judged.latencies = cycle([ABOVE])
    judged.turn(PATIENCE)
    assert "L40S" == judged.kind()
    judged.turn(180.0)
    assert "H100" == judged.kind()


def test_a_peak_of_some_minutes_changes_nothing() -> None:
    """Nor does what has yet to be forgotten of it."""
    judged = bound([WITHIN])
    for _ in range(4):
        judged.latencies = cycle([ABOVE])
        judged.turn(300.0)
        judged.latencies = cycle([WITHIN])
        judged.turn(900.0)
    assert ["L40S BF16 TP1"] == [shape for _, shape in judged.shapes]


def test_nobody_goes_back_by_what_came_before_metrics_went_away() -> None:
    """Load was low then, and may be anything since: the hour is over while nobody tells."""
    growing = Growing(World.of(NODES, pool("chat", open_spec(FEW, at_most(4)))), {"chat": FEW})
    growing.turn(200.0)
    growing.turn(PATIENCE + 600.0, 60.0)
    assert "H100" == growing.kind()
    growing.turn(900.0, FEW)
    growing.world.observations.clear()
    growing.world.turn(round(HOUR / 30.0), 30.0)
    assert "H100" == growing.kind()
