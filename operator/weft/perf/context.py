"""What context parallelism sends between the GPUs that share a context: bytes over the link, and collectives.

Decode (DCP, c GPUs of a tensor group of t): each GPU keeps every c-th token. The queries of c GPUs' heads are gathered,
each GPU attends with all of them to its own tokens, the sums of weights (log-sum-exp) are gathered, and the partial
outputs reduced and scattered: three collectives a layer (vLLM's `ag_rs`) and as many FLOP as before. A GPU receives
(c - 1) H/t (query + output) values and (c - 1) c H/t sums per token. A prompt in several steps, or behind a cached
prefix, gathers the KV that its earlier tokens left on others, (c - 1)/c of it.

Prefill (PCP, p tensor groups): each has 1/p of a prompt's tokens, cut so that all look at equally many, and gathers the
KV of the others in every layer, (p - 1)/p of what the prompt keeps on a GPU; attention and matmuls shrink by p. Nothing
of a KV cache that is there already has to move, since each group keeps all of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weft.domain.model import GroupedAttention, LatentAttention, kv_copies
from weft.perf.attention import readings

if TYPE_CHECKING:
    from weft.perf.replica import ReplicaModel

_VALUE_BYTES = 2.0  # queries and partial outputs travel in 16 bits
_SUM_BYTES = 4.0  # log-sum-exp in 32
_COLLECTIVES = 3.0  # gather queries, gather sums, reduce and scatter outputs


class Gathers(NamedTuple):
    """Collectives, and the seconds that their bytes take at the link's rate."""

    collectives: float
    seconds: float


NO_GATHERS = Gathers(0.0, 0.0)


class Gathering(NamedTuple):
    """What all layers gather, as collectives per step and seconds per token, by kind of token.

    `decode` is for decoding tokens, `earlier` for cached ones and those of earlier steps, `new` for those of this step.
    """

    decode: Gathers
    earlier: Gathers
    new: Gathers

    def of_prompt(self, new_tokens: float, cached_tokens: float, steps: float) -> Gathers:
        """What a prompt gathers in so many steps: step n reads the cached tokens and those of the n - 1 before it."""
        looks = max(1.0, steps)
        earlier = looks * cached_tokens + (looks - 1.0) / 2.0 * new_tokens
        back = self.earlier if earlier > 0 else NO_GATHERS
        seconds = new_tokens * self.new.seconds + earlier * back.seconds
        return Gathers(steps * (self.new.collectives + back.collectives), seconds)


NOTHING = Gathering(NO_GATHERS, NO_GATHERS, NO_GATHERS)


def gathering(replica: ReplicaModel) -> Gathering:
    """What a replica gathers per step and token; `NOTHING` where no context is shared."""
    shape = replica.shape
    link = replica.accelerator.link_bandwidth(shape.domain_group_gpus)
    prompts = shape.prefill_context_parallel
    if shape.decode_context_parallel == prompts == 1:
        return NOTHING
    sharing = _sharing(replica)
    layers = float(sum(layers for _, layers, _ in sharing))
    sent = sum(layers * _sent_bytes(mixer, among, shape.tensor_parallel) for mixer, layers, among in sharing)
    whole = _kept_bytes(replica, 1)
    return Gathering(
        decode=Gathers(_COLLECTIVES * layers, sent / link),
        earlier=Gathers(layers, (whole - _kept_bytes(replica, shape.decode_context_parallel)) / link),
        new=Gathers(_layers_with_kv(replica), whole * (prompts - 1) / prompts / link) if prompts > 1 else NO_GATHERS,
    )


def _sharing(replica: ReplicaModel) -> list[tuple[GroupedAttention | LatentAttention, int, int]]:
    """Mixers whose KV several GPUs share: (mixer, number of layers, number of GPUs that share)."""
    shape = replica.shape
    found = [
        (block.mixer, block.count, min(shape.decode_context_parallel, kv_copies(block.mixer, shape.tensor_parallel)))
        for block in replica.architecture.blocks
        if isinstance(block.mixer, GroupedAttention | LatentAttention)
    ]
    return [(mixer, layers, among) for mixer, layers, among in found if among > 1]


def _sent_bytes(mixer: GroupedAttention | LatentAttention, among: int, tensor: int) -> float:
    """Bytes received per decoding token and layer: queries and partial outputs of the other GPUs, and all sums."""
    if isinstance(mixer, LatentAttention):
        values = 2 * mixer.kv_rank + mixer.rope_dim  # queries as the latent sees them, and outputs before expansion
    else:
        values = mixer.head_dim + mixer.value_dim
    heads = mixer.heads / tensor
    return (among - 1) * heads * (values * _VALUE_BYTES + among * _SUM_BYTES)


def _kept_bytes(replica: ReplicaModel, among: int) -> float:
    """KV bytes of a token on one GPU, over all layers, where `among` GPUs share a context."""
    architecture, tensor = replica.architecture, replica.shape.tensor_parallel
    each = readings(architecture, tensor, replica.kv_precision.bytes_per_weight, among)
    return sum(reading.layers * (reading.token_bytes + reading.index_bytes) for reading in each)


def _layers_with_kv(replica: ReplicaModel) -> float:
    blocks = replica.architecture.blocks
    return float(sum(each.count for each in blocks if isinstance(each.mixer, GroupedAttention | LatentAttention)))
