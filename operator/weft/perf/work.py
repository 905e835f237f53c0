"""What one engine step does on the busiest GPU: bytes, FLOP and messages, as seconds at the rates of the data sheet.

The amounts follow from the model, the shape and the load alone; `Efficiency` turns them into time (`steps`). Symbols: t
tensor group, a attention-DP ranks, p pipeline stages. Under pipeline parallelism a batch is cut into as many
microbatches as stages, so that a token's way through all stages takes as long as the whole model with one microbatch;
hence nothing here divides layers by stages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from weft.catalog.parameters import expert_parameters
from weft.domain.hardware import Precision
from weft.perf.attention import readings
from weft.perf.collectives import exchange_bytes_per_token
from weft.perf.memory import bytes_outside_experts, expert_split, layer_weights, linear_parameters_per_gpu

if TYPE_CHECKING:
    from weft.perf.attention import Reading
    from weft.perf.memory import WeightBytes
    from weft.perf.replica import ReplicaModel

ACTIVATION_BYTES = 2.0  # hidden states travel in 16 bits


class Work(NamedTuple):
    """One step. `*_read` and `*_math` are seconds at the data sheet's bandwidth and FLOP/s, all layers together.

    Messages: `reduces` all-reduces of `reduce_seconds` each (bytes over the link's rate, both phases), `exchanges` with
    experts, `hops` between stages. `layers`, `expert_layers`, `steps` and `sequences` count what has a fixed price.
    """

    linear_read: float
    linear_math: float
    expert_read: float
    expert_math: float
    head_read: float
    head_math: float
    attention_read: float
    attention_math: float
    reduces: float
    reduce_seconds: float
    exchanges: float
    exchange_seconds: float
    hops: float
    hop_seconds: float
    layers: float
    expert_layers: float
    steps: float
    sequences: float


class _Tokens(NamedTuple):
    """Tokens on this rank and over all ranks, in so many steps; `sequences` are those that decode."""

    rank: float
    group: float
    steps: float
    sequences: float


class _Attention(NamedTuple):
    """Seconds at the data sheet's rates."""

    read: float
    math: float


@dataclass(frozen=True, slots=True)
class Workshop:
    """Constants of one replica, so that the work of a step costs a few multiplications.

    FLOP are per token (of the whole expert group for `expert_flops`). `halves` counts mixers and feed-forward blocks,
    after each of which a tensor group adds up. `peak` is FLOP/s of the experts' precision, `outside_peak` of what is
    outside of experts, `half_peak` of 16 bits.
    """

    replica: ReplicaModel
    weights: WeightBytes
    linear_flops: float
    expert_flops: float
    head_flops: float
    readings: tuple[Reading, ...]
    halves: int
    peak: float
    outside_peak: float
    half_peak: float

    def decode(self, batch: float, context_tokens: float) -> Work:
        """A step in which each of `batch` sequences of the replica gets a token, at a mean context."""
        shape, bandwidth = self.replica.shape, self.replica.accelerator.memory_bandwidth
        group = max(1.0, batch / shape.pipeline_parallel)  # tokens of a microbatch over all data-parallel ranks
        rank = max(1.0, group / shape.data_parallel)
        read = sum(reading.decode_bytes(context_tokens) for reading in self.readings)
        math = sum(reading.decode_operations(context_tokens) for reading in self.readings)
        tokens = _Tokens(rank=rank, group=group, steps=1.0, sequences=rank)
        attention = _Attention(rank * read / bandwidth, rank * math / self.half_peak)
        return self._work(tokens, attention, rank * self.head_flops)

    def prefill(self, new_tokens: float, cached_tokens: float, steps: float) -> Work:
        """A prompt of which `cached_tokens` are known already, spread over so many steps of the engine.

        `steps` may be a fraction: the part of the steps that a prompt costs when several share each. Every
        data-parallel rank is taken to be busy with a prompt of its own, since they meet at the experts.
        """
        math = sum(reading.prefill_operations(new_tokens, cached_tokens) for reading in self.readings)
        group = new_tokens * self.replica.shape.data_parallel
        tokens = _Tokens(rank=new_tokens, group=group, steps=steps, sequences=0.0)
        return self._work(tokens, _Attention(0.0, math / self.half_peak), self.head_flops)

    def _work(self, tokens: _Tokens, attention: _Attention, head_flops: float) -> Work:
        """All of a step, its attention given."""
        rank, group, steps, sequences = tokens
        replica = self.replica
        architecture, shape, bandwidth = replica.architecture, replica.shape, replica.accelerator.memory_bandwidth
        exchanges = architecture.expert_layers if shape.data_parallel > 1 else 0
        return Work(
            linear_read=steps * self.weights.linear / bandwidth,
            linear_math=rank * self.linear_flops / self.outside_peak,
            expert_read=steps * self._expert_bytes(group / steps) / bandwidth,
            expert_math=group * self.expert_flops / self.peak,
            head_read=steps * self.weights.head / bandwidth,
            head_math=head_flops / self.half_peak,
            attention_read=attention.read,
            attention_math=attention.math,
            reduces=steps * (self.halves - exchanges) if shape.tensor_parallel > 1 else 0.0,
            reduce_seconds=self._reduce_seconds(rank / steps),
            exchanges=steps * exchanges,
            exchange_seconds=self._exchange_seconds(rank / steps) if exchanges else 0.0,
            hops=steps * (shape.pipeline_parallel - 1),
            hop_seconds=rank / steps * architecture.hidden * ACTIVATION_BYTES / replica.accelerator.network_bandwidth,
            layers=steps * architecture.layers,
            expert_layers=steps * architecture.expert_layers,
            steps=steps * shape.pipeline_parallel,
            sequences=sequences,
        )

    def _expert_bytes(self, tokens: float) -> float:
        """Bytes of the experts that a step touches: E (1 - (1 - k/E)^T) of E, for uniform routing."""
        experts = self.replica.architecture.experts
        if experts is None:
            return 0.0
        untouched: float = (1.0 - experts.per_token / experts.count) ** tokens
        return self.weights.experts * (1.0 - untouched)

    def _reduce_seconds(self, tokens: float) -> float:
        """Bytes of a two-shot all-reduce, 2 (t-1)/t M, over the link."""
        replica = self.replica
        tensor = replica.shape.tensor_parallel
        message = tokens * replica.architecture.hidden * ACTIVATION_BYTES
        return 2.0 * (tensor - 1) / tensor * message / replica.accelerator.scale_up_bandwidth

    def _exchange_seconds(self, tokens: float) -> float:
        """Bytes to and from the experts of one layer over the link; a tensor group shares the tokens."""
        replica = self.replica
        experts = replica.architecture.experts
        if experts is None:
            return 0.0
        each = exchange_bytes_per_token(replica.architecture.hidden, expert_split(replica), experts.per_token)
        return tokens / replica.shape.tensor_parallel * each / replica.accelerator.scale_up_bandwidth


def workshop(replica: ReplicaModel) -> Workshop:
    """Precompute what steps of a replica have in common. The accelerator must compute in the shape's precision."""
    architecture, accelerator, shape = replica.architecture, replica.accelerator, replica.shape
    half = accelerator.peak_flops(Precision.BF16) or accelerator.peak_flops(shape.precision) or 1.0
    peak = accelerator.peak_flops(shape.precision) or half
    outside = half if bytes_outside_experts(architecture, shape.precision) >= ACTIVATION_BYTES else peak
    experts, active = architecture.experts, 0
    if experts is not None:
        active = architecture.expert_layers * experts.per_token * expert_parameters(architecture.hidden, experts)
    return Workshop(
        replica=replica,
        weights=layer_weights(replica),
        linear_flops=2.0 * linear_parameters_per_gpu(replica),
        expert_flops=2.0 * active / expert_split(replica),
        head_flops=2.0 * architecture.vocabulary * architecture.hidden / shape.tensor_parallel,
        readings=readings(architecture, shape.tensor_parallel, replica.kv_precision.bytes_per_weight),
        halves=sum(block.count * block.halves for block in architecture.blocks),
        peak=peak,
        outside_peak=outside,
        half_peak=half,
    )
