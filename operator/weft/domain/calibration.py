"""What live metrics taught about a deployment: two factors, and what they were measured on."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.shape import Calibration

if TYPE_CHECKING:
    from weft.domain.hardware import Precision
    from weft.domain.shape import EngineRelease, Shape

NOTHING_KNOWN = Calibration()
REMEMBERED = 4096  # subjects: every pass asks for that of every pool
MOST_FACTOR = 4.0  # the model is not off by more either way: beyond, something else is wrong


@dataclass(frozen=True, slots=True)
class Subject:
    """What factors are measured on: a model in a shape (in words) on an engine release."""

    model: str
    release: EngineRelease
    accelerator: str
    precision: Precision
    shape: str

    @staticmethod
    @functools.lru_cache(maxsize=REMEMBERED)
    def of(model: str, release: EngineRelease, shape: Shape) -> Subject:
        """A shape as some release runs it."""
        return Subject(model, release, shape.accelerator, shape.precision, str(shape))

    def is_kin_of(self, other: Subject) -> bool:
        """Whether both differ in parallelism alone: the model errs about them in the same direction."""
        mine, theirs = ((each.model, each.release, each.accelerator, each.precision) for each in (self, other))
        return mine == theirs


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Factors that are in force for a subject since `updated` (epoch seconds)."""

    subject: Subject
    factors: Calibration
    updated: float


def measured_on(subject: Subject, known: tuple[Calibrated, ...]) -> Calibration | None:
    """The factors that were measured on exactly this."""
    return next((each.factors for each in known if each.subject == subject), None)


def factors_for(subject: Subject, known: tuple[Calibrated, ...]) -> Calibration:
    """The best guess: what was measured on it, else on the latest of its kin (which makes no point of its own)."""
    own = measured_on(subject, known)
    if own is not None:
        return own
    kin = next((each.factors for each in known if each.subject.is_kin_of(subject)), NOTHING_KNOWN)
    return Calibration(kin.prefill, kin.decode)
