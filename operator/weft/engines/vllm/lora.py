"""LoRA adapters of vLLM: all of them loaded, with room for the largest rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog.option_rules import allowed_values
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.engines.options.given import given

if TYPE_CHECKING:
    from weft.engines.terms.launch import LaunchRequest

Arguments = tuple[str, ...]

_RANK, _AT_ONCE, _IN_HOST_MEMORY = "--max-lora-rank", "--max-loras", "--max-cpu-loras"
_USUAL_RANK = 16  # vLLM's default


def adapter_arguments(request: LaunchRequest) -> Arguments:
    """Arguments for all adapters in one batch; if the user allows fewer, the rest waits in host memory, not on disk.

    Raises `Invalid` for an adapter that vLLM could not tell from the model, or would not read.
    """
    adapters, args = request.spec.model.adapters, request.spec.engine.args
    if not adapters:
        return ()
    _refuse_what_it_misreads(request)
    at_once, count = given(args, _AT_ONCE), str(len(adapters))
    fewer = at_once.isdecimal() and int(at_once) < len(adapters) and not given(args, _IN_HOST_MEMORY)
    return (
        "--enable-lora",
        *(() if at_once else (_AT_ONCE, count)),
        *((_IN_HOST_MEMORY, count) if fewer else ()),
        *_rank(request),
        "--lora-modules",
        *(f"{name}={at}" for name, at in adapters),
    )


def _refuse_what_it_misreads(request: LaunchRequest) -> None:
    """The model itself is looked for first, and what has a comma is taken for JSON (`LoRAParserAction` of vLLM)."""
    model = request.spec.model
    for name, at in model.adapters:
        if name in (model.served_names or (model.model_id,)):
            message = f"spec.model.adapters {name} is also the model's own name, which vLLM serves: use another"
            raise Invalid(Reason.SpecInvalid, message)
        if "," in at:
            raise Invalid(
                Reason.FeatureUnsupported, f"spec.model.adapters {name}: vLLM reads no source with a comma, as {at:.60}"
            )


def _rank(request: LaunchRequest) -> Arguments:
    """The smallest size of vLLM's that fits the largest rank of the adapters, or the user's if it is large enough.

    Raises `Invalid` for a rank that is larger than there is room for.
    """
    rank, release, own = request.spec.model.adapter_rank, request.plan.engine, given(request.spec.engine.args, _RANK)
    if rank is None or (rank <= _USUAL_RANK and not own):
        return ()
    sizes = [int(size) for size in allowed_values(release.name, release.version, _RANK)]
    if own:
        if own.isdecimal() and int(own) < rank:
            message = f"spec.engine.args {_RANK} {own} has no room for spec.model.adapters of rank {rank}: remove it"
            raise Invalid(Reason.ArgumentConflict, message)
        return ()
    if rank > sizes[-1]:
        message = f"spec.model.adapters of rank {rank} are not supported on vLLM: ranks go up to {sizes[-1]}"
        raise Invalid(Reason.FeatureUnsupported, message)
    return (_RANK, str(next(size for size in sizes if size >= rank)))
