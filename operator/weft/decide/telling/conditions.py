"""The conditions that deciding owns, and some that are there only while True; others have modules of their own.

Messages carry no live numbers, so that a steady state writes nothing; the numbers are in `status.observed` and on
`/metrics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.relaxations import relaxations_refused
from weft.domain.status import FALSE, TRUE, UNKNOWN, Condition
from weft.domain.texts.figures import agreeing
from weft.domain.texts.units import parse_quantity
from weft.engines import adapter_for
from weft.engines.images.tags import image_mismatch
from weft.placement import amount_of

if TYPE_CHECKING:
    from weft.domain.decision import CapacityRequest
    from weft.domain.shape import EngineRelease, Plan
    from weft.domain.spec import PoolSpec


def planned(plan: Plan | Explanation) -> Condition:
    """Whether there is a valid plan."""
    if isinstance(plan, Explanation):
        return Condition("Planned", FALSE, plan)
    return Condition("Planned", TRUE, plan.verdict)


def arguments_unknown(args: tuple[str, ...], release: EngineRelease) -> tuple[Condition, ...]:
    """The condition that the engine may not start with the user's arguments; none where it knows all of them."""
    unknown = adapter_for(release.name).unknown_arguments(args, release.version) if args else ()
    if not unknown:
        return ()
    message = f"{release.name.value} {release.version} does not know spec.engine.args {'; '.join(unknown)}"
    return (Condition("ArgumentsUnknown", TRUE, Explanation(Reason.ArgumentUnknown, message)),)


def image_mismatched(plan: Plan) -> tuple[Condition, ...]:
    """The condition that the engine's image is published as something else than what its pods are started as."""
    message = image_mismatch(plan.engine, plan.shape.accelerator)
    if message is None:
        return ()
    return (Condition("ImageMismatched", TRUE, Explanation(Reason.ImageMismatch, message)),)


def relaxed(spec: PoolSpec) -> tuple[Condition, ...]:
    """What engine pods may do beyond the `restricted` Pod Security Standard; no condition where that is nothing."""
    if not spec.pod.relaxations or relaxations_refused(spec) is not None:
        return ()
    message = f"the administrator allows spec.pod.relaxations {', '.join(spec.pod.relaxations)}"
    return (Condition("Relaxed", TRUE, Explanation(Reason.RelaxationAllowed, message)),)


def placed(explanation: Explanation) -> Condition:
    """Whether every replica has nodes."""
    status = {Reason.AllPlaced: TRUE, Reason.NothingToPlace: UNKNOWN}.get(explanation.reason, FALSE)
    return Condition("Placed", status, explanation)


def capacity_requested(request: CapacityRequest | None) -> tuple[Condition, ...]:
    """What would have to be added; no condition while nothing is missing."""
    if request is None:
        return ()
    parts = [_gpus_requested(request)] if request.gpus else []
    parts += [_requested_beside_gpus(request)] if request.on_free_gpus else []
    reason = Reason.NoSlot if request.gpus else Reason.NodeLacksResource
    return (Condition("CapacityRequested", TRUE, Explanation(reason, "; ".join(parts))),)


def _gpus_requested(request: CapacityRequest) -> str:
    """GPUs that are not free, or not on nodes that have the rest."""
    groups, besides = request.groups - request.on_free_gpus, f" with {_besides(request)}" if request.besides else ""
    noun = agreeing(request.gpus, "GPU", "GPUs")
    on = f"on one node{besides}"
    if request.nodes > 1:
        on = f"in one NVLink domain, {request.gpus_per_node} on each of {request.nodes} nodes{besides}"
    return f"{groups} x {request.domain_gpus} {request.accelerator} {noun} free {on}"


def _requested_beside_gpus(request: CapacityRequest) -> str:
    """What every node lacks where the GPUs are free."""
    noun = agreeing(request.gpus_per_node, "GPU is", "GPUs are")
    on = "one node" if request.nodes == 1 else f"each of {request.nodes} nodes in one NVLink domain"
    free = f"{request.gpus_per_node} {request.accelerator} {noun} free"
    return f"{request.on_free_gpus} x {_besides(request)} on {on} where {free}: no node has that"


def _besides(request: CapacityRequest) -> str:
    each = (f"{amount_of(name, parse_quantity(amount))} {name}" for name, amount in request.besides)
    return " and ".join(each)
