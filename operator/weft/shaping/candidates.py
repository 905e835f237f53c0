"""Every shape worth considering: pinned sizes stay, free ones run through powers of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.hardware import Precision
from weft.domain.shape import Shape
from weft.domain.workload import Role
from weft.engines.model.sharing import shared_copies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.catalog import Catalog
    from weft.domain.hardware import Accelerator
    from weft.domain.shape import EngineName
    from weft.domain.spec import ShapePins
    from weft.shaping.request import ShapeRequest, Supply

MOST_STAGES = 16
MOST_PROMPT_GROUPS = 4


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate shape on a supply, not yet checked."""

    shape: Shape
    supply: Supply
    accelerator: Accelerator


@dataclass(frozen=True, slots=True)
class CandidateSetting:
    """The supply, engine and precision that candidates are generated for."""

    supply: Supply
    accelerator: Accelerator
    engine: EngineName
    precision: Precision
    rank_per_pod: bool = False  # whether each of several data-parallel ranks is a pod of its own

    def option(self, sizes: Sizes) -> Option:
        """The candidate of these sizes in this setting."""
        shape = Shape(
            engine=self.engine,
            accelerator=self.accelerator.name,
            precision=self.precision,
            tensor_parallel=sizes.tensor,
            pipeline_parallel=sizes.pipeline,
            expert_parallel=sizes.expert,
            data_parallel=sizes.data,
            gpus_per_pod=self._gpus_per_pod(sizes),
            decode_context_parallel=sizes.decode_context,
            prefill_context_parallel=sizes.prefill_context,
        )
        return Option(shape, self.supply, self.accelerator)

    def _gpus_per_pod(self, sizes: Sizes) -> int:
        if self.rank_per_pod and sizes.data > 1:
            return sizes.stage * sizes.pipeline // sizes.data
        return gpus_per_pod(sizes, self.supply.gpus_per_node)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Parallel sizes of one replica."""

    tensor: int
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    decode_context: int = 1
    prefill_context: int = 1

    @property
    def stage(self) -> int:
        """GPUs of one pipeline stage."""
        return self.tensor * self.data * self.prefill_context


def served_precisions(request: ShapeRequest) -> tuple[Precision, ...]:
    """Precisions that the pool names or allows, else the checkpoint's; engines run 32-bit checkpoints in 16 bits."""
    model, stored = request.spec.model, request.architecture.checkpoint_precision
    if model.precision is not None:
        return (model.precision,)
    return model.precisions or (Precision.BF16 if stored is Precision.FP32 else stored,)


def wished_engines(request: ShapeRequest, catalog: Catalog) -> tuple[EngineName, ...]:
    """The engine that the pool names, else the one that it or the other half runs, else those that Auto chooses from.

    A version without an engine name is a version of the default engine.
    """
    wish, default = request.spec.engine, catalog.automatic[0]
    settled = (request.engine, request.partner)
    name = wish.name or next((each.name for each in settled if each is not None and each.name), None)
    if name is None:
        return (default,) if wish.version else catalog.automatic
    return (catalog.engine(name).name,)


def single_stage(request: ShapeRequest, setting: CandidateSetting) -> tuple[Option, ...]:
    """Shapes whose GPUs all share one NVLink domain (or any number of stages, if that is pinned)."""
    pins = request.spec.shape
    stages = pins.pipeline_parallel or 1
    sizes = {
        Sizes(tensor, stages, data, expert, decode, prefill)
        for tensor in _tensor_sizes(pins, setting)
        for data in _data_sizes(request, setting, tensor)
        for prefill in _prefill_context_sizes(request, setting, tensor, data)
        for expert in _expert_sizes(request, tensor, data * prefill)
        for decode in _decode_context_sizes(request, tensor, data, expert)
    }
    return tuple(setting.option(each) for each in sorted(sizes | _running_sizes(request, setting), key=_order))


def more_stages(request: ShapeRequest, setting: CandidateSetting) -> Iterator[tuple[Option, ...]]:
    """Candidates where no single stage holds the model: groups of shapes with 2, 4, ... stages of the largest TP."""
    pins = request.spec.shape
    if pins.pipeline_parallel is not None:
        return
    legal = [tensor for tensor in _tensor_sizes(pins, setting) if request.architecture.heads % tensor == 0]
    if not legal:
        return
    tensor, stages = max(legal), 2
    while stages <= min(MOST_STAGES, request.architecture.layers):
        data, prefill = pins.data_parallel or 1, pins.prefill_context_parallel or 1
        yield tuple(
            setting.option(Sizes(tensor, stages, data, expert, decode, prefill))
            for decode in _decode_context_sizes(request, tensor)
            for expert in sorted(_expert_sizes(request, tensor, data * prefill))
        )
        stages *= 2


def gpus_per_pod(sizes: Sizes, gpus_per_node: int) -> int:
    """GPUs per pod: the replica in one pod if a node holds it, else a stage per pod, else equal parts of a stage.

    If there are several data-parallel ranks none is split; a part that no node could hold is left to the checks.
    """
    stage = sizes.stage
    if stage * sizes.pipeline <= gpus_per_node:
        return stage * sizes.pipeline
    unit = sizes.tensor if sizes.data > 1 else 1
    parts = [part for part in range(min(stage, gpus_per_node), 0, -1) if stage % part == 0 and part % unit == 0]
    return parts[0] if parts else unit


def _tensor_sizes(pins: ShapePins, setting: CandidateSetting) -> list[int]:
    if pins.tensor_parallel is not None:
        return [pins.tensor_parallel]
    return _powers_of_two(_reach(setting))


def _data_sizes(request: ShapeRequest, setting: CandidateSetting, tensor: int) -> list[int]:
    """Sizes of attention DP inside a replica, which only helps models with experts: all, or what a pinned EP leaves."""
    pins = request.spec.shape
    if pins.data_parallel is not None:
        return [pins.data_parallel]
    if request.architecture.experts is None or setting.supply.shared:
        return [1]
    if (pins.expert_parallel or 1) > 1:
        return _data_sizes_that_form(pins, tensor)
    if tensor > setting.supply.gpus_per_node:
        return [1]
    return _powers_of_two(setting.supply.domain_gpus // tensor) or [1]


def _data_sizes_that_form(pins: ShapePins, tensor: int) -> list[int]:
    """The size of DP with which groups of `tensor` form the pinned EP; none where another TP may form it instead."""
    experts, group = pins.expert_parallel or 1, tensor * (pins.prefill_context_parallel or 1)
    if experts % group == 0:
        return [experts // group]
    return [1] if tensor == (pins.tensor_parallel or 1) else []


def _decode_context_sizes(request: ShapeRequest, tensor: int, data: int = 1, expert: int = 1) -> list[int]:
    """Sizes of decode context parallelism (DCP): divisors of the GPUs with the same KV; a decode half uses all or 1.

    A prefill half uses 1. Unless pinned, DCP is not combined with data-parallel ranks, which already keep fewer copies,
    nor with expert groups, which do not change attention, so that the shape without one is equivalent.
    """
    pins, role = request.spec.shape, request.spec.role
    if pins.decode_context_parallel is not None:
        return [pins.decode_context_parallel]
    if (data > 1 and pins.data_parallel is None) or (expert > 1 and pins.expert_parallel is None):
        return [1]
    copies = shared_copies(request.architecture, tensor)
    if not role.is_half:
        return [size for size in _powers_of_two(copies) if copies % size == 0]
    return [1, tensor] if role is Role.Decode and copies == tensor > 1 else [1]


def _prefill_context_sizes(request: ShapeRequest, setting: CandidateSetting, tensor: int, data: int) -> list[int]:
    """Sizes of prefill context parallelism (PCP): only for prefill, of models whose prompts the engine can share."""
    pins = request.spec.shape
    pinned = pins.prefill_context_parallel
    if pinned is not None:
        tried_in_vain = pinned > 1 and data > 1 and pins.data_parallel is None
        return [] if tried_in_vain else [pinned]
    if request.spec.role is not Role.Prefill or data > 1 or not request.architecture.is_latent:
        return [1]
    return [size for size in _powers_of_two(MOST_PROMPT_GROUPS) if size * tensor <= max(tensor, _reach(setting))]


def _reach(setting: CandidateSetting) -> int:
    """The most GPUs that a replica may have in one stage."""
    return 1 if setting.supply.shared else setting.supply.domain_gpus


def _expert_sizes(request: ShapeRequest, tensor: int, groups: int) -> set[int]:
    """Expert group sizes under vLLM's rule: all tensor groups together; also 1 where there is only one tensor group."""
    group = tensor * groups
    pinned = request.spec.shape.expert_parallel
    if pinned is not None:
        return {pinned}
    if request.architecture.experts is None:
        return {1}
    return {1, group} if group == tensor else {group}


def _running_sizes(request: ShapeRequest, setting: CandidateSetting) -> set[Sizes]:
    """The running shape's sizes, which are always considered unless a pin excludes them."""
    running = request.incumbent.shape if request.incumbent else None
    where = (setting.engine, setting.accelerator.name, setting.precision)
    if running is None or (running.engine, running.accelerator, running.precision) != where:
        return set()
    if not request.spec.shape.allow(running):
        return set()
    return {
        Sizes(
            running.tensor_parallel,
            running.pipeline_parallel,
            running.data_parallel,
            running.expert_parallel,
            running.decode_context_parallel,
            running.prefill_context_parallel,
        )
    }


def _powers_of_two(most: int) -> list[int]:
    return [1 << exponent for exponent in range(most.bit_length())] if most > 0 else []


def _order(sizes: Sizes) -> tuple[int, ...]:
    return (
        sizes.pipeline,
        sizes.stage,
        sizes.prefill_context,
        sizes.data,
        sizes.expert,
        sizes.decode_context,
    )
