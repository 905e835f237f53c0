"""How fast a simulated engine of a plan is: as fast as the performance model says, no more and no less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.perf.replica import ReplicaModel, stored_kv
from weft.perf.steps import stepper
from weft.shaping import resolve_architecture, resolve_speculation
from weft.twin.engine import EngineSpeed

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.shape import Plan
    from weft.domain.spec import PoolSpec


def engine_speed(plan: Plan, spec: PoolSpec, catalog: Catalog) -> EngineSpeed:
    """Speed of one replica at the declared workload; decode is linear between a batch of 1 and the largest."""
    workload, shape, prediction = spec.workload, plan.shape, plan.prediction
    accelerator = catalog.accelerator(shape.accelerator)
    architecture = resolve_architecture(spec.model, catalog)
    replica = ReplicaModel(
        architecture=architecture,
        shape=shape,
        accelerator=accelerator,
        efficiency=catalog.efficiency(accelerator, shape.engine, shape.precision),
        memory_bytes=accelerator.memory_bytes,
        kv_precision=stored_kv(spec.kv.precision, shape.precision),
        speculation=resolve_speculation(spec.engine, architecture, catalog),
    )
    steps = stepper(replica)
    context = workload.input_tokens + workload.output_tokens / 2
    batch = max(2, prediction.max_batch)
    alone, full = steps.decode(1, context).seconds, steps.decode(batch, context).seconds
    prefill = steps.prefill(workload.input_tokens, 0.0, 1.0).seconds
    return EngineSpeed(
        prefill_tokens_per_second=shape.data_parallel * workload.input_tokens / prefill,
        step_seconds=alone,
        step_seconds_per_sequence=max(0.0, (full - alone) / (batch - 1)),
        max_batch=batch,
        kv_tokens=prediction.kv_tokens,
    )
