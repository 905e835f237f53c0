"""The speed of an engine exactly as the performance model predicts it for a plan."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.engines.model.context import stretches_context
from weft.perf import handed_over_seconds, several_at_once
from weft.perf.steps import Stepper, stepper
from weft.shaping import ShapeRequest, Supply, planned_capacity, replanned_capacity, resolve_architecture
from weft.shaping.running import modelled
from weft.twin.engine.speed import EngineSpeed
from weft.twin.engine.steps import Graphs, StepTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.catalog import Catalog
    from weft.domain.calibration import Calibrated
    from weft.domain.capacity import Capacity
    from weft.domain.model import Architecture
    from weft.domain.shape import Plan
    from weft.domain.spec import PoolSpec
    from weft.perf import ReplicaModel

_FIRST_CONTEXT, _FIRST_TOKENS, _FIRST_BATCH = 64, 16, 1
_FINE, _COARSE = 1.25, 2.0  # growth from one point to the next: what is nearly linear needs few points
_SEVERAL = 2  # sizes needed to tell a fixed cost from one per item


def engine_speed(plan: Plan, spec: PoolSpec, catalog: Catalog, part_bytes: int | None = None) -> EngineSpeed:
    """Return the speed of one replica of a plan, with as much KV memory as its prediction has.

    `part_bytes` is the memory of its device where that is part of a GPU (`weft.twin.cluster.parts`): the engine gets
    that share of the GPU.
    """
    replica = modelled(_request(plan, spec, catalog, part_bytes), plan.shape, catalog)
    ranks, efficiency = plan.shape.data_parallel, replica.efficiency
    max_batch = max(_SEVERAL, plan.prediction.max_batch)
    budget = max(max_batch, ranks * int(efficiency.batched_tokens))
    tokens = float(spec.workload.input_tokens)
    first, more = (handed_over_seconds(replica, each) for each in (tokens, 2.0 * tokens))
    each = (more - first) / tokens / ranks  # each data-parallel rank has its own links
    return EngineSpeed(
        steps=step_table(replica, max_batch, budget),
        max_batch=max_batch,
        kv_tokens=plan.prediction.kv_tokens,
        batched_tokens=budget,
        transfer_seconds=max(0.0, first - tokens * each),
        transfer_seconds_per_token=each,
        transfer_beside_others=several_at_once(replica),
        request_seconds=efficiency.request_seconds,
        context_tokens=_context_tokens(spec, replica.architecture),
    )


def _context_tokens(spec: PoolSpec, architecture: Architecture) -> int:
    """Return the longest prompt plus answer that the engine takes; 0 where it stretches the model's context."""
    known = 0 if stretches_context(spec.engine) else architecture.max_context_tokens
    return int(spec.model.max_context_tokens or known)


def engine_capacity(
    plan: Plan, spec: PoolSpec, catalog: Catalog, calibration: tuple[Calibrated, ...], *, managed: bool
) -> Capacity:
    """Return what replicas of a plan serve of declared traffic, where the router may be `managed`: of Weft's choice."""
    request = _request(plan, spec, catalog, None)
    return planned_capacity(plan, replace(request, calibration=calibration, managed=managed), catalog)


def capacity_if_declared(
    plan: Plan, spec: PoolSpec, catalog: Catalog, part_bytes: int | None, *, managed: bool
) -> Capacity:
    """Return what a plan of this plan's shape says for the traffic of a spec that need not be the one planned for.

    `part_bytes` are those of `engine_speed`; the router may be `managed`: of Weft's choice.
    """
    request = _request(plan, spec, catalog, part_bytes)
    return replanned_capacity(plan.shape, replace(request, managed=managed), catalog)


def _request(plan: Plan, spec: PoolSpec, catalog: Catalog, part_bytes: int | None) -> ShapeRequest:
    """What was planned, on devices as large as the catalog says, or on parts of them."""
    accelerator, is_part = catalog.accelerator(plan.shape.accelerator), part_bytes is not None
    size, domain, node = part_bytes or accelerator.memory_bytes, accelerator.domain_gpus, accelerator.gpus_per_node
    supply = Supply(accelerator.name, size, domain, node, shared=is_part)
    architecture = resolve_architecture(spec.model, catalog)
    return ShapeRequest(spec, architecture, spec.workload, (supply,), engine=plan.engine)


def step_table(replica: ReplicaModel, max_batch: int, batched_tokens: int) -> StepTable:
    """Tabulate step times of a replica with all its ranks, up to `max_batch` sequences and `batched_tokens` tokens.

    Prompts are spread evenly over data-parallel ranks, as sequences are.
    """
    steps, ranks = stepper(replica), float(replica.shape.data_parallel)
    longest = max(2 * _FIRST_CONTEXT, int(replica.architecture.max_context_tokens))
    contexts = [1, *_points(_FIRST_CONTEXT, longest, _COARSE)]
    decode = {
        (float(batch), float(context)): steps.decode(batch, context).seconds
        for batch in _points(_FIRST_BATCH, max_batch, _FINE)
        for context in contexts
    }
    prompts = {
        (float(tokens), float(context)): _prompt_seconds(steps, max(1.0, tokens / ranks), context)
        for tokens in _points(_FIRST_TOKENS, batched_tokens, _FINE)
        for context in contexts
    }
    alone = steps.prefill(_FIRST_TOKENS, 0.0, 1.0)
    return StepTable(decode, prompts, alone.launch, _graphs(steps, batched_tokens / ranks))


def _graphs(steps: Stepper, tokens: float) -> Graphs:
    """Return what is captured of steps with prompts on all ranks, each of which has at most so many tokens."""
    work = steps.work
    full = steps.prefill(tokens, 0.0, 1.0)
    return Graphs(work.graph_tokens * work.prompt_groups * work.ranks, full.launching)


def _points(first: int, last: int, growth: float) -> Iterator[int]:
    """Yield whole numbers from the first to the last, each larger than the one before by the factor `growth`."""
    point = min(first, last)
    while point < last:
        yield point
        point = max(point + 1, int(point * growth))
    yield last


def _prompt_seconds(steps: Stepper, tokens: float, mean_context: float) -> float:
    """Return the seconds for which GPUs work on a step of prompt tokens whose mean context is `mean_context`.

    A single prompt of n tokens has the mean context n / 2. A smaller one means that several shorter prompts share the
    step: then only the attention takes less.
    """
    if 2.0 * mean_context >= tokens:
        alone = steps.prefill(tokens, mean_context - tokens / 2.0, 1.0)
        return alone.seconds - alone.waits
    whole, short = (steps.prefill(each, 0.0, 1.0) for each in (tokens, 2.0 * mean_context))
    attention = short.parts.attention * tokens / (2.0 * mean_context)
    factor = whole.seconds / sum(whole.parts)
    return whole.seconds - whole.waits + factor * (attention - whole.parts.attention)
