"""What one engine step does on the busiest GPU: bytes, FLOP and messages, as seconds at the rates of the data sheet.

The amounts follow from the model, the shape and the load alone; `Efficiency` turns them into time (`steps`). Symbols: t
tensor group, a attention-DP ranks, p pipeline stages. Under pipeline parallelism a batch is cut into as many
microbatches as stages, each of which reads all weights again: a token's pass through all stages takes as long as the
whole model with one microbatch, hence nothing here divides layers by stages. `stages` adds how long tokens wait for
each other on that pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from weft.catalog.parameters import expert_parameters
from weft.domain.hardware import Precision
from weft.perf.attention import readings
from weft.perf.collectives import exchange_bytes_per_token
from weft.perf.context import NOTHING, gathering
from weft.perf.memory import bytes_outside_experts, expert_split, layer_weights, linear_parameters_per_gpu
from weft.perf.sharing import more_than, ranks_together
from weft.perf.stages import Stages, stages_of

if TYPE_CHECKING:
    from weft.domain.model import Architecture
    from weft.perf.attention import Reading
    from weft.perf.context import Gathering
    from weft.perf.replica import ReplicaModel

ACTIVATION_BYTES = 2.0  # hidden states travel in 16 bits
# How often a mixer or feed-forward half reads or writes whole hidden states, which tensor parallelism does not divide:
# both summands read, the sum and its norm written, and the norm read and written again quantised to half the size.
_PASSES = 5.5


class Work(NamedTuple):
    """One step. `*_read` and `*_math` are seconds at the data sheet's bandwidth and FLOP/s, all layers together.

    Messages: `reduces` all-reduces of `reduce_seconds` each in two shots (bytes over the link's rate, both phases) and
    `one_shot_seconds` in one, `exchanges` with experts, `hops` between stages, and `gathers` of a shared context with
    `gather_seconds` for all of them. `activation_read` are hidden states. `crowding` is how far the hottest rank of an
    expert group is above the mean, if expert loads have deviation 1. `layers`, `expert_layers`, `steps` and `sequences`
    count what has a fixed cost, and `host_steps` and `host_layers` those of them that the host may have to launch: the
    fraction `launched` of these steps has no captured graph. A pipeline has `in_flight` microbatches, and `fullest` and
    `last` are the fractions of all layers on its fullest and its last stage.
    """

    linear_read: float
    linear_math: float
    expert_read: float
    expert_math: float
    crowding: float
    head_read: float
    head_math: float
    attention_read: float
    attention_math: float
    activation_read: float
    reduces: float
    reduce_seconds: float
    one_shot_seconds: float
    exchanges: float
    exchange_seconds: float
    hops: float
    hop_seconds: float
    layers: float
    expert_layers: float
    host_steps: float
    host_layers: float
    launched: float
    steps: float
    sequences: float
    gathers: float
    gather_seconds: float
    in_flight: float
    fullest: float
    last: float


class _Tokens(NamedTuple):
    """Tokens on this rank and over all ranks in `steps` steps; `sequences` are the decoding ones.

    No captured graph holds the fraction `launched` of steps.
    """

    rank: float
    group: float
    steps: float
    sequences: float
    in_flight: float = 1.0
    launched: float = 0.0


class _Attention(NamedTuple):
    """Memory and compute time of attention, in seconds at data sheet rates."""

    read: float
    math: float


@dataclass(frozen=True, slots=True)
class Workshop:
    """What all steps of a replica have in common, so that the work of one step costs a few multiplications.

    Seconds at the data sheet's rates: `*_read` and counts of messages per step, `*_math` and `*_seconds` per token (of
    the whole expert group for `expert_math`). `expert_read` is for all experts of a layer; a token does not use the
    fraction `unrouted` of them. Graphs hold steps of up to `graph_tokens`.
    """

    readings: tuple[Reading, ...]
    bandwidth: float
    half_peak: float
    linear_read: float
    linear_math: float
    expert_read: float
    expert_math: float
    crowding: float
    unrouted: float
    head_read: float
    head_math: float
    reduces: float
    reduce_seconds: float
    one_shot_seconds: float
    exchanges: float
    exchange_seconds: float
    hop_seconds: float
    activation_read: float
    layers: float
    expert_layers: float
    ranks: float
    stages: Stages
    prompt_groups: float
    graph_tokens: float
    gathering: Gathering
    attended: dict[float, _Attention] = field(default_factory=dict, compare=False)

    def decode(self, batch: float, context_tokens: float, each: float = 1.0) -> Work:
        """A step in which each of `batch` sequences of the replica brings `each` tokens, at a mean context.

        Tensor groups that share prompts all decode the same sequences, since each keeps all KV.
        """
        count = self.stages.count
        beside = max(0.0, batch - self.ranks) / count  # the first sequence of every rank is counted apart
        group = max(1.0, min(batch, self.ranks) + beside)  # sequences of a microbatch over all data-parallel ranks
        rank = max(1.0, group / self.ranks)
        read, math = self.attended.get(context_tokens) or self._attend(context_tokens)
        tokens, in_flight = rank * each, min(count, max(1.0, batch / self.ranks))
        return self._work(_Tokens(tokens, group * each, 1.0, rank, in_flight), rank * read, tokens * math, tokens)

    @property
    def in_lockstep(self) -> bool:
        """Whether data-parallel ranks wait for each other in every step, at the experts."""
        return self.ranks > 1.0 and self.exchanges > 0.0

    def ranks_together(self, chance: float) -> float:
        """Ranks with a prompt in a step in which any has one, each with this probability; all where not in lockstep."""
        return ranks_together(chance, self.ranks) if self.in_lockstep else self.ranks

    def _attend(self, context_tokens: float) -> _Attention:
        """Attention of one sequence, cached, as a search over loads asks for one context again and again."""
        read = sum(reading.decode_bytes(context_tokens) for reading in self.readings)
        math = sum(reading.decode_operations(context_tokens) for reading in self.readings)
        self.attended[context_tokens] = _Attention(read / self.bandwidth, math / self.half_peak)
        return self.attended[context_tokens]

    def prefill(self, new_tokens: float, cached_tokens: float, steps: float, together: float | None = None) -> Work:
        """A prompt with `cached_tokens` already cached, spread over `steps` steps of the engine.

        `steps` may be a fraction: a prompt's part when several share a step. Data-parallel ranks meet at the experts:
        `together` of them (None: all) have a prompt of their own. Tensor groups that share prompts have equal parts of
        each, and of its attention to earlier tokens.
        """
        math = sum(reading.prefill_operations(new_tokens, cached_tokens) for reading in self.readings)
        own = new_tokens / self.prompt_groups
        tokens = _Tokens(own, new_tokens * (together or self.ranks), steps, 0.0, launched=self._launched(own, steps))
        work = self._work(tokens, 0.0, math / self.prompt_groups / self.half_peak, 1.0)
        if self.gathering is NOTHING:
            return work
        gathers = self.gathering.of_prompt(new_tokens, cached_tokens, steps)
        return work._replace(gathers=gathers.collectives, gather_seconds=gathers.seconds)

    def _launched(self, tokens: float, steps: float) -> float:
        """The fraction of steps that no graph holds: of those that prompts share at random, those with too many."""
        if tokens > self.graph_tokens or steps >= 1.0:
            return float(tokens > steps * self.graph_tokens)
        return more_than(math.floor(self.graph_tokens / tokens), 1.0 / steps)

    def _work(self, tokens: _Tokens, attention_read: float, attention_math: float, sampled: float) -> Work:
        """The work of a step from its tokens, its attention times and the number of sampled tokens."""
        rank, group, steps, sequences, in_flight, launched = tokens
        stages = self.stages
        each, gathers = rank / steps, self.gathering.decode
        touched = 1.0 - self.unrouted ** (group / steps)  # E (1 - (1 - k/E)^T) of E, for uniform routing
        return Work(
            linear_read=steps * self.linear_read,
            linear_math=rank * self.linear_math,
            expert_read=steps * touched * self.expert_read,
            expert_math=group * self.expert_math,
            crowding=self.crowding,
            head_read=steps * self.head_read,
            head_math=sampled * self.head_math,
            attention_read=attention_read,
            attention_math=attention_math,
            reduces=steps * self.reduces,
            activation_read=rank * self.activation_read,
            reduce_seconds=each * self.reduce_seconds,
            one_shot_seconds=each * self.one_shot_seconds,
            exchanges=steps * self.exchanges,
            exchange_seconds=each * self.exchange_seconds,
            hops=steps * (stages.count - 1.0),
            hop_seconds=each * self.hop_seconds,
            layers=steps * self.layers,
            expert_layers=steps * self.expert_layers,
            host_steps=steps if launched else 0.0,
            host_layers=steps * self.layers if launched else 0.0,
            launched=launched,
            steps=steps * stages.count,
            sequences=sequences,
            gathers=steps * gathers.collectives,
            gather_seconds=rank * gathers.seconds,
            in_flight=in_flight,
            fullest=stages.fullest,
            last=stages.last,
        )


def workshop(replica: ReplicaModel) -> Workshop:
    """Precompute what steps of a replica have in common. The accelerator must compute in the shape's precision."""
    architecture, accelerator, shape = replica.architecture, replica.accelerator, replica.shape
    half = accelerator.peak_flops(Precision.BF16) or accelerator.peak_flops(shape.precision) or 1.0
    peak = accelerator.peak_flops(shape.precision) or half
    outside = half if bytes_outside_experts(architecture, shape.precision) >= ACTIVATION_BYTES else peak
    weights, bandwidth = layer_weights(replica), accelerator.memory_bandwidth
    tensor = shape.tensor_parallel
    exchanges = architecture.expert_layers if shape.domain_group_gpus > tensor else 0
    halves = sum(block.count * block.halves for block in architecture.blocks)
    message = architecture.hidden * ACTIVATION_BYTES
    return Workshop(
        readings=readings(architecture, tensor, replica.kv_precision.bytes_per_weight, shape.decode_context_parallel),
        bandwidth=bandwidth,
        half_peak=half,
        linear_read=weights.linear / bandwidth,
        linear_math=2.0 * linear_parameters_per_gpu(replica) / outside,
        expert_read=weights.experts / bandwidth,
        expert_math=_expert_flops(replica) / peak,
        crowding=crowding(architecture, shape.expert_parallel),
        unrouted=_unrouted(architecture),
        head_read=weights.head / bandwidth,
        head_math=2.0 * architecture.vocabulary * architecture.hidden / tensor / half,
        reduces=float(halves - exchanges) if tensor > 1 else 0.0,
        reduce_seconds=2.0 * (tensor - 1) / tensor * message / accelerator.link_bandwidth(tensor),  # both shots
        one_shot_seconds=(tensor - 1) * message / accelerator.link_bandwidth(tensor),
        exchanges=float(exchanges),
        exchange_seconds=_exchange_seconds(replica) if exchanges else 0.0,
        hop_seconds=message / accelerator.network_bandwidth,
        activation_read=_PASSES * halves * message / bandwidth,
        layers=float(architecture.layers),
        expert_layers=float(architecture.expert_layers),
        ranks=float(shape.data_parallel),
        stages=stages_of(architecture, shape),
        prompt_groups=float(shape.prefill_context_parallel),
        graph_tokens=_graph_tokens(replica),
        gathering=gathering(replica),
    )


def _graph_tokens(replica: ReplicaModel) -> float:
    """Tokens of the largest step with a captured graph: that of all sequences, some times over, within a limit."""
    reached, speculation = replica.efficiency, replica.speculation
    decoded = reached.sequences * (1.0 if speculation is None else speculation.verified)
    return min(reached.graph_tokens, reached.graph_sequences * decoded)


def _expert_flops(replica: ReplicaModel) -> float:
    """Expert FLOP of one token of the expert group, on one GPU."""
    architecture, experts = replica.architecture, replica.architecture.experts
    if experts is None:
        return 0.0
    active = architecture.expert_layers * experts.per_token * expert_parameters(architecture.hidden, experts)
    return 2.0 * active / expert_split(replica)


def _unrouted(architecture: Architecture) -> float:
    experts = architecture.experts
    return 1.0 - experts.per_token / experts.count if experts is not None else 1.0


def crowding(architecture: Architecture, ranks: int) -> float:
    """Excess tokens of the most loaded rank over the mean, as a fraction of it, if expert loads have deviation 1.

    The mean of m = E/e loads has deviation 1/sqrt(m), and the largest of e such means lies sqrt(2 ln e) deviations out.
    """
    experts = architecture.experts
    return math.sqrt(2.0 * math.log(ranks) * ranks / experts.count) if experts is not None else 0.0


def _exchange_seconds(replica: ReplicaModel) -> float:
    """Seconds per token to and from one layer's experts over the link; a tensor group shares the tokens."""
    experts = replica.architecture.experts
    if experts is None:
        return 0.0
    each = exchange_bytes_per_token(replica.architecture.hidden, expert_split(replica), experts.per_token)
    shape = replica.shape
    return each / shape.tensor_parallel / replica.accelerator.link_bandwidth(shape.domain_group_gpus)
