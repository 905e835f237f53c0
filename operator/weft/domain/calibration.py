"""Calibration learnt from live metrics: two factors, and the deployment that they were measured on."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.shape import Calibration
from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from weft.domain.hardware import Precision
    from weft.domain.shape import EngineRelease, Shape

NOTHING_KNOWN = Calibration()
REMEMBERED = 4096  # cached subjects: every pass asks for one per pool
MOST_FACTOR = 4.0  # bounds a factor either way: beyond this, something other than the model is wrong


@dataclass(frozen=True, slots=True)
class CalibrationSubject:
    """What factors are measured on: a model in a shape (as text) on an engine release."""

    model: str
    release: EngineRelease
    accelerator: str
    precision: Precision
    shape: str

    @staticmethod
    @functools.lru_cache(maxsize=REMEMBERED)
    def of(model: str, release: EngineRelease, shape: Shape) -> CalibrationSubject:
        """The subject for a model in a shape on a release."""
        return CalibrationSubject(model, release, shape.accelerator, shape.precision, str(shape))

    @property
    def words(self) -> str:
        """The subject in words, such as `meta-llama/Llama-3.1-8B-Instruct as L40S BF16 TP1 on VLLM 0.32.0`."""
        return f"{self.model} as {self.shape} on {self.release.name.value} {self.release.version}"

    def is_kin_of(self, other: CalibrationSubject) -> bool:
        """Whether both differ in parallelism alone, for which the model errs in the same direction."""
        mine, theirs = ((each.model, each.release, each.accelerator, each.precision) for each in (self, other))
        return mine == theirs


@made_often
@dataclass(frozen=True, slots=True)
class ProvenLoad:
    """Requests a second (`rate`) at which each of so many replicas was seen to meet its targets.

    `subject` and `targets` are in words. Requests had so many tokens on average, those of prompts without cached ones.
    """

    subject: str
    targets: str
    rate: float
    replicas: int
    input_tokens: float
    output_tokens: float


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Factors in use for a subject since `updated` (epoch seconds)."""

    subject: CalibrationSubject
    factors: Calibration
    updated: float


def measured_on(subject: CalibrationSubject, known: tuple[Calibrated, ...]) -> Calibration | None:
    """The factors measured on exactly this subject, or None."""
    return next((each.factors for each in known if each.subject == subject), None)


def factors_for(subject: CalibrationSubject, known: tuple[Calibrated, ...]) -> Calibration:
    """The best known factors: those measured on the subject, else on its latest kin (then with zero points)."""
    own = measured_on(subject, known)
    if own is not None:
        return own
    kin = next((each.factors for each in known if each.subject.is_kin_of(subject)), NOTHING_KNOWN)
    return Calibration(kin.prefill, kin.decode)
