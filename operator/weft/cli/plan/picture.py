"""The content of a plan's picture, however it is drawn: curves, their Pareto front, the chosen shape, and texts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from weft.domain.texts.figures import digits, request_rate, seconds
from weft.shaping.choice import answer
from weft.shaping.outlook import Curve, CurvePoint, curves

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from weft.catalog import Catalog
    from weft.domain.shape import Shape
    from weft.shaping import ShapeRequest

    Values = NDArray[np.float64]

PER_USER = "interactivity: output tokens/s per user (1 / mean TPOT)"
PER_GPU = "throughput: output tokens/s per GPU"
_SPEEDS = 400  # number of speeds at which curves are compared: finer than what a picture shows
_BETWEEN = 6  # intervals between one computed point and the next
_NOTHING = 1e-12  # stands for 0, which has no logarithm
_MOST_TICKS = 8
_FARTHEST = 1.5  # times the fastest point: the axis does not extend to a target beyond
_ROOM_ABOVE, _ROOM_BELOW, _ROOM_BESIDE = 1.7, 1.3, 1.06


@dataclass(frozen=True, slots=True)
class Picture:
    """Shapes as curves of throughput over interactivity, and the chosen one among them.

    `front` descends in tokens/s per user. `operating` is the chosen shape at its capacity within the SLO, None where
    nothing meets the SLO; `tpot_target` is (percentile, seconds). `engine` is a name and version.
    """

    model: str
    input_tokens: float
    output_tokens: float
    engine: str
    curves: tuple[Curve, ...]
    front: tuple[tuple[Shape, CurvePoint], ...]
    chosen: Shape
    operating: CurvePoint | None
    tpot_target: tuple[int, float] | None

    @property
    def subtitle(self) -> str:
        """Traffic, engine and shared words: `ISL 1000 / OSL 200 tokens · VLLM 0.32.0 · GB200 FP8`."""
        traffic = f"ISL {digits(self.input_tokens)} / OSL {digits(self.output_tokens)} tokens"
        return " · ".join(part for part in (traffic, self.engine, " ".join(self._shared_words)) if part)

    @property
    def _shared_words(self) -> tuple[str, ...]:
        """Accelerator and precision, where all shapes have the same: they are said once, above."""
        shapes = [curve.shape for curve in self.curves]
        accelerators = {each.accelerator for each in shapes}
        precisions = {each.precision.value for each in shapes}
        if len(accelerators) > 1:
            return ()
        return (*accelerators, *(precisions if len(precisions) == 1 else ()))

    def name(self, shape: Shape) -> str:
        """Return the shape without the words of the subtitle, and with its engine where there are several."""
        words = str(shape).split()[len(self._shared_words) :]
        several = len({curve.shape.engine for curve in self.curves}) > 1
        return " ".join([*words, *([shape.engine.value] if several else [])])

    @property
    def target_words(self) -> str:
        """`TPOT target: p95 within 50 ms (20 tokens/s)`; empty without a target."""
        if self.tpot_target is None:
            return ""
        percentile, target = self.tpot_target
        return f"TPOT target: p{percentile} within {seconds(target)} ({digits(1.0 / target)} tokens/s)"

    @property
    def chosen_words(self) -> tuple[str, ...]:
        """What the chosen shape does at its operating point, line by line."""
        if self.operating is None:
            return ("misses the SLO, as all do",)
        point = self.operating
        return (
            f"{request_rate(point.requests_per_second)} within the SLO",
            f"{digits(point.per_gpu)} tokens/s/GPU at {digits(point.per_user)} tokens/s/user",
        )

    @property
    def most_per_user(self) -> float:
        """The end of the axis of tokens/s per user, which begins at 0."""
        speeds = [point.per_user for point in self._held]
        target = 0.0 if self.tpot_target is None else 1.0 / self.tpot_target[1]
        return _ROOM_BESIDE * max(*speeds, target if target < _FARTHEST * max(speeds) else 0.0)

    @property
    def per_gpu_range(self) -> tuple[float, float]:
        """Ends of the logarithmic axis of tokens/s per GPU, with room for names around its content."""
        rates = [point.per_gpu for point in self._held]
        return min(rates) / _ROOM_BELOW, max(rates) * _ROOM_ABOVE

    @property
    def _held(self) -> list[CurvePoint]:
        return [point for _, point in self.front] + ([] if self.operating is None else [self.operating])

    def runs(self) -> tuple[tuple[Shape, tuple[CurvePoint, ...]], ...]:
        """Return each shape of the front with the longest part that it owns; the visually longest part first."""
        longest: dict[Shape, tuple[CurvePoint, ...]] = {}
        for shape, points in self._parts():
            if self._length(points) > self._length(longest.get(shape, ())):
                longest[shape] = points
        return tuple(sorted(longest.items(), key=lambda each: -self._length(each[1])))

    def _parts(self) -> Iterator[tuple[Shape, tuple[CurvePoint, ...]]]:
        part: list[CurvePoint] = []
        for index, (shape, point) in enumerate(self.front):
            part.append(point)
            if index + 1 == len(self.front) or self.front[index + 1][0] != shape:
                yield shape, tuple(part)
                part = []

    def _length(self, points: tuple[CurvePoint, ...]) -> float:
        """Return the length from end to end, as a fraction of both axes; a single point is longer than none."""
        if not points:
            return -1.0
        low, high = self.per_gpu_range
        across = (points[0].per_user - points[-1].per_user) / self.most_per_user
        return math.hypot(across, math.log(points[-1].per_gpu / points[0].per_gpu) / math.log(high / low))


def picture_of(request: ShapeRequest, catalog: Catalog) -> Picture:
    """Make the picture of what `choose` chooses, raising what that raises; a prefill pool has an empty front."""
    found, around = answer(request, catalog), tuple(map(finer, curves(request, catalog)))
    prediction, tokens = found.scored.assessment.prediction, max(1.0, request.workload.output_tokens)
    capacity, tpot, engine = prediction.capacity, prediction.tpot.mean, found.plan.engine
    point = None
    if capacity > 0.0 and tpot > 0.0:
        per_gpu = capacity * tokens / found.plan.shape.gpus
        point = CurvePoint(1.0 / tpot, per_gpu, capacity)
    return Picture(
        model=request.spec.model.model_id,
        input_tokens=request.workload.input_tokens,
        output_tokens=request.workload.output_tokens,
        engine=f"{engine.name.value} {engine.version}",
        curves=around,
        front=envelope(around),
        chosen=found.plan.shape,
        operating=point,
        tpot_target=request.spec.slo.tpot[-1] if request.spec.slo.tpot else None,
    )


def finer(curve: Curve) -> Curve:
    """Add points between those that were computed, which are evenly spaced in the logarithm of the batch.

    The interpolation is cubic and monotone (Fritsch and Butland, 1984), in the logarithms, so that it adds no wave.
    """
    if len(curve.points) < 3:  # noqa: PLR2004 - a line has nothing to bend
        return curve
    values = [[getattr(point, name) for name in CurvePoint.__slots__] for point in curve.points]
    known = np.log(np.maximum(values, _NOTHING))
    steps = np.diff(known, axis=0)
    slopes = np.vstack([steps[:1], _slopes(steps[:-1], steps[1:]), steps[-1:]])
    begin, end = slopes[:-1], slopes[1:]
    between = [
        known[:-1] + part * (begin + part * (3 * steps - 2 * begin - end + part * (begin + end - 2 * steps)))
        for part in np.arange(_BETWEEN) / _BETWEEN
    ]
    rows = np.exp(np.vstack([np.stack(between, axis=1).reshape(-1, known.shape[1]), known[-1:]]))
    return Curve(curve.shape, tuple(CurvePoint(*map(float, row)) for row in rows))


def _slopes(before: Values, after: Values) -> Values:
    """Return the slope where two pieces meet: the harmonic mean of theirs, and 0 at a peak."""
    alike = before * after > 0.0
    return np.where(alike, 2.0 * before * after / np.where(alike, before + after, 1.0), 0.0)


def envelope(found: tuple[Curve, ...]) -> tuple[tuple[Shape, CurvePoint], ...]:
    """Return the Pareto front of the curves, by falling speed of a user.

    Between computed points a curve is a straight line; a front of the points alone would be jagged, and below the
    curves where they cross.
    """
    drawn = [curve for curve in found if curve.points]
    if not drawn:
        return ()
    speeds = [point.per_user for curve in drawn for point in curve.points]
    grid = np.linspace(max(speeds), min(speeds), _SPEEDS)
    rates = np.array([_at(curve, grid, "per_gpu") for curve in drawn])
    front: list[tuple[Shape, CurvePoint]] = []
    for column, owner in enumerate(rates.argmax(axis=0)):
        if not front or rates[owner, column] > front[-1][1].per_gpu:
            front.append((drawn[owner].shape, _point(drawn[owner], float(grid[column]))))
    return tuple(front)


def _at(curve: Curve, speeds: Values, field: str) -> Values:
    """Return a field of a curve at some speeds; minus infinity where the shape has no such speed."""
    points = sorted(curve.points, key=lambda point: point.per_user)
    known = [point.per_user for point in points]
    values = [getattr(point, field) for point in points]
    return np.asarray(np.interp(speeds, known, values, left=-math.inf, right=-math.inf), dtype=np.float64)


def _point(curve: Curve, speed: float) -> CurvePoint:
    at = np.array([speed])
    return CurvePoint(speed, *(float(_at(curve, at, name)[0]) for name in CurvePoint.__slots__[1:]))


def decades(low: float, high: float) -> tuple[float, ...]:
    """Return ticks of a logarithmic axis: the finest of 1-2-5, 1-3 and whole decades that are few enough."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    found: tuple[float, ...] = ()
    for steps in ((1, 2, 5), (1, 3), (1,)):
        every = (step * 10.0**exponent for exponent in range(first, last + 1) for step in steps)
        found = tuple(tick for tick in every if low <= tick <= high)
        if len(found) <= _MOST_TICKS:
            break
    return found
