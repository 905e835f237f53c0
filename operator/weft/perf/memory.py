"""Memory of one GPU: weights, what the engine keeps for itself, and the KV cache in what is left. All in SI bytes.

Which weights a precision covers: linear layers and experts. Embeddings, LM head and routers keep 16 bits in every
quantised checkpoint; formats for experts only leave attention and shared parts at 16 bits too.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.catalog.parameters import dense_parameters, embedding_parameters, expert_parameters, mixer_parameters
from weft.domain.hardware import Precision
from weft.perf.attention import readings
from weft.perf.replica import draft_replica

if TYPE_CHECKING:
    from weft.domain.model import Architecture
    from weft.perf.replica import ReplicaModel

# Copies of the hidden state alive at once in a forward pass: residual, norm, queries, keys, values, output.
_ACTIVATION_COPIES = 6


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes on the fullest GPU of a replica. `room_bytes` is left for KV and is negative if the weights do not fit.

    `usable_bytes` is what the engine may use of the device; `reserve_bytes` is for activations, graphs and buffers.
    """

    weight_bytes: float
    reserve_bytes: float
    usable_bytes: float

    @property
    def room_bytes(self) -> float:
        """Bytes left for the KV cache; negative if the weights do not fit."""
        return self.usable_bytes - self.reserve_bytes - self.weight_bytes


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Weights that one GPU reads in a pass over all layers, by how a step touches them."""

    linear: float
    experts: float
    head: float


def bytes_outside_experts(architecture: Architecture, precision: Precision) -> float:
    """Bytes per weight of attention and shared parts: 16 bits where only experts are quantised (MXFP4, 4-bit MLA)."""
    four_bits = precision.bytes_per_weight < Precision.FP8.bytes_per_weight
    only_experts = precision is Precision.MXFP4 or (architecture.is_latent and four_bits)
    return Precision.BF16.bytes_per_weight if only_experts else precision.bytes_per_weight


def bytes_of_embeddings(precision: Precision) -> float:
    """Bytes per weight of embeddings and LM head, which keep 16 bits in every quantised checkpoint."""
    return max(Precision.BF16.bytes_per_weight, precision.bytes_per_weight)


def linear_parameters_per_gpu(replica: ReplicaModel) -> float:
    """Parameters that every token uses: attention, dense blocks, shared experts, routers; all layers, on one GPU.

    KV heads are replicated on GPUs that outnumber them.
    """
    architecture, tensor = replica.architecture, replica.shape.tensor_parallel
    total = 0.0
    for block in architecture.blocks:
        mixer = mixer_parameters(architecture.hidden, block.mixer)
        groups = getattr(block.mixer, "kv_heads", 1)
        attention = mixer.by_heads / tensor + mixer.by_kv_heads / min(tensor, groups) + mixer.whole
        total += block.count * (attention + dense_parameters(architecture.hidden, block.feed_forward) / tensor)
    return total


def layer_weights(replica: ReplicaModel) -> WeightBytes:
    """Bytes of all layers that one GPU of a tensor group holds, summed over pipeline stages; without the embedding."""
    architecture, precision, experts = replica.architecture, replica.shape.precision, replica.architecture.experts
    routed = 0.0
    if experts is not None:
        each = expert_parameters(architecture.hidden, experts)
        routed = architecture.expert_layers * experts.count * each / expert_split(replica)
    head = architecture.vocabulary * architecture.hidden / replica.shape.tensor_parallel
    return WeightBytes(
        linear=linear_parameters_per_gpu(replica) * bytes_outside_experts(architecture, precision),
        experts=routed * precision.bytes_per_weight,
        head=head * bytes_of_embeddings(precision),
    )


def expert_split(replica: ReplicaModel) -> int:
    """The number of GPUs over which a layer's routed experts are spread, whole (EP) or sliced (TP)."""
    return replica.shape.domain_group_gpus


def weight_bytes_per_gpu(replica: ReplicaModel) -> float:
    """Weights on the fullest GPU: the largest share of layers that a stage gets, and the embeddings."""
    architecture, shape = replica.architecture, replica.shape
    layers = layer_weights(replica)
    stage = math.ceil(architecture.layers / shape.pipeline_parallel) / architecture.layers
    embeddings = embedding_parameters(architecture) * bytes_of_embeddings(shape.precision) / shape.tensor_parallel
    if shape.pipeline_parallel > 1 and not architecture.tied_embeddings:
        embeddings /= 2  # the first stage embeds, the last one has the head
    return (layers.linear + layers.experts) * stage + embeddings


@functools.lru_cache(maxsize=4096)
def footprint(replica: ReplicaModel) -> Footprint:
    """Memory of the fullest GPU of a replica."""
    architecture, efficiency = replica.architecture, replica.efficiency
    activations = efficiency.batched_tokens * architecture.hidden * 2.0 * _ACTIVATION_COPIES
    logits = efficiency.sequences * architecture.vocabulary * 4.0 / replica.shape.tensor_parallel
    if replica.speculation is not None:
        logits *= replica.speculation.verified
    weights = weight_bytes_per_gpu(replica) + _draft_bytes_per_gpu(replica)
    untouchable = weights if efficiency.fraction_of_free else 0.0  # the fraction applies to the rest alone
    reserve = efficiency.reserve_bytes + activations + logits
    usable = untouchable + (replica.memory_bytes - untouchable) * efficiency.memory_fraction
    return Footprint(weights, reserve, min(usable, weights + reserve + most_kv_bytes(replica)))


def most_kv_bytes(replica: ReplicaModel) -> float:
    """Bytes that the KV cache may take of each GPU however much is left; infinity unless the engine is told."""
    most, tokens = replica.efficiency.kv_bytes, replica.efficiency.kv_tokens
    return most if math.isinf(tokens) else min(most, sequence_bytes_per_gpu(replica, tokens))


def _draft_bytes_per_gpu(replica: ReplicaModel) -> float:
    """Weight bytes of the draft model per GPU; with embeddings and head if they are its own."""
    speculation, draft = replica.speculation, draft_replica(replica)
    if speculation is None or speculation.draft is None or draft is None:
        return 0.0
    if speculation.draft.has_vocabulary:
        return weight_bytes_per_gpu(draft)
    layers = layer_weights(draft)
    return layers.linear + layers.experts


def kv_bytes_per_token(architecture: Architecture, kv_precision: Precision = Precision.BF16) -> float:
    """KV bytes that one more token adds while it is inside every window, over all layers, in one copy."""
    each = readings(architecture, 1, kv_precision.bytes_per_weight)
    return sum(reading.layers * (reading.token_bytes + reading.index_bytes) for reading in each)


def sequence_bytes(architecture: Architecture, kv_precision: Precision, context_tokens: float) -> float:
    """Bytes of KV and states of one sequence over all layers, in one copy, without a draft's."""
    each = readings(architecture, 1, kv_precision.bytes_per_weight)
    return sum(reading.kept_bytes(context_tokens) for reading in each)


def sequence_bytes_per_gpu(replica: ReplicaModel, context_tokens: float) -> float:
    """Bytes of KV and states of one sequence on one GPU, for the layers of its pipeline stage and of the draft."""
    shape, kv_bytes = replica.shape, replica.kv_precision.bytes_per_weight
    each = readings(replica.architecture, shape.tensor_parallel, kv_bytes, shape.decode_context_parallel)
    own = sum(reading.kept_bytes(context_tokens) for reading in each) / shape.pipeline_parallel
    draft = draft_replica(replica)
    return own if draft is None else own + sequence_bytes_per_gpu(draft, context_tokens)


def sequences_that_fit(replica: ReplicaModel, context_tokens: float) -> int:
    """Sequences of one length that the whole replica holds; each data-parallel rank keeps its own."""
    room = max(0.0, footprint(replica).room_bytes)
    return replica.shape.data_parallel * int(room / sequence_bytes_per_gpu(replica, max(1.0, context_tokens)))


def kv_tokens(replica: ReplicaModel, context_tokens: float) -> int:
    """KV room of the whole replica in tokens of sequences of one length (windows make long sequences cheaper)."""
    room = max(0.0, footprint(replica).room_bytes)
    context = max(1.0, context_tokens)
    return int(replica.shape.data_parallel * room * context / sequence_bytes_per_gpu(replica, context))
