"""What an engine says of its KV cache, beside what the performance model makes of the same memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from weft.catalog import architecture_from_config, load
from weft.domain.shape import EngineName, Shape
from weft.domain.texts.units import GIB
from weft.perf import ReplicaModel, footprint, kv_tokens, stored_kv

if TYPE_CHECKING:
    from weft.domain.hardware import Precision


@dataclass(frozen=True, slots=True)
class Blocks:
    """The cache as vLLM cuts it: so many blocks of so many tokens."""

    count: int
    tokens: int

    @property
    def all_tokens(self) -> int:
        """What the cache holds."""
        return self.count * self.tokens


def blocks_of(metrics: str) -> Blocks:
    """The labels of `vllm:cache_config_info` in the text of an engine's `/metrics`."""
    samples = (sample for family in text_string_to_metric_families(metrics) for sample in family.samples)
    labels = next(sample.labels for sample in samples if sample.name == "vllm:cache_config_info")
    return Blocks(int(labels["num_gpu_blocks"]), int(labels["block_size"]))


def predicted_tokens(config_json: str, precision: Precision, space_gib: float) -> int:
    """KV tokens of one replica on the CPU that has this room for them.

    There vLLM takes `VLLM_CPU_KVCACHE_SPACE` GiB and measures nothing, so that the bytes of a token and the rounding to
    blocks are what can be compared, and not how much the weights and the runtime leave.
    """
    catalog = load()
    cpu = catalog.accelerator("cpu")
    replica = ReplicaModel(
        architecture=architecture_from_config("weft/tiny-llama", config_json),
        shape=Shape(EngineName.VLLM, cpu.name, precision),
        accelerator=cpu,
        efficiency=catalog.efficiency(cpu, EngineName.VLLM, precision),
        memory_bytes=cpu.memory_bytes,
        kv_precision=stored_kv(None, precision),
    )
    taken = footprint(replica)
    memory = (space_gib * GIB + taken.reserve_bytes + taken.weight_bytes) / replica.efficiency.memory_fraction
    return kv_tokens(replace(replica, memory_bytes=math.ceil(memory)), 1.0)
