"""What surrounds a choice: every shape as a curve, what other targets would take, and how large a domain is useful."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.errors import Blocked, Invalid
from weft.domain.figures import digits, seconds
from weft.domain.workload import Role, Slo
from weft.perf.service import service
from weft.shaping.choice import answer, possible_cases
from weft.shaping.ranking import SIMPLER_WITHIN, part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.catalog import Catalog
    from weft.domain.shape import Shape
    from weft.perf.service import Service
    from weft.shaping.case import Case
    from weft.shaping.choice import Answer
    from weft.shaping.request import ShapeRequest

LOOSER, TIGHTER, BUSIER = 1.5, 1 / 1.5, 2.0
_POINTS = 14
_FULL = 0.98  # of the seats, or of the time that prompts may fill


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One load: tokens a second that a user sees (1 / mean TPOT), and that a GPU makes; requests a second in all."""

    per_user: float
    per_gpu: float
    requests_per_second: float
    ttft_seconds: float


@dataclass(frozen=True, slots=True)
class Curve:
    """A shape from a single request to all seats taken."""

    shape: Shape
    points: tuple[CurvePoint, ...]


def curves(request: ShapeRequest, catalog: Catalog) -> tuple[Curve, ...]:
    """Every possible shape, in the order in which they are looked at; those that only prefill have none."""
    return tuple(_curve(case) for case in possible_cases(request, catalog))


def _curve(case: Case) -> Curve:
    request, shape = case.request, case.option.shape
    serves = service(case.replica, request.workload, request.spec.role)
    tokens = max(1.0, request.workload.output_tokens)
    points = (serves.at_batch(batch) for batch in _batches(serves)) if serves.decodes and serves.seats else ()
    return Curve(
        shape,
        tuple(
            CurvePoint(1.0 / point.tpot.mean, point.rate * tokens / shape.gpus, point.rate, point.ttft.mean)
            for point in points
            if point.utilisation < _FULL
        ),
    )


def _batches(serves: Service) -> Iterator[float]:
    """From one sequence to nearly all seats, evenly in the logarithm."""
    most = max(1.0, _FULL * serves.seats)
    return (most ** (step / (_POINTS - 1)) for step in range(_POINTS))


@dataclass(frozen=True, slots=True)
class Variation:
    """What another wish would take: `wish` in words, the shape and count for it, and the GPUs in all.

    `gpus` is None where nothing meets it, and `shortfall` says that as many as are allowed serve less than the rate.
    """

    wish: str
    shape: Shape | None
    replicas: int
    gpus: int | None
    cost: float
    shortfall: str = ""


def variations(request: ShapeRequest, catalog: Catalog) -> tuple[Variation, ...]:
    """Each target half again as loose and as tight, and twice the rate: chosen anew without the running shape."""
    free = replace(request, incumbent=None)
    return tuple(_variation(wish, changed, catalog) for wish, changed in _wishes(free))


def _wishes(request: ShapeRequest) -> Iterator[tuple[str, ShapeRequest]]:
    slo, answers = request.spec.slo, request.workload.output_tokens > 1
    for factor in (LOOSER, TIGHTER):
        tpot = slo.tpot if answers else ()  # no token comes after the first
        for name, targets, elsewhere in (("TTFT", slo.ttft, Role.Decode), ("TPOT", tpot, Role.Prefill)):
            if targets and request.spec.role is not elsewhere:
                percentile, target = targets[-1]
                yield f"{name} p{percentile} {seconds(factor * target)}", _with_target(request, name, factor)
    rate = request.workload.requests_per_second * BUSIER
    workload = replace(request.workload, requests_per_second=rate)
    yield f"{digits(rate)} requests/s", replace(request, workload=workload)


def _with_target(request: ShapeRequest, name: str, factor: float) -> ShapeRequest:
    def scaled(targets: tuple[tuple[int, float], ...], *, here: bool) -> tuple[tuple[int, float], ...]:
        return tuple((percentile, target * (factor if here else 1.0)) for percentile, target in targets)

    slo = request.spec.slo
    changed = Slo(scaled(slo.ttft, here=name == "TTFT"), scaled(slo.tpot, here=name == "TPOT"))
    return replace(request, spec=replace(request.spec, slo=changed))


def _variation(wish: str, request: ShapeRequest, catalog: Catalog) -> Variation:
    found = tried(request, catalog)
    if found is None or not found.scored.meets_slo:
        return Variation(wish, None, 0, None, 0.0)
    scored = found.scored
    shortfall = "" if scored.serves_all else f"as many as are allowed serve {part(scored.served)} of it"
    return Variation(wish, scored.shape, scored.replicas, scored.replicas * scored.shape.gpus, scored.cost, shortfall)


def tried(request: ShapeRequest, catalog: Catalog) -> Answer | None:
    """The choice, or None where there is none."""
    try:
        return answer(request, catalog)
    except (Invalid, Blocked):
        return None


@dataclass(frozen=True, slots=True)
class DomainStep:
    """The choice if no NVLink domain were larger than this; None where nothing meets the SLO then."""

    domain_gpus: int
    shape: Shape | None
    cost: float


def domain_steps(request: ShapeRequest, catalog: Catalog) -> tuple[DomainStep, ...]:
    """Domains of 1, 2, 4, ... GPUs up to the largest there is."""
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
