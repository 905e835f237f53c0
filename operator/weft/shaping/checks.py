"""Why a shape is impossible: checks in order, of which the first that fails gives the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.catalog.parameters import split_widths
from weft.domain.model import LatentAttention
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import DomainRule
from weft.engines.images.nim import nim_shape_conflict
from weft.engines.model.precision import precision_conflict
from weft.engines.options.rules import options_shape_conflict
from weft.engines.sglang.context_parallelism import sglang_decode_context_conflict, sglang_prefill_context_conflict
from weft.engines.tensorrt_llm.shapes import (
    tensorrt_llm_decode_context_conflict,
    tensorrt_llm_prefill_context_conflict,
    tensorrt_llm_shape_conflict,
)
from weft.engines.vllm.context_parallelism import decode_context_conflict, prefill_context_conflict
from weft.shaping.balancing import ranks_are_balanced_as_wished
from weft.shaping.case import ShapeCase
from weft.shaping.halves import (
    a_half_is_one_stage,
    both_halves_are_of_one_generation,
    groups_hand_over_kv,
    states_are_handed_over,
)
from weft.shaping.host_kv import (
    lmcache_finds_what_it_keeps,
    lmcache_reuses_its_own_kv,
    the_host_keeps_more_kv_than_the_gpus,
    the_release_keeps_kv_on_disks_within_a_size,
)
from weft.shaping.memory import (
    one_sequence_fits_beside_them,
    the_users_kv_cache_holds_a_sequence,
    the_users_memory_can_be_counted,
    weights_fit,
)
from weft.shaping.wires import kv_goes_over_efa_where_wished, kv_goes_over_nvlink_where_wished

if TYPE_CHECKING:
    from weft.domain.model import Architecture
    from weft.domain.shape import Shape


Claim = Callable[[ShapeCase], Explanation | None]


def _heads_divide(case: ShapeCase) -> Explanation | None:
    architecture, tensor = case.request.architecture, case.option.shape.tensor_parallel
    if _divides(architecture, tensor):
        return None
    allowed = [size for size in range(1, architecture.heads + 1) if _divides(architecture, size)]
    grouped = f" and {_listed(architecture.kv_heads)} KV heads" if architecture.kv_heads else ""
    return Explanation(
        Reason.HeadsNotDivisible,
        f"TP {tensor} does not divide {architecture.heads} attention heads{grouped}; allowed: {_listed(allowed)}",
    )


def _divides(architecture: Architecture, tensor: int) -> bool:
    """Whether TP divides the heads, and divides KV heads or is a multiple of them."""
    return architecture.heads % tensor == 0 and all(
        kv_heads % tensor == 0 or tensor % kv_heads == 0 for kv_heads in architecture.kv_heads
    )


def _groups_are_what_the_engine_forms(case: ShapeCase) -> Explanation | None:
    shape, model = case.option.shape, case.request.architecture.model_id
    group = shape.domain_group_gpus
    if case.request.architecture.experts is None:
        if shape.expert_parallel > 1:
            return Explanation(Reason.ShapeInvalid, f"{model} has no experts; allowed: 1")
        if shape.data_parallel > 1:
            sentence = f"{model} has no experts to share between ranks; allowed: 1, and more replicas do the same"
            return Explanation(Reason.ShapeInvalid, sentence)
    if shape.expert_parallel in {1, group}:
        return None
    return Explanation(
        Reason.ShapeInvalid,
        f"EP {shape.expert_parallel} is not what {_groups(shape)} form; allowed: {_listed(sorted({1, group}))}",
    )


def _experts_divide(case: ShapeCase) -> Explanation | None:
    experts, size = case.request.architecture.experts, case.option.shape.expert_parallel
    if experts is None or experts.count % size == 0:
        return None
    allowed = [each for each in range(1, experts.count + 1) if experts.count % each == 0]
    return Explanation(
        Reason.ExpertsNotDivisible, f"EP {size} does not divide {experts.count} experts; allowed: {_listed(allowed)}"
    )


def _layers_can_be_cut(case: ShapeCase) -> Explanation | None:
    layers, stages = case.request.architecture.layers, case.option.shape.pipeline_parallel
    if stages <= layers:
        return None
    return Explanation(Reason.LayersNotDivisible, f"PP {stages} is more than {layers} layers; allowed: 1 to {layers}")


def _devices_are_whole(case: ShapeCase) -> Explanation | None:
    shape, supply = case.option.shape, case.option.supply
    if shape.gpus == 1 or not supply.shared:
        return None
    return Explanation(
        Reason.SharedDevice,
        f"{supply.accelerator} is shared (time-slicing, MPS or MIG) here; allowed: one device a replica",
    )


def _groups_stay_in_a_domain(case: ShapeCase) -> Explanation | None:
    shape, supply = case.option.shape, case.option.supply
    if shape.domain_group_gpus <= supply.domain_gpus:
        return None
    return Explanation(
        Reason.LeavesDomain,
        f"a group of {shape.domain_group_gpus} GPUs leaves the NVLink domain; allowed: up to {supply.domain_gpus}, the "
        f"largest {supply.accelerator} domain",
    )


def _replica_stays_in_a_domain_unless_stages_may_leave(case: ShapeCase) -> Explanation | None:
    shape, supply = case.option.shape, case.option.supply
    if shape.gpus <= supply.domain_gpus or case.request.spec.placement.domain is DomainRule.Preferred:
        return None
    spread = "" if supply.alone else ", or spec.placement.domain Preferred, which lets stages spread over domains"
    return Explanation(
        Reason.LeavesDomain,
        f"{shape.gpus} GPUs are more than the {supply.domain_gpus} of the largest {supply.accelerator} domain; "
        f"allowed: up to {supply.domain_gpus}{spread}",
    )


def _pods_are_equal_parts_of_nodes(case: ShapeCase) -> Explanation | None:
    shape, supply = case.option.shape, case.option.supply
    if shape.gpus_per_pod <= supply.gpus_per_node:
        return None
    return Explanation(
        Reason.ShapeInvalid,
        f"a data-parallel rank of {shape.tensor_parallel} GPUs does not fit a node; allowed: "
        f"up to {supply.gpus_per_node}",
    )


def _the_release_forms_groups_over_pods(case: ShapeCase) -> Explanation | None:
    """Refuse tensor groups over several pods in releases that cannot form them; whole ranks per pod always work."""
    shape, able = case.option.shape, case.limits.group_over_pods
    if shape.pods == 1:
        return None
    on_ray = case.request.spec.engine.distributed == "Ray"
    if shape.data_parallel > 1 or on_ray or able.include(case.engine_version):
        return None
    return Explanation(
        Reason.EngineUnsupported,
        f"{case.release} forms no group over {shape.pods} pods without Ray; allowed: one pod, or version {able}",
    )


def _the_image_is_made_for_it(case: ShapeCase) -> Explanation | None:
    wish = case.request.spec.engine
    return nim_shape_conflict(wish.image, wish.env, case.option.shape)


def _an_image_for_it_is_known_or_named(case: ShapeCase) -> Explanation | None:
    """Refuse accelerators for which the engine's images have tags that do not follow from its version."""
    name, accelerator = case.option.shape.engine, case.option.accelerator
    if case.request.spec.engine.image is not None or accelerator.vendor in dict(case.catalog.engine(name).images):
        return None
    return Explanation(
        Reason.EngineUnsupported,
        f"the tags of {name.value}'s images for {accelerator.name} do not follow from its version; name one in "
        "spec.engine.image",
    )


def _the_engine_has_such_ranks(case: ShapeCase) -> Explanation | None:
    """Refuse ranks that TensorRT-LLM lacks: its attention is replicated on all GPUs of a group or split over all."""
    why = tensorrt_llm_shape_conflict(case.option.shape)
    return Explanation(Reason.ShapeInvalid, why) if why is not None else None


def _ranks_keep_their_stages_in_one_pod(case: ShapeCase) -> Explanation | None:
    """Refuse ranks whose pipeline stages span pods: a rank is one engine, started whole in one pod."""
    shape = case.option.shape
    rank = shape.tensor_parallel * shape.pipeline_parallel
    if shape.data_parallel == 1 or shape.gpus_per_pod % rank == 0:
        return None
    most = shape.gpus_per_pod // shape.tensor_parallel
    return Explanation(
        Reason.ShapeInvalid,
        f"data-parallel ranks of {rank} GPUs do not fill pods of {shape.gpus_per_pod}; allowed: PP "
        f"{_listed([each for each in range(1, most + 1) if most % each == 0])}",
    )


def _stages_of_ranks_share_a_domain(case: ShapeCase) -> Explanation | None:
    """Refuse DP with PP beyond one domain: each pod has all stages of its ranks, so expert groups span all pods."""
    shape, supply = case.option.shape, case.option.supply
    if 1 in {shape.data_parallel, shape.pipeline_parallel} or shape.gpus <= supply.domain_gpus:
        return None
    return Explanation(
        Reason.LeavesDomain,
        f"DP {shape.data_parallel} with PP {shape.pipeline_parallel} spreads each expert group over all "
        f"{shape.gpus} GPUs; allowed: up to {supply.domain_gpus} in all, or DP 1",
    )


def _precision_is_served(case: ShapeCase) -> Explanation | None:
    shape, accelerator = case.option.shape, case.option.accelerator
    served = case.catalog.precisions(accelerator, shape.engine)
    if shape.precision in served and accelerator.peak_flops(shape.precision) is not None:
        return None
    if not served:
        return Explanation(Reason.EngineUnsupported, _does_not_run(case))
    return Explanation(
        Reason.PrecisionUnsupported,
        f"{shape.engine.value} does not serve {shape.precision.value} on {accelerator.name}; "
        f"allowed: {_listed(served)}",
    )


def _does_not_run(case: ShapeCase) -> str:
    name, catalog, accelerator = case.option.shape.engine, case.catalog, case.option.accelerator
    others = [each.name.value for each in catalog.engines if catalog.precisions(accelerator, each.name)]
    allowed = f"spec.engine.name {_listed(others)}, or another accelerator" if others else "another accelerator"
    return f"{name.value} does not run on {accelerator.name}; allowed: {allowed}"


def _the_checkpoint_can_be_stored_so(case: ShapeCase) -> Explanation | None:
    stored, shape = case.request.architecture.checkpoint_precision, case.option.shape
    why = precision_conflict(stored, shape.precision, shape.engine)
    return Explanation(Reason.PrecisionUnsupported, why) if why is not None else None


def _the_release_serves_the_precision(case: ShapeCase) -> Explanation | None:
    precision = case.option.shape.precision
    able = case.limits.serving(precision)
    if able.include(case.engine_version):
        return None
    sentence = f"{case.release} does not serve {precision.value}; allowed: {able}"
    return Explanation(Reason.PrecisionUnsupported, sentence)


def _the_attention_has_kernels(case: ShapeCase) -> Explanation | None:
    architecture, generation = case.request.architecture, case.option.accelerator.generation
    sparse = any(isinstance(block.mixer, LatentAttention) and block.mixer.selector for block in architecture.blocks)
    if not sparse or generation in case.limits.sparse_attention:
        return None
    return Explanation(
        Reason.EngineUnsupported,
        f"{case.option.shape.engine.value} has no kernels for the sparse attention of {architecture.model_id} on "
        f"{generation} GPUs; allowed: {', '.join(case.limits.sparse_attention)}",
    )


def _weight_blocks_stay_whole(case: ShapeCase) -> Explanation | None:
    """Refuse TP that splits blocks of weights with a shared scale: vLLM's check of row-parallel layers."""
    architecture, shape = case.request.architecture, case.option.shape
    block, tensor = architecture.weight_block, shape.tensor_parallel
    if block is None or tensor == 1 or shape.precision is not architecture.checkpoint_precision:
        return None
    widths = split_widths(architecture)
    cut = next((width for width in widths if width % (tensor * block)), None)
    if cut is None:
        return None
    allowed = [size for size in range(1, tensor) if all(width % (size * block) == 0 for width in widths)]
    return Explanation(
        Reason.ShapeInvalid,
        f"TP {tensor} cuts {cut} inputs inside blocks of {block} that share a scale; allowed: {_listed(allowed)}",
    )


def _the_release_offloads_kv(case: ShapeCase) -> Explanation | None:
    able = case.limits.kv_offload
    if case.request.spec.kv.offload_json is None or able.include(case.engine_version):
        return None
    return Explanation(Reason.EngineUnsupported, f"{case.release} does not know spec.kvCache.offload; allowed: {able}")


def _contexts_are_shared_as_the_engine_can(case: ShapeCase) -> Explanation | None:
    shape, sharing = case.option.shape, case.sharing
    why = decode_context_conflict(sharing) or sglang_decode_context_conflict(sharing)
    why = why or tensorrt_llm_decode_context_conflict(shape)
    return Explanation(Reason.ContextNotShared, why) if why is not None else None


def _the_users_arguments_work_in_it(case: ShapeCase) -> Explanation | None:
    experts, spec = case.request.architecture.experts, case.request.spec.engine
    count = experts.count if experts is not None else None
    why = options_shape_conflict(spec, case.option.shape, case.engine_version, count)
    return Explanation(Reason.ArgumentConflict, f"spec.engine.args {why}") if why is not None else None


def _prompts_are_shared_as_the_engine_can(case: ShapeCase) -> Explanation | None:
    shape = case.option.shape
    why = prefill_context_conflict(case.sharing) or sglang_prefill_context_conflict(shape)
    why = why or tensorrt_llm_prefill_context_conflict(shape)
    return Explanation(Reason.PromptNotShared, why) if why is not None else None


CLAIMS: tuple[Claim, ...] = (
    both_halves_are_of_one_generation,
    a_half_is_one_stage,
    _heads_divide,
    _groups_are_what_the_engine_forms,
    _experts_divide,
    _layers_can_be_cut,
    _contexts_are_shared_as_the_engine_can,
    _prompts_are_shared_as_the_engine_can,
    _devices_are_whole,
    _groups_stay_in_a_domain,
    _replica_stays_in_a_domain_unless_stages_may_leave,
    _pods_are_equal_parts_of_nodes,
    _the_release_forms_groups_over_pods,
    _the_image_is_made_for_it,
    _the_engine_has_such_ranks,
    _ranks_keep_their_stages_in_one_pod,
    ranks_are_balanced_as_wished,
    _stages_of_ranks_share_a_domain,
    _the_attention_has_kernels,
    _precision_is_served,
    _an_image_for_it_is_known_or_named,
    _the_checkpoint_can_be_stored_so,
    _the_release_serves_the_precision,
    _weight_blocks_stay_whole,
    _the_release_offloads_kv,
    the_release_keeps_kv_on_disks_within_a_size,
    lmcache_finds_what_it_keeps,
    lmcache_reuses_its_own_kv,
    kv_goes_over_efa_where_wished,
    kv_goes_over_nvlink_where_wished,
    states_are_handed_over,
    groups_hand_over_kv,
    the_users_memory_can_be_counted,
    the_users_kv_cache_holds_a_sequence,
    weights_fit,
    one_sequence_fits_beside_them,
    the_host_keeps_more_kv_than_the_gpus,
    _the_users_arguments_work_in_it,  # last, so that it only fails for shapes that are possible otherwise
)


def refusal(case: ShapeCase) -> Explanation | None:
    """Why a shape is impossible, or None."""
    return next((found for claim in CLAIMS if (found := claim(case)) is not None), None)


def _groups(shape: Shape) -> str:
    """Format the parallel sizes: `TP 4 x DP 2`, with PCP where it is above 1."""
    shared = f" x PCP {shape.prefill_context_parallel}" if shape.prefill_context_parallel > 1 else ""
    return f"TP {shape.tensor_parallel} x DP {shape.data_parallel}{shared}"


def _listed(values: object) -> str:
    return ", ".join(str(value) for value in values) if isinstance(values, list | tuple) and values else "nothing"
