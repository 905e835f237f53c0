"""Replicas of catalog models as the cases need them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, Shape
from weft.domain.workload import Workload
from weft.perf import ReplicaModel

if TYPE_CHECKING:
    from weft.domain.model import Architecture

CATALOG = load()


@dataclass(frozen=True, slots=True)
class Parallel:
    """Parallel sizes of a case."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    decode_context: int = 1
    prefill_context: int = 1


def architecture(model_id: str) -> Architecture:
    found = CATALOG.architecture(model_id)
    assert found is not None, model_id
    return found


def replica(
    model_id: str, accelerator: str, precision: Precision, parallel: Parallel | int = 1, kv: Precision = Precision.BF16
) -> ReplicaModel:
    """One replica; a plain number is a tensor-parallel size."""
    sizes = Parallel(parallel) if isinstance(parallel, int) else parallel
    hardware = CATALOG.accelerator(accelerator)
    shape = Shape(
        engine=EngineName.VLLM,
        accelerator=accelerator,
        precision=precision,
        tensor_parallel=sizes.tensor,
        pipeline_parallel=sizes.pipeline,
        data_parallel=sizes.data,
        expert_parallel=sizes.expert,
        gpus_per_pod=min(hardware.gpus_per_node, sizes.tensor * sizes.data),
        decode_context_parallel=sizes.decode_context,
        prefill_context_parallel=sizes.prefill_context,
    )
    model = architecture(model_id)
    usual = CATALOG.efficiency(hardware, EngineName.VLLM, precision)
    efficiency = CATALOG.efficiency_for(model, EngineName.VLLM, usual)
    return ReplicaModel(model, shape, hardware, efficiency, hardware.memory_bytes, kv)


def workload(input_tokens: float = 1000, output_tokens: float = 200, prefix_hit: float = 0.0) -> Workload:
    """One request a second of which the longest twentieth is twice as long as the mean."""
    return Workload(1.0, input_tokens, output_tokens, 2 * input_tokens, 2 * output_tokens, prefix_hit)
