"""Why a shape cannot be: claims in the order of design section 5. The first that does not hold gives the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.catalog.calibrated import calibrated_spread
from weft.domain.calibration import NOTHING_KNOWN, Subject, factors_for, measured_on
from weft.domain.hardware import Precision
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import DomainRule
from weft.domain.units import GIB
from weft.domain.workload import Role
from weft.engines.context_parallelism import Sharing, decode_context_conflict, prefill_context_conflict
from weft.engines.handover import context_conflict, tensor_conflict
from weft.perf import Doubt, ReplicaModel, footprint, sequence_bytes_per_gpu
from weft.shaping.speculating import resolve_speculation

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.model import Architecture
    from weft.domain.shape import Shape
    from weft.shaping.candidates import Option
    from weft.shaping.request import ShapeRequest


@dataclass(frozen=True, slots=True)
class Case:
    """One shape before the checks."""

    option: Option
    request: ShapeRequest
    catalog: Catalog

    @property
    def replica(self) -> ReplicaModel:
        """What the performance model looks at; only once the precision is known to be served."""
        shape, accelerator = self.option.shape, self.option.accelerator
        return ReplicaModel(
            architecture=self.request.architecture,
            shape=shape,
            accelerator=accelerator,
            efficiency=self.catalog.efficiency(accelerator, shape.engine, shape.precision),
            memory_bytes=self.option.supply.memory_bytes,
            kv_precision=self.request.spec.kv.precision or Precision.BF16,
            speculation=resolve_speculation(self.request.spec.engine, self.request.architecture, self.catalog),
            calibration=factors_for(self.subject, self.request.calibration) if self.subject else NOTHING_KNOWN,
        )

    @property
    def subject(self) -> Subject | None:
        """What live metrics of this shape would be about; None of one that no release is kept for."""
        release = self.request.engine
        if release is None or release.name is not self.option.shape.engine:
            return None
        return Subject.of(self.request.spec.model.model_id, release, self.option.shape)

    @property
    def doubt(self) -> Doubt:
        """By how much latencies of this replica may exceed their prediction, one time in ten.

        Less once this very shape was measured: its kin have its factors, but no measurement of their own.
        """
        spread = self.catalog.spread(self.request.architecture, self.option.shape, self.option.accelerator)
        own = measured_on(self.subject, self.request.calibration) if self.subject else None
        if own is not None:
            spread = calibrated_spread(spread, own.points, own.prompt_points)
        return Doubt(spread.ttft, spread.tpot)

    @property
    def engine_version(self) -> str:
        """The version that will run: the one to keep, else the wished or default one."""
        if self.request.engine is not None:
            return self.request.engine.version
        return self.request.spec.engine.version or self.catalog.engine(self.option.shape.engine).version

    @property
    def sharing(self) -> Sharing:
        """What decides whether GPUs may share contexts and prompts."""
        spec, architecture = self.request.spec, self.request.architecture
        return Sharing(self.option.shape, spec, architecture, self.engine_version, self.option.accelerator.vendor)

    @property
    def is_of_another_generation(self) -> bool:
        """Whether the other half of the split runs on GPUs whose KV cache this one could not read."""
        partner = self.request.partner
        return partner is not None and self.option.accelerator.generation != partner.generation


OF_MEMORY = frozenset({Reason.OutOfMemory, Reason.NoRoomForKV})

Claim = Callable[[Case], Explanation | None]


def _both_halves_are_of_one_generation(case: Case) -> Explanation | None:
    partner, own = case.request.partner, case.option.accelerator.generation
    if partner is None or not case.is_of_another_generation:
        return None
    return Explanation(
        Reason.PairIncompatible,
        f"the other half runs on {partner.generation} GPUs, where engines choose another attention backend than on "
        f"{own}: they refuse each other's KV cache",
    )


def _a_half_is_one_stage(case: Case) -> Explanation | None:
    stages = case.option.shape.pipeline_parallel
    if stages == 1 or case.request.spec.role is Role.Aggregated:
        return None
    return Explanation(
        Reason.PairIncompatible,
        f"NIXL moves no KV between pipeline stages, and a half of a split would have {stages}; allowed: 1",
    )


def _groups_hand_over_kv(case: Case) -> Explanation | None:
    partner, own = case.request.partner, case.option.shape
    if partner is None or partner.shape is None:
        return None
    is_prefill = case.request.spec.role is Role.Prefill
    prefill, decode = (own, partner.shape) if is_prefill else (partner.shape, own)
    why = tensor_conflict(case.engine_version, prefill.tensor_parallel, decode.tensor_parallel)
    why = why or context_conflict(prefill, decode)
    return Explanation(Reason.PairIncompatible, why) if why is not None else None


def _heads_divide(case: Case) -> Explanation | None:
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
    """Heads are split evenly; KV heads too, or each is on the same number of GPUs."""
    return architecture.heads % tensor == 0 and all(
        kv_heads % tensor == 0 or tensor % kv_heads == 0 for kv_heads in architecture.kv_heads
    )


def _groups_are_what_the_engine_forms(case: Case) -> Explanation | None:
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


def _experts_divide(case: Case) -> Explanation | None:
    experts, size = case.request.architecture.experts, case.option.shape.expert_parallel
    if experts is None or experts.count % size == 0:
        return None
    allowed = [each for each in range(1, experts.count + 1) if experts.count % each == 0]
    return Explanation(
        Reason.ExpertsNotDivisible, f"EP {size} does not divide {experts.count} experts; allowed: {_listed(allowed)}"
    )


def _layers_can_be_cut(case: Case) -> Explanation | None:
    layers, stages = case.request.architecture.layers, case.option.shape.pipeline_parallel
    if stages <= layers:
        return None
    return Explanation(Reason.LayersNotDivisible, f"PP {stages} is more than {layers} layers; allowed: 1 to {layers}")


def _devices_are_whole(case: Case) -> Explanation | None:
    shape, supply = case.option.shape, case.option.supply
    if shape.gpus == 1 or not supply.shared:
        return None
    return Explanation(
        Reason.SharedDevice,
        f"{supply.accelerator} is shared (time-slicing, MPS or MIG) here; allowed: one device a replica",
    )


def _groups_stay_in_a_domain(case: Case) -> Explanation | None:
    shape, supply = case.option.shape, case.option.supply
    if shape.domain_group_gpus <= supply.domain_gpus:
        return None
    return Explanation(
        Reason.LeavesDomain,
        f"a group of {shape.domain_group_gpus} GPUs leaves the NVLink domain; allowed: up to {supply.domain_gpus}, the "
        f"largest {supply.accelerator} domain",
    )


def _replica_stays_in_a_domain_unless_stages_may_leave(case: Case) -> Explanation | None:
    shape, supply = case.option.shape, case.option.supply
    if shape.gpus <= supply.domain_gpus or case.request.spec.placement.domain is DomainRule.Preferred:
        return None
    return Explanation(
        Reason.LeavesDomain,
        f"{shape.gpus} GPUs are more than the {supply.domain_gpus} of the largest {supply.accelerator} domain; "
        f"allowed: up to {supply.domain_gpus}, or placement.domain Preferred, which lets stages spread over domains",
    )


def _pods_are_equal_parts_of_nodes(case: Case) -> Explanation | None:
    shape, supply = case.option.shape, case.option.supply
    if shape.gpus_per_pod <= supply.gpus_per_node:
        return None
    return Explanation(
        Reason.ShapeInvalid,
        f"a data-parallel rank of {shape.tensor_parallel} GPUs does not fit a node; allowed: "
        f"up to {supply.gpus_per_node}",
    )


def _precision_is_served(case: Case) -> Explanation | None:
    shape, accelerator = case.option.shape, case.option.accelerator
    served = case.catalog.precisions(accelerator, shape.engine)
    if shape.precision in served and accelerator.peak_flops(shape.precision) is not None:
        return None
    return Explanation(
        Reason.PrecisionUnsupported,
        f"{shape.engine.value} does not serve {shape.precision.value} on {accelerator.name}; "
        f"allowed: {_listed(served)}",
    )


def _weights_fit(case: Case) -> Explanation | None:
    memory = footprint(case.replica)
    if memory.room_bytes > 0:
        return None
    return Explanation(
        Reason.OutOfMemory,
        f"weights take {_gib(memory.weight_bytes)} of each GPU, and {_gib(memory.usable_bytes - memory.reserve_bytes)} "
        "can be used",
    )


def _one_sequence_fits_beside_them(case: Case) -> Explanation | None:
    replica, context = case.replica, case.request.target_context_tokens
    room, needed = footprint(replica).room_bytes, sequence_bytes_per_gpu(replica, context)
    if needed <= room:
        return None
    return Explanation(
        Reason.NoRoomForKV,
        f"a sequence of {context:.0f} tokens needs {_gib(needed)} of KV cache on each GPU, and {_gib(room)} is left",
    )


def _contexts_are_shared_as_the_engine_can(case: Case) -> Explanation | None:
    why = decode_context_conflict(case.sharing)
    return Explanation(Reason.ContextNotShared, why) if why is not None else None


def _prompts_are_shared_as_the_engine_can(case: Case) -> Explanation | None:
    why = prefill_context_conflict(case.sharing)
    return Explanation(Reason.PromptNotShared, why) if why is not None else None


CLAIMS: tuple[Claim, ...] = (
    _both_halves_are_of_one_generation,
    _a_half_is_one_stage,
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
    _precision_is_served,
    _groups_hand_over_kv,
    _weights_fit,
    _one_sequence_fits_beside_them,
)


def refusal(case: Case) -> Explanation | None:
    """Why a shape cannot be, or None."""
    return next((found for claim in CLAIMS if (found := claim(case)) is not None), None)


def missing_bytes(case: Case) -> float:
    """What each GPU lacks to hold the weights and one sequence; for shapes that only memory speaks against."""
    replica = case.replica
    return sequence_bytes_per_gpu(replica, case.request.target_context_tokens) - footprint(replica).room_bytes


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / GIB:.1f} GiB"


def _groups(shape: Shape) -> str:
    """`TP 4 x DP 2`, and the groups that share prompts where there are several."""
    shared = f" x PCP {shape.prefill_context_parallel}" if shape.prefill_context_parallel > 1 else ""
    return f"TP {shape.tensor_parallel} x DP {shape.data_parallel}{shared}"


def _listed(values: object) -> str:
    return ", ".join(str(value) for value in values) if isinstance(values, list | tuple) and values else "nothing"
