"""Why a half of a split cannot transfer KV to or from the other: checks on the shapes of both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineName
from weft.domain.workload import Role
from weft.engines.kv.handover import context_conflict, division_conflict
from weft.engines.sglang.handover import sglang_tensor_conflict
from weft.engines.vllm.handover import vllm_states_conflict, vllm_tensor_conflict

if TYPE_CHECKING:
    from weft.domain.model import Architecture
    from weft.domain.shape import Shape
    from weft.shaping.case import ShapeCase


def both_halves_are_of_one_generation(case: ShapeCase) -> Explanation | None:
    """Refuse halves on different GPU generations, for which engines choose different attention backends."""
    partner, own = case.request.partner, case.option.accelerator.generation
    if partner is None or not case.is_of_another_generation:
        return None
    return Explanation(
        Reason.PairIncompatible,
        f"the other half runs on {partner.generation} GPUs, where engines choose another attention backend than on "
        f"{own}: they refuse each other's KV cache",
    )


def a_half_is_one_stage(case: ShapeCase) -> Explanation | None:
    """Refuse pipeline parallelism in a half, as no connector moves KV between stages."""
    stages = case.option.shape.pipeline_parallel
    if stages == 1 or not case.request.spec.role.is_half:
        return None
    return Explanation(
        Reason.PairIncompatible,
        f"no KV moves between pipeline stages, and a half of a split would have {stages}; allowed: 1",
    )


def states_are_handed_over(case: ShapeCase) -> Explanation | None:
    """Refuse models with states in halves of vLLM whose release or connector does not transfer them."""
    spec, shape = case.request.spec, case.option.shape
    if not spec.role.is_half or shape.engine is not EngineName.VLLM or spec.kv.connector != "NIXL":
        return None
    drafts = spec.engine.speculative_json is not None
    why = vllm_states_conflict(case.engine_version, case.request.architecture, drafts=drafts)
    return Explanation(Reason.PairIncompatible, why) if why is not None else None


def groups_hand_over_kv(case: ShapeCase) -> Explanation | None:
    """Refuse TP and context-parallel sizes between which the engine cannot transfer KV."""
    partner, own = case.request.partner, case.option.shape
    if partner is None or partner.shape is None:
        return None
    request, is_prefill = case.request, case.request.spec.role is Role.Prefill
    prefill, decode = (own, partner.shape) if is_prefill else (partner.shape, own)
    why = sizes_conflict(prefill, decode, request.architecture, case.engine_version, request.spec.kv.connector)
    return Explanation(Reason.PairIncompatible, why) if why is not None else None


def sizes_conflict(
    prefill: Shape, decode: Shape, architecture: Architecture, version: str, connector: str
) -> str | None:
    """Why KV cannot go between groups of these sizes on a release of their engine, or None."""
    sizes = prefill.tensor_parallel, decode.tensor_parallel
    if prefill.engine is EngineName.SGLang:
        why = sglang_tensor_conflict(version, architecture, *sizes)
    elif prefill.engine is EngineName.VLLM:
        why = vllm_tensor_conflict(version, connector, architecture, *sizes)
    else:
        why = division_conflict(*sizes)
    return why or context_conflict(prefill, decode)
