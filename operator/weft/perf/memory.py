"""Memory of one GPU: weights, what the engine keeps for itself, and the KV cache in what is left. All in SI bytes.

Formulas: KV per token 2 x L x Hkv x d x kb for grouped heads, which stops dividing once every GPU holds one KV head;
under latent attention L x (rank + rope) x kb on every rank of a tensor group. A window caps the tokens that its layers
keep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.catalog.parameters import (
    embedding_parameters,
    expert_parameters,
    feed_forward_parameters,
    key_value_parameters,
    query_parameters,
    router_parameters,
)
from weft.domain.hardware import Precision

if TYPE_CHECKING:
    from weft.domain.model import Architecture
    from weft.perf.replica import ReplicaModel

_ACTIVATION_COPIES = (
    6  # of the hidden state that live at once in a forward pass: residual, norm, queries, keys, values, output
)


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
        """What the KV cache gets."""
        return self.usable_bytes - self.reserve_bytes - self.weight_bytes


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Weights that one GPU reads in a pass over all layers, by how a step touches them."""

    linear: float
    experts: float
    head: float


def bytes_outside_experts(precision: Precision) -> float:
    """Attention keeps 16 bits in MXFP4 checkpoints (only experts are converted)."""
    return Precision.BF16.bytes_per_weight if precision is Precision.MXFP4 else precision.bytes_per_weight


def bytes_of_embeddings(precision: Precision) -> float:
    """Embeddings and LM head keep 16 bits in every quantised checkpoint."""
    return max(Precision.BF16.bytes_per_weight, precision.bytes_per_weight if precision is Precision.FP32 else 0.0)


def linear_parameters_per_gpu(replica: ReplicaModel) -> float:
    """Parameters that every token meets: attention, dense blocks, shared experts, routers; all layers, on one GPU."""
    architecture, tensor = replica.architecture, replica.shape.tensor_parallel
    kv_split = 1 if architecture.latent else min(tensor, architecture.kv_heads)
    attention = query_parameters(architecture) / tensor + key_value_parameters(architecture) / kv_split
    dense = architecture.dense_layers * feed_forward_parameters(architecture) / tensor
    if architecture.experts is None:
        return architecture.layers * attention + dense
    shared = architecture.experts.shared * expert_parameters(architecture) / tensor
    mixture = architecture.experts.layers * (shared + router_parameters(architecture))
    return architecture.layers * attention + dense + mixture


def layer_weights(replica: ReplicaModel) -> WeightBytes:
    """Bytes of all layers that one GPU of a tensor group holds, summed over pipeline stages; without the embedding."""
    architecture, shape, experts = replica.architecture, replica.shape, replica.architecture.experts
    routed = (
        experts.layers * experts.count * expert_parameters(architecture) / expert_split(replica) if experts else 0.0
    )
    return WeightBytes(
        linear=linear_parameters_per_gpu(replica) * bytes_outside_experts(shape.precision),
        experts=routed * shape.precision.bytes_per_weight,
        head=architecture.vocabulary
        * architecture.hidden
        * bytes_of_embeddings(shape.precision)
        / shape.tensor_parallel,
    )


def expert_split(replica: ReplicaModel) -> int:
    """Over how many GPUs the routed experts of a layer are spread, whole (expert parallel) or cut (tensor parallel)."""
    return replica.shape.tensor_parallel * replica.shape.data_parallel


def weight_bytes_per_gpu(replica: ReplicaModel) -> float:
    """Weights on the fullest GPU: the largest share of layers that a stage gets, and the embeddings."""
    architecture, shape = replica.architecture, replica.shape
    layers = layer_weights(replica)
    stage = math.ceil(architecture.layers / shape.pipeline_parallel) / architecture.layers
    embeddings = embedding_parameters(architecture) * bytes_of_embeddings(shape.precision) / shape.tensor_parallel
    if shape.pipeline_parallel > 1 and not architecture.tied_embeddings:
        embeddings /= 2  # the first stage embeds, the last one has the head
    return (layers.linear + layers.experts) * stage + embeddings


def footprint(replica: ReplicaModel) -> Footprint:
    """Memory of the fullest GPU of a replica."""
    architecture, efficiency = replica.architecture, replica.efficiency
    activations = efficiency.batched_tokens * architecture.hidden * 2.0 * _ACTIVATION_COPIES
    logits = efficiency.sequences * architecture.vocabulary * 4.0 / replica.shape.tensor_parallel
    return Footprint(
        weight_bytes=weight_bytes_per_gpu(replica),
        reserve_bytes=efficiency.reserve_bytes + activations + logits,
        usable_bytes=replica.memory_bytes * efficiency.memory_fraction,
    )


def kv_bytes_per_layer_token(architecture: Architecture, kv_precision: Precision) -> float:
    """KV of one token in one layer, one copy of it."""
    width = kv_precision.bytes_per_weight
    if architecture.latent:
        return (architecture.latent.kv_rank + architecture.latent.rope_dim) * width
    return 2.0 * architecture.kv_heads * architecture.head_dim * width


def kv_bytes_per_token(architecture: Architecture, kv_precision: Precision = Precision.BF16) -> float:
    """KV that one more token adds while it is inside every window, all layers, one copy."""
    return architecture.layers * kv_bytes_per_layer_token(architecture, kv_precision)


def kv_share(replica: ReplicaModel) -> float:
    """Part of one layer's KV that one GPU of a tensor group holds."""
    architecture = replica.architecture
    return 1.0 if architecture.latent else 1.0 / min(replica.shape.tensor_parallel, architecture.kv_heads)


def kept_layer_tokens(architecture: Architecture, context_tokens: float) -> float:
    """Tokens kept over all layers at a context: whole where attention is full, at most the window elsewhere."""
    window = architecture.window_tokens or 0
    full = (architecture.layers - architecture.window_layers) * context_tokens
    return full + architecture.window_layers * min(context_tokens, window)


def sequence_bytes_per_gpu(replica: ReplicaModel, context_tokens: float) -> float:
    """KV of one sequence on one GPU, with the layers of its pipeline stage."""
    per_token = kv_bytes_per_layer_token(replica.architecture, replica.kv_precision) * kv_share(replica)
    return kept_layer_tokens(replica.architecture, context_tokens) * per_token / replica.shape.pipeline_parallel


def sequences_that_fit(replica: ReplicaModel, context_tokens: float) -> int:
    """Sequences of one length that the whole replica holds; each data-parallel rank keeps its own."""
    room = max(0.0, footprint(replica).room_bytes)
    return replica.shape.data_parallel * int(room / sequence_bytes_per_gpu(replica, max(1.0, context_tokens)))


def kv_tokens(replica: ReplicaModel, context_tokens: float) -> int:
    """KV room of the whole replica in tokens of sequences of one length (windows make long sequences cheaper)."""
    room = max(0.0, footprint(replica).room_bytes)
    context = max(1.0, context_tokens)
    return int(replica.shape.data_parallel * room * context / sequence_bytes_per_gpu(replica, context))
