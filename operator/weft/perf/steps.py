"""Time of one engine step: decode as a function of batch and context, prefill of one prompt.

Per kind of operation the larger of compute and memory time counts; kinds, communication and launch overhead add up.
Under pipeline parallelism the batch is cut into as many microbatches as stages, so that a token's way through all
stages takes as long as the whole model with one microbatch; hence nothing here divides layers by stages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.catalog.parameters import expert_parameters
from weft.domain.hardware import Precision
from weft.domain.shape import Limit
from weft.perf.collectives import all_reduce_seconds, exchange_bytes_per_token, exchange_seconds, hop_seconds
from weft.perf.memory import (
    expert_split,
    kept_layer_tokens,
    kv_bytes_per_layer_token,
    kv_share,
    layer_weights,
    linear_parameters_per_gpu,
)

if TYPE_CHECKING:
    from weft.perf.memory import WeightBytes
    from weft.perf.replica import ReplicaModel

_ACTIVATION_BYTES = 2.0  # hidden states travel in 16 bits
_NETWORK_FRACTION = 0.9  # of a NIC's rate, at best


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step by what they are spent on."""

    compute: float
    memory: float
    scale_up: float
    scale_out: float
    latency: float

    @property
    def seconds(self) -> float:
        """The whole step."""
        return self.compute + self.memory + self.scale_up + self.scale_out + self.latency

    @property
    def limit(self) -> Limit:
        """What most of the step is spent on."""
        parts = (
            (self.compute, Limit.Compute),
            (self.memory, Limit.MemoryBandwidth),
            (self.scale_up, Limit.ScaleUpNetwork),
            (self.scale_out, Limit.ScaleOutNetwork),
            (self.latency, Limit.Latency),
        )
        return max(parts, key=lambda part: part[0])[1]


@dataclass(frozen=True, slots=True)
class Stepper:
    """Constants of one replica, per GPU and summed over layers, so that a step costs a few multiplications.

    FLOP are per token (of the whole expert group for `expert_flops`), and for attention per token that a token looks at
    in one layer; rates are what the engine reaches, not peaks.
    """

    replica: ReplicaModel
    weights: WeightBytes
    linear_flops: float
    expert_flops: float
    head_flops: float
    prefill_attention_flops: float
    decode_attention_flops: float
    kv_layer_bytes: float
    flops: float
    attention_rate: float
    memory_rate: float

    def decode(self, batch: float, context_tokens: float) -> StepTime:
        """One step in which each of `batch` sequences of the replica gets a token, at a mean context."""
        shape = self.replica.shape
        group = max(1.0, batch / shape.pipeline_parallel)  # tokens of a microbatch over all data-parallel ranks
        rank = max(1.0, group / shape.data_parallel)
        kept = kept_layer_tokens(self.replica.architecture, context_tokens)
        operations = (
            (rank * self.linear_flops / self.flops, self.weights.linear / self.memory_rate),
            (group * self.expert_flops / self.flops, self._expert_bytes(group) / self.memory_rate),
            (rank * self.head_flops / self.flops, self.weights.head / self.memory_rate),
            (
                rank * kept * self.decode_attention_flops / self.attention_rate,
                rank * kept * self.kv_layer_bytes / self.memory_rate,
            ),
        )
        overhead = self._overhead(1.0) + rank * self.replica.efficiency.sequence_seconds
        return self._step(operations, rank, 1.0, overhead)

    def prefill(self, new_tokens: float, cached_tokens: float, steps: float) -> StepTime:
        """Prefill of one prompt of which `cached_tokens` are known already, spread over so many steps of the engine.

        `steps` may be a fraction: the part of the steps that a prompt costs when several share each. Every
        data-parallel rank is taken to be busy with a prompt of its own, since they meet at the experts.
        """
        group_tokens = new_tokens * self.replica.shape.data_parallel
        looked_at = _looked_at(self.replica, new_tokens, cached_tokens)
        operations = (
            (new_tokens * self.linear_flops / self.flops, steps * self.weights.linear / self.memory_rate),
            (
                group_tokens * self.expert_flops / self.flops,
                steps * self._expert_bytes(group_tokens / steps) / self.memory_rate,
            ),
            (self.head_flops / self.flops, steps * self.weights.head / self.memory_rate),
            (looked_at * self.prefill_attention_flops / self.attention_rate, 0.0),
        )
        return self._step(operations, new_tokens, steps, self._overhead(steps))

    def _expert_bytes(self, tokens: float) -> float:
        """Bytes of the experts that a step touches: E (1 - (1 - k/E)^T) of E, for uniform routing."""
        experts = self.replica.architecture.experts
        if experts is None:
            return 0.0
        untouched: float = (1.0 - experts.per_token / experts.count) ** tokens
        return self.weights.experts * (1.0 - untouched)

    def _overhead(self, steps: float) -> float:
        efficiency, architecture = self.replica.efficiency, self.replica.architecture
        layers = architecture.layers * efficiency.layer_seconds
        experts = architecture.experts.layers * efficiency.moe_layer_seconds if architecture.experts else 0.0
        return steps * (layers + experts + efficiency.step_seconds * self.replica.shape.pipeline_parallel)

    def _step(
        self, operations: tuple[tuple[float, float], ...], tokens: float, steps: float, overhead_seconds: float
    ) -> StepTime:
        """Add up operations of (compute seconds, memory seconds), communication of `tokens` per rank, and overhead."""
        compute = sum(flops for flops, bytes_ in operations if flops >= bytes_)
        memory = sum(bytes_ for flops, bytes_ in operations if flops < bytes_)
        scale_up = steps * self._scale_up(tokens / steps)
        return StepTime(compute, memory, scale_up, steps * self._scale_out(tokens / steps), overhead_seconds)

    def _scale_up(self, tokens: float) -> float:
        """All-reduces of the tensor group (two a layer); with data-parallel attention the exchange with experts."""
        replica = self.replica
        architecture, shape, efficiency = replica.architecture, replica.shape, replica.efficiency
        experts = architecture.experts
        exchanging = experts.layers if experts and shape.data_parallel > 1 else 0
        link = replica.accelerator.scale_up_bandwidth
        reduce = all_reduce_seconds(
            tokens * architecture.hidden * _ACTIVATION_BYTES,
            shape.tensor_parallel,
            efficiency.collective_seconds,
            link * efficiency.collective_bandwidth,
        )
        seconds = (2 * architecture.layers - exchanging) * reduce
        if not experts or not exchanging:
            return seconds
        per_token = exchange_bytes_per_token(architecture.hidden, expert_split(replica), experts.per_token)
        exchanged = tokens / shape.tensor_parallel * per_token
        each = exchange_seconds(exchanged, efficiency.exchange_seconds, link * efficiency.exchange_bandwidth)
        return seconds + exchanging * each

    def _scale_out(self, tokens: float) -> float:
        """Hops between pipeline stages."""
        stages = self.replica.shape.pipeline_parallel
        if stages == 1:
            return 0.0
        message = tokens * self.replica.architecture.hidden * _ACTIVATION_BYTES
        bandwidth = self.replica.accelerator.network_bandwidth * _NETWORK_FRACTION
        return (stages - 1) * hop_seconds(message, self.replica.efficiency.collective_seconds, bandwidth)


def _looked_at(replica: ReplicaModel, new: float, cached: float) -> float:
    """Sum over new tokens and layers of the tokens each looks at: n c + n^2/2, or at most the window."""
    architecture = replica.architecture
    full = new * cached + new * new / 2
    windowed = min(full, new * (architecture.window_tokens or 0))
    return (architecture.layers - architecture.window_layers) * full + architecture.window_layers * windowed


def _attention_flops(replica: ReplicaModel) -> tuple[float, float]:
    """FLOP of one query token per token it looks at, in one layer on one GPU: (prefill, decode).

    4 Hq d with grouped heads. Latent attention: 2 Hq (nope + rope + v) in prefill, 2 Hq (2 rank + rope) absorbed in
    decode.
    """
    architecture = replica.architecture
    heads = architecture.heads / replica.shape.tensor_parallel
    latent = architecture.latent
    if latent is None:
        return 4 * heads * architecture.head_dim, 4 * heads * architecture.head_dim
    prefill = 2 * heads * (latent.nope_dim + latent.rope_dim + latent.value_dim)
    return prefill, 2 * heads * (2 * latent.kv_rank + latent.rope_dim)


def stepper(replica: ReplicaModel) -> Stepper:
    """Precompute what steps of a replica have in common. The accelerator must compute in the shape's precision."""
    architecture, accelerator, efficiency = replica.architecture, replica.accelerator, replica.efficiency
    peak = accelerator.peak_flops(replica.shape.precision) or math.nan
    attention_peak = accelerator.peak_flops(Precision.BF16) or peak
    experts = architecture.experts
    active = experts.layers * experts.per_token * expert_parameters(architecture) if experts else 0
    prefill_attention, decode_attention = _attention_flops(replica)
    return Stepper(
        replica=replica,
        weights=layer_weights(replica),
        linear_flops=2.0 * linear_parameters_per_gpu(replica),
        expert_flops=2.0 * active / expert_split(replica),
        head_flops=2.0 * architecture.vocabulary * architecture.hidden / replica.shape.tensor_parallel,
        prefill_attention_flops=prefill_attention,
        decode_attention_flops=decode_attention,
        kv_layer_bytes=kv_bytes_per_layer_token(architecture, replica.kv_precision) * kv_share(replica),
        flops=peak * efficiency.compute,
        attention_rate=attention_peak * efficiency.attention,
        memory_rate=accelerator.memory_bandwidth * efficiency.memory,
    )
