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
    is_prefill = case.request.spec.role is Role.Prefill
    prefill, decode = (own, partner.shape) if is_prefill else (partner.shape, own)
    why = _unjoined(case, prefill.tensor_parallel, decode.tensor_parallel) or context_conflict(prefill, decode)
    return Explanation(Reason.PairIncompatible, why) if why is not None else None


def _unjoined(case: ShapeCase, prefill: int, decode: int) -> str | None:
    """Why the engine cannot transfer KV between tensor groups of these sizes, or None."""
    request, version = case.request, case.engine_version
    match case.option.shape.engine:
        case EngineName.SGLang:
            return sglang_tensor_conflict(version, request.architecture, prefill, decode)
        case EngineName.VLLM:
            return vllm_tensor_conflict(version, request.spec.kv.connector, request.architecture, prefill, decode)
        case EngineName.TensorRTLLM:
            return division_conflict(prefill, decode)
