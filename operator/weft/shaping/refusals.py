"""The one message for a pool that no shape can serve, with what would change that."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weft.domain.errors import Blocked, Invalid
from weft.domain.reasons import Reason
from weft.domain.texts.units import GIB
from weft.shaping.memory import OF_MEMORY, missing_bytes, with_what_is_said

if TYPE_CHECKING:
    from weft.domain.errors import WeftError
    from weft.domain.reasons import Explanation
    from weft.domain.spec import ModelSpec, ShapePins
    from weft.shaping.case import ShapeCase
    from weft.shaping.request import ShapeRequest

KNOWN_MEMORY = 0.85  # of what a kind of GPU has: a node that is labelled with less makes all plans smaller
OF_THE_ENGINE = frozenset({Reason.PrecisionUnsupported, Reason.EngineUnsupported})
# The pins that a reason may be due to, the likeliest first.
_PINS = {
    Reason.HeadsNotDivisible: ("tensorParallel",),
    Reason.ExpertsNotDivisible: ("expertParallel", "dataParallel", "tensorParallel"),
    Reason.LayersNotDivisible: ("pipelineParallel",),
    Reason.ContextNotShared: ("decodeContextParallel",),
    Reason.PromptNotShared: ("prefillContextParallel",),
    Reason.SharedDevice: ("tensorParallel", "pipelineParallel", "dataParallel", "prefillContextParallel"),
    Reason.LeavesDomain: (
        "tensorParallel",
        "dataParallel",
        "expertParallel",
        "prefillContextParallel",
        "pipelineParallel",
    ),
    Reason.ShapeInvalid: ("expertParallel", "dataParallel", "tensorParallel"),
}
_FIGURES = re.compile(r"[\d.]+")


def nothing_possible(request: ShapeRequest, refused: tuple[tuple[ShapeCase, Explanation], ...]) -> WeftError:
    """The error for a request all of whose shapes were refused; `refused` has each with its reason."""
    if not refused:
        return Blocked(Reason.NoAccelerator, "the cluster has no accelerator that this pool may use")
    of_arguments = _of_arguments(refused)
    if of_arguments:  # these checks are the last, but for room: to mend the argument comes first
        return Invalid(Reason.ArgumentConflict, "; ".join(of_arguments))
    of_memory = [case for case, why in refused if why.reason in OF_MEMORY]
    if of_memory:
        return _does_not_fit(request, of_memory, refused)
    by_engine = [why for _, why in refused if why.reason in OF_THE_ENGINE]
    roomiest = sorted(refused, key=lambda each: -each[0].option.supply.domain_gpus)  # sizes are told for the most room
    structural = [why for _, why in roomiest if why.reason not in OF_THE_ENGINE]
    pinned = any(size is not None for size in _pins(request.spec.shape).values())
    if structural and (pinned or not by_engine):  # without pins there are always sizes that divide
        return Invalid(Reason.ShapeInvalid, _pin_named(request.spec.shape, structural[0]))
    return _engine_cannot(request, by_engine)


def _of_arguments(refused: tuple[tuple[ShapeCase, Explanation], ...]) -> list[str]:
    """The sentences about arguments; of those that differ in figures alone, that of the smallest shape."""
    found: dict[str, str] = {}
    for _, why in sorted(refused, key=lambda each: each[0].option.shape.gpus):
        if why.reason is Reason.ArgumentConflict:
            found.setdefault(_FIGURES.sub("", why.message), why.message)
    return list(found.values())


def _engine_cannot(request: ShapeRequest, whys: list[Explanation]) -> WeftError:
    sentences = "; ".join(dict.fromkeys(why.message for why in whys))
    if all(why.reason is Reason.EngineUnsupported for why in whys):
        return Invalid(Reason.EngineUnsupported, sentences)
    return Invalid(Reason.PrecisionUnsupported, f"{_precision_named(request.spec.model)}: {sentences}")


def _precision_named(model: ModelSpec) -> str:
    """Where the precision comes from: a field, a choice of precisions (`--precision`), or the checkpoint."""
    if model.precision:
        return "spec.model.precision"
    return "the precision asked for" if model.precisions else "the precision of the checkpoint"


def _does_not_fit(
    request: ShapeRequest, cases: list[ShapeCase], refused: tuple[tuple[ShapeCase, Explanation], ...]
) -> WeftError:
    kept_in = any(why.reason is Reason.LeavesDomain and not case.option.supply.alone for case, why in refused)
    engine = next((f"; {why.message}" for _, why in refused if why.reason is Reason.EngineUnsupported), "")
    closest = min(cases, key=lambda case: (missing_bytes(case), case.option.shape.gpus, str(case.option.shape)))
    shape = closest.option.shape
    pinned = "; spec.shape forbids others" if any(_pins(request.spec.shape).values()) else ""
    stages = "; spec.placement.domain Preferred would allow pipeline stages in several domains" if kept_in else ""
    return Invalid(
        Reason.ModelDoesNotFit,
        f"{request.architecture.model_id} fits no allowed shape: {shape} comes closest and lacks "
        f"{missing_bytes(closest) / GIB:.1f} GiB on each GPU for weights and one sequence of "
        f"{request.target_context_tokens:.0f} tokens{with_what_is_said(closest)}{_smallest_part(closest)}"
        f"{pinned}{stages}{engine}",
    )


def _smallest_part(case: ShapeCase) -> str:
    """A note on the smallest part of a GPU, as a plan has to fit on all, or on a label that takes memory from one."""
    supply, known = case.option.supply, case.option.accelerator.memory_bytes
    size = f"{supply.memory_bytes / GIB:.1f} GiB"
    if not supply.shared:
        less = supply.memory_bytes < KNOWN_MEMORY * known
        return f" (a node's label says {size} of memory, where such GPUs have {known / GIB:.1f})" if less else ""
    return f" (parts of GPUs, of which the smallest has {size}; spec.placement.nodeSelector may select larger ones)"


def _pin_named(pins: ShapePins, why: Explanation) -> str:
    values = _pins(pins)
    pin = next((name for name in _PINS.get(why.reason, ()) if values[name] is not None), None)
    return f"spec.shape.{pin} {values[pin]}: {why.message}" if pin else why.message


def _pins(pins: ShapePins) -> dict[str, int | None]:
    return {
        "tensorParallel": pins.tensor_parallel,
        "pipelineParallel": pins.pipeline_parallel,
        "expertParallel": pins.expert_parallel,
        "dataParallel": pins.data_parallel,
        "decodeContextParallel": pins.decode_context_parallel,
        "prefillContextParallel": pins.prefill_context_parallel,
    }
