"""The context of a choice: every shape as a curve, what other targets would cost, and how large a domain is useful."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.errors import Blocked, Invalid
from weft.domain.texts.figures import digits, request_rate
from weft.domain.texts.units import duration, parse_duration_seconds
from weft.domain.workload import Role, Slo
from weft.perf.service import service
from weft.shaping.choice import answer, possible_cases
from weft.shaping.ranking import SIMPLER_WITHIN, part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weft.catalog import Catalog
    from weft.domain.shape import Shape
    from weft.perf.service import Service
    from weft.shaping.case import ShapeCase
    from weft.shaping.choice import ShapeChoice
    from weft.shaping.request import ShapeRequest

BUSIER = 2.0
_POINTS = 14
_FULL = 0.98  # of the seats, or of the time that prompts may fill: the end of a curve

Targets = tuple[tuple[int, float], ...]  # (percentile, seconds)


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One load: tokens a second per user (1 / mean TPOT) and per GPU, and requests a second per replica."""

    per_user: float
    per_gpu: float
    requests_per_second: float


@dataclass(frozen=True, slots=True)
class Curve:
    """A shape's points from a single request to all seats taken."""

    shape: Shape
    points: tuple[CurvePoint, ...]


def curves(request: ShapeRequest, catalog: Catalog) -> tuple[Curve, ...]:
    """The curves of all possible shapes, in the order of the search; those that only prefill have no points."""
    return tuple(_curve(case) for case in possible_cases(request, catalog))


def _curve(case: ShapeCase) -> Curve:
    request, shape = case.request, case.option.shape
    serves = service(case.replica, request.workload, request.spec.role)
    tokens = max(1.0, request.workload.output_tokens)
    points = (serves.at_batch(batch) for batch in _batches(serves)) if serves.decodes and serves.seats else ()
    return Curve(
        shape,
        tuple(
            CurvePoint(1.0 / point.tpot.mean, point.rate * tokens / shape.gpus, point.rate)
            for point in points
            if point.utilisation < _FULL
        ),
    )


def _batches(serves: Service) -> Iterator[float]:
    """Batches from one sequence to nearly all seats, evenly spaced in the logarithm."""
    most = max(1.0, _FULL * serves.seats)
    return (most ** (step / (_POINTS - 1)) for step in range(_POINTS))


@dataclass(frozen=True, slots=True)
class Variation:
    """The result of another target or rate: `wish` instead of `was`, with its shape, replica count and total GPUs.

    `wish` is written as options take it: `TTFT p95=1500ms`, `16 requests/s`. `gpus` is None where nothing meets it, and
    `shortfall` says that the allowed replicas serve less than the rate.
    """

    wish: str
    was: str
    shape: Shape | None
    replicas: int
    gpus: int | None
    cost: float
    shortfall: str = ""


def variations(request: ShapeRequest, catalog: Catalog) -> tuple[Variation, ...]:
    """Each target 1.5 times as loose and as tight, and twice the rate: chosen anew without the running shape."""
    free = replace(request, incumbent=None)
    return tuple(_variation(wish, was, changed, catalog) for wish, was, changed in _wishes(free))


def _wishes(request: ShapeRequest) -> Iterator[tuple[str, str, ShapeRequest]]:
    """Yield (wish, what it replaces, the request with exactly that wish)."""
    slo, answers = request.spec.slo, request.workload.output_tokens > 1
    tpot = slo.tpot if answers else ()  # no token comes after the first
    for scale in (_looser, _tighter):
        for name, targets, elsewhere in (("TTFT", slo.ttft, Role.Decode), ("TPOT", tpot, Role.Prefill)):
            was, wish = _written(targets, round), _written(targets, scale)
            if wish != was and request.spec.role is not elsewhere:
                yield f"{name} {wish}", was, _with_targets(request, name, scale)
    was, busier = (digits(times * request.workload.requests_per_second) for times in (1.0, BUSIER))
    workload = replace(request.workload, requests_per_second=float(busier))
    yield request_rate(float(busier)), was, replace(request, workload=workload)


def _looser(milliseconds: float) -> int:
    """1.5 times as long, in whole milliseconds, as durations are written."""
    return -(-round(milliseconds) * 3 // 2)


def _tighter(milliseconds: float) -> int:
    return round(milliseconds) * 2 // 3


def _written(targets: Targets, scale: Callable[[float], int]) -> str:
    """Format scaled targets: `p50=300ms p95=1s`, with every percentile."""
    return " ".join(f"p{percentile}={_duration(target, scale)}" for percentile, target in targets)


def _duration(target: float, scale: Callable[[float], int]) -> str:
    return duration(scale(target * 1000))


def _with_targets(request: ShapeRequest, name: str, scale: Callable[[float], int]) -> ShapeRequest:
    def scaled(targets: Targets, *, here: bool) -> Targets:
        read = ((percentile, parse_duration_seconds(_duration(target, scale))) for percentile, target in targets)
        return tuple(read) if here else targets

    slo = request.spec.slo
    changed = Slo(scaled(slo.ttft, here=name == "TTFT"), scaled(slo.tpot, here=name == "TPOT"))
    return replace(request, spec=replace(request.spec, slo=changed))


def _variation(wish: str, was: str, request: ShapeRequest, catalog: Catalog) -> Variation:
    found = tried(request, catalog)
    if found is None or not found.scored.meets_slo:
        return Variation(wish, was, None, 0, None, 0.0)
    scored = found.scored
    shortfall = "" if scored.serves_all else f"as many as are allowed serve {part(scored.served)} of it"
    gpus = scored.replicas * scored.shape.gpus
    return Variation(wish, was, scored.shape, scored.replicas, gpus, scored.cost, shortfall)


def tried(request: ShapeRequest, catalog: Catalog) -> ShapeChoice | None:
    """The choice, or None where no shape is possible."""
    try:
        return answer(request, catalog)
    except (Invalid, Blocked):
        return None


@dataclass(frozen=True, slots=True)
class DomainStep:
    """The choice if no NVLink domain were larger than this; `shape` is None where nothing meets the SLO then."""

    domain_gpus: int
    shape: Shape | None
    cost: float


def domain_steps(request: ShapeRequest, catalog: Catalog) -> tuple[DomainStep, ...]:
    """The choices for domains of 1, 2, 4, ... GPUs up to the largest there is."""
    free, largest = replace(request, incumbent=None), max(supply.domain_gpus for supply in request.supplies)
    sizes = [1 << exponent for exponent in range(largest.bit_length()) if 1 << exponent < largest]
    return tuple(_domain_step(free, size, catalog) for size in (*sizes, largest))


def _domain_step(request: ShapeRequest, size: int, catalog: Catalog) -> DomainStep:
    supplies = tuple(replace(each, domain_gpus=min(size, each.domain_gpus)) for each in request.supplies)
    found = tried(replace(request, supplies=supplies), catalog)
    if found is None or not found.scored.meets_slo:
        return DomainStep(size, None, 0.0)
    return DomainStep(size, found.scored.shape, found.scored.cost)


def largest_useful_domain(steps: tuple[DomainStep, ...]) -> int | None:
    """The smallest domain whose choice costs no more than a tenth above the best: a larger one buys nothing."""
    costs = [step.cost for step in steps if step.shape is not None]
    if not costs:
        return None
    near = min(costs) * SIMPLER_WITHIN
    return next(step.domain_gpus for step in steps if step.shape is not None and step.cost <= near)
