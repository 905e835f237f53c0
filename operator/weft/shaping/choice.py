"""Model + SLO + supplies -> the shape of one replica, with the reasons why the others lost."""

from __future__ import annotations

import functools
import hashlib
import itertools
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from weft.domain.errors import Blocked, Invalid, WeftError
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.shape import Candidate, EngineRelease, Plan
from weft.domain.spec import Balancing, PlacementSpec, PodSpec, RolloutSpec, RouterSpec
from weft.domain.texts.units import GIB
from weft.domain.values.changed import changed
from weft.engines.images.nim_profiles import PROFILE
from weft.engines.vllm.lmcache import SEED
from weft.shaping.candidates import (
    CandidateSetting,
    Option,
    more_stages,
    served_precisions,
    single_stage,
    wished_engines,
)
from weft.shaping.case import ShapeCase
from weft.shaping.checks import refusal
from weft.shaping.memory import OF_MEMORY, missing_bytes
from weft.shaping.ranking import (
    Scored,
    capacity_worth,
    criticism,
    expected,
    kept,
    nearest,
    overruled,
    praise,
    ranked,
    score,
    with_targets_in_reach,
)
from weft.shaping.refusals import nothing_possible
from weft.shaping.running import case_of
from weft.shaping.together import together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.catalog import Catalog
    from weft.domain.capacity import Capacity
    from weft.domain.hardware import Accelerator
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Shape
    from weft.domain.spec import PoolSpec
    from weft.domain.workload import Workload
    from weft.shaping.request import ShapeRequest

MOST_ALTERNATIVES = 10
_ANY_ROLLOUT, _ANY_POD, _ANY_ROUTER = RolloutSpec(), PodSpec(), RouterSpec()
_READ = frozenset({SEED, PROFILE})  # variables of the engine that decide which shapes are possible
REMEMBERED = 4096  # cached choices and capacities: a few for each pool of a large cluster


@dataclass(frozen=True)
class ShapeChoice:
    """The plan, and how its shape compares to the others.

    `outline` is the plan without alternatives: predicting each of them takes as long as the choice, and is only done on
    request.
    """

    outline: Plan
    scored: Scored
    losers: tuple[tuple[Scored, Explanation], ...]
    refused: tuple[Candidate, ...]

    @cached_property
    def plan(self) -> Plan:
        """The plan with its alternatives, best first."""
        told = [Candidate(each.shape, why, expected(each)) for each, why in self.losers]
        return replace(self.outline, alternatives=(*told, *self.refused))


def choose(request: ShapeRequest, catalog: Catalog) -> Plan:
    """The shape to run, its prediction and why the others lost. The same request always has the same answer.

    Raises `Invalid`: EngineUnsupported, PrecisionUnsupported, ShapeInvalid (a pin contradicts the model or the
    hardware), ModelDoesNotFit, PairIncompatible; or `Blocked`: NoAccelerator.
    """
    return answer(request, catalog).plan


def outline(request: ShapeRequest, catalog: Catalog) -> Plan:
    """The plan of `choose` without alternatives; raises the same errors."""
    return answer(request, catalog).outline


def answer(request: ShapeRequest, catalog: Catalog) -> ShapeChoice:
    """The plan of `choose` with its score; raises the same errors."""
    asked = what_matters(request)
    outcome = _remembered(changed(asked, incumbent=None), catalog)
    running = request.incumbent
    if running is not None and not (isinstance(outcome, ShapeChoice) and outcome.outline.shape == running.shape):
        incumbent = replace(running, alternatives=())  # a smaller cache key
        outcome = _remembered(replace(asked, incumbent=incumbent), catalog)
    if isinstance(outcome, WeftError):
        raise type(outcome)(outcome.reason, outcome.message)
    return outcome


def what_matters(request: ShapeRequest) -> ShapeRequest:
    """The request without the parts of the spec that no choice of a shape reads, so that they do not miss the cache."""
    return changed(request, spec=_looked_at(request.spec))


def wish_of(spec: PoolSpec) -> str:
    """A hash of ten hex digits over all parts of a spec that a choice of a shape reads."""
    return hashlib.sha256(repr(_looked_at(spec)).encode()).hexdigest()[:10]


def _looked_at(spec: PoolSpec) -> PoolSpec:
    scaling, placement = spec.scaling, spec.placement
    looked_at = tuple(pair for pair in spec.engine.env if pair[0] in _READ)
    wired = tuple((name, "1") for name in spec.engine.devices) if spec.engine.resources else ()
    return changed(
        spec,
        engine=changed(spec.engine, env=looked_at, resources=wired, shared_memory=None),
        placement=PlacementSpec(accelerators=placement.accelerators, domain=placement.domain),
        scaling=ScalingSpec(
            min_replicas=scaling.min_replicas,
            max_replicas=scaling.max_replicas,
            max_gpus=scaling.max_gpus,
            headroom=scaling.headroom,
        ),
        rollout=_ANY_ROLLOUT,
        pod=_ANY_POD,
        router=_ANY_ROUTER,
    )


@functools.lru_cache(maxsize=REMEMBERED)
def _remembered(request: ShapeRequest, catalog: Catalog) -> ShapeChoice | WeftError:
    """The cached choice, a pure function of its arguments, as decide asks for it every second."""
    try:
        return _chosen(request, catalog)
    except (Invalid, Blocked) as error:
        return type(error)(error.reason, error.message)  # without its traceback


def possible_cases(request: ShapeRequest, catalog: Catalog) -> tuple[ShapeCase, ...]:
    """Every shape that could serve the request, whatever its speed."""
    return tuple(_sorted_out(request, catalog)[0])


def capacity_of(plan: Plan, request: ShapeRequest, catalog: Catalog, live: Workload) -> Capacity:
    """The capacity of replicas of a plan for live traffic; 0 if there is no room for any.

    Pools whose requests are equal after `what_matters` share the answer. Raises `Blocked` if no supply has its devices.
    """
    return _capacity_of(plan.shape, plan.prediction.capacity, request, catalog, live)


@functools.lru_cache(maxsize=REMEMBERED)
def _capacity_of(shape: Shape, planned: float, request: ShapeRequest, catalog: Catalog, live: Workload) -> Capacity:
    case = case_of(changed(request, workload=live), shape, catalog)
    worth = functools.partial(capacity_worth, case, request.workload, planned)
    return together(case, worth(), worth)


def planned_capacity(plan: Plan, request: ShapeRequest, catalog: Catalog) -> Capacity:
    """The capacity of replicas of a plan for the traffic that was planned for; raises as `capacity_of` does."""
    return _planned_capacity(plan.shape, plan.prediction.capacity, request, catalog)


@functools.lru_cache(maxsize=REMEMBERED)
def _planned_capacity(shape: Shape, planned: float, request: ShapeRequest, catalog: Catalog) -> Capacity:
    return together(case_of(request, shape, catalog), planned)


def replanned_capacity(shape: Shape, request: ShapeRequest, catalog: Catalog) -> Capacity:
    """The capacity of replicas of a shape that a plan of it for the traffic of the request would have.

    `capacity_of` tells what replicas of a plan for other traffic shall serve of it. Raises as `capacity_of` does.
    """
    case = case_of(request, shape, catalog)
    return together(case, _in_reach(score(case)).assessment.prediction.capacity)


def _in_reach(scored: Scored) -> Scored:
    """The shape by its targets, or where it misses any, by such as it can meet: what its replicas are planned for."""
    return scored if scored.meets_slo else with_targets_in_reach(scored)


@dataclass(frozen=True, slots=True)
class Refused:
    """An impossible shape, and why."""

    case: ShapeCase
    why: Explanation


def _chosen(request: ShapeRequest, catalog: Catalog) -> ShapeChoice:
    possible, refused = _sorted_out(request, catalog)
    if not possible:
        raise _nothing_possible(request, refused)
    scored = [score(case) for case in possible]
    within = ranked([each for each in scored if each.meets_slo])
    outside = nearest([each for each in scored if not each.meets_slo])
    order = within + outside
    best = order[0]
    running = next((each for each in order if request.incumbent and each.shape == request.incumbent.shape), None)
    chosen = running if running is not None and kept(best, running) else best
    better = order[: order.index(chosen)]
    losers = [(each, overruled(each, chosen)) for each in better]
    losers += [(each, criticism(each, chosen)) for each in order[len(better) + 1 :]]
    refused = _closest_first(refused)
    names = [each.shape.accelerator for each, _ in losers] + [each.case.option.shape.accelerator for each in refused]
    places, many = _told_of_each(names), len(losers)
    told = [refused[place - many] for place in places if place >= many]
    plan = Plan(
        shape=chosen.shape,
        prediction=expected(_in_reach(chosen)),
        engine=_release(request, chosen.case, catalog),
        verdict=praise(chosen, best),
    )
    cannot_be = tuple([Candidate(each.case.option.shape, each.why) for each in told])
    return ShapeChoice(plan, chosen, tuple([losers[place] for place in places if place < many]), cannot_be)


def _closest_first(refused: list[Refused]) -> list[Refused]:
    """Refused shapes that lack memory first, the least missing GiB per GPU ahead; the others after them."""

    def key(each: Refused) -> tuple[bool, int]:
        lacks = each.why.reason in OF_MEMORY
        return not lacks, round(missing_bytes(each.case) / GIB) if lacks else 0

    return sorted(refused, key=key)


def _told_of_each(accelerators: list[str]) -> list[int]:
    """Indices of the losers to report, ascending: the best of each accelerator, and then the best of the others.

    One accelerator has many similar shapes, which would hide what all others can do.
    """
    firsts = {accelerators.index(name): None for name in dict.fromkeys(accelerators)}
    others = (place for place in range(len(accelerators)) if place not in firsts)
    return sorted(itertools.islice(itertools.chain(firsts, others), MOST_ALTERNATIVES))


def _nothing_possible(request: ShapeRequest, refused: list[Refused]) -> WeftError:
    """The error to raise; refusals due to the other half's GPU generation are only named if there are no others."""
    told = [each for each in refused if not each.case.is_of_another_generation] or refused
    if told and all(each.why.reason is Reason.PairIncompatible for each in told):
        return Invalid(Reason.PairIncompatible, told[0].why.message)
    return nothing_possible(request, tuple((each.case, each.why) for each in told))


def _sorted_out(request: ShapeRequest, catalog: Catalog) -> tuple[list[ShapeCase], list[Refused]]:
    possible: list[ShapeCase] = []
    refused: list[Refused] = []
    for setting in _settings(request, catalog):
        found, lost = _checked(single_stage(request, setting), request, catalog)
        possible += found
        refused += lost
        if found or not any(each.why.reason in OF_MEMORY for each in lost):
            continue
        for wave in more_stages(request, setting):  # pipeline stages are only tried where nothing else holds the model
            found, lost = _checked(wave, request, catalog)
            possible += found
            refused += lost
            if found:
                break
    return _each_once(possible, refused)


def _each_once(possible: list[ShapeCase], refused: list[Refused]) -> tuple[list[ShapeCase], list[Refused]]:
    """Return every shape once: several supplies of one accelerator have the small ones in common."""
    able: dict[Shape, ShapeCase] = {}
    unable: dict[Shape, Refused] = {}
    for case in possible:
        able.setdefault(case.option.shape, case)
    for each in refused:
        if each.case.option.shape not in able:
            unable.setdefault(each.case.option.shape, each)
    return list(able.values()), list(unable.values())


def _checked(
    options: tuple[Option, ...], request: ShapeRequest, catalog: Catalog
) -> tuple[list[ShapeCase], list[Refused]]:
    verdicts = [(case, refusal(case)) for case in (ShapeCase(option, request, catalog) for option in options)]
    return [case for case, why in verdicts if why is None], [Refused(case, why) for case, why in verdicts if why]


def _settings(request: ShapeRequest, catalog: Catalog) -> Iterator[CandidateSetting]:
    """Supplies by name, each with every engine and precision that the pool allows."""
    combinations = tuple(itertools.product(wished_engines(request, catalog), served_precisions(request)))
    apart = request.spec.balancing is Balancing.External
    for supply in sorted(request.supplies, key=lambda each: (each.accelerator, each.memory_bytes, each.domain_gpus)):
        if request.spec.placement.allows(supply.accelerator):
            for engine, precision in combinations:
                accelerator = catalog.accelerator(supply.accelerator)
                yield CandidateSetting(supply, accelerator, engine, precision, rank_per_pod=apart)


def _release(request: ShapeRequest, case: ShapeCase, catalog: Catalog) -> EngineRelease:
    """The settled release, else the wished or default version; its image is the vendor's unless the pool names one."""
    accelerator, kept_release = case.option.accelerator, request.engine
    if kept_release is not None and not _is_image_of_another_vendor(kept_release, accelerator, catalog):
        return kept_release
    own = request.spec.engine.image
    return catalog.release(case.option.shape.engine, case.engine_version, accelerator.vendor, own)


def _is_image_of_another_vendor(release: EngineRelease, accelerator: Accelerator, catalog: Catalog) -> bool:
    others = [image for vendor, image in catalog.engine(release.name).images if vendor != accelerator.vendor]
    return release.image in {image.format(version=release.version) for image in others}
