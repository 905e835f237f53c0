"""A model's architecture as its `config.json` states it: what the performance model needs and nothing else.

A model is a stack of layers, and a layer a mixer (attention of some kind, or a recurrence) and a feed-forward block;
layers that are alike are one `Block` with a count. Hybrids have several blocks, and some have layers with one half
only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.hardware import Precision


@dataclass(frozen=True, slots=True)
class GroupedAttention:
    """Attention with `kv_heads` groups of query heads: covers MHA, GQA and MQA. Dimensions are per head.

    `window_tokens` limits the tokens that a token attends to. `gated` adds an output gate as wide as the queries; with
    `keys_are_values`, one projection gives both (the cache still holds two).
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    window_tokens: int | None = None
    gated: bool = False
    keys_are_values: bool = False


@dataclass(frozen=True, slots=True)
class TokenSelector:
    """A small attention that selects the `kept_tokens` of the context for the main one (DeepSeek V3.2)."""

    heads: int
    dim: int
    kept_tokens: int


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek): ranks and head parts, in elements. `query_rank` 0: not compressed."""

    heads: int
    query_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    selector: TokenSelector | None = None


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """A recurrence with a state of fixed size: gated delta rule (Qwen3-Next) or a state space (Mamba-2).

    The state is `value_heads` x `key_dim` x `value_dim`; `gates` are scalars per value head computed for each token.
    With `keys_replicate`, keys are copied where GPUs outnumber key heads.
    """

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    convolution: int
    gates: int
    state_bytes_per_value: float
    keys_replicate: bool = False

    @property
    def channels(self) -> int:
        """Channels of the short convolution: keys, queries and values of all heads."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


Mixer = GroupedAttention | LatentAttention | LinearAttention


@dataclass(frozen=True, slots=True)
class Dense:
    """A dense feed-forward block; gated ones have three matrices, others two."""

    width: int
    gated: bool = True


@dataclass(frozen=True, slots=True)
class Experts:
    """Mixture of experts: their number, experts per token, and width.

    `shared_width` is the total width of the shared experts, which every token uses. Routed experts work on `latent`
    elements instead of the hidden size where that is given.
    """

    count: int
    per_token: int
    width: int
    shared_width: int = 0
    gated: bool = True
    latent: int | None = None


FeedForward = Dense | Experts


@dataclass(frozen=True, slots=True)
class Block:
    """`count` equal layers. A layer may lack its mixer or its feed-forward part."""

    count: int
    mixer: Mixer | None
    feed_forward: FeedForward | None

    @property
    def halves(self) -> int:
        """The number of parts of one layer that are present, of mixer and feed-forward."""
        return (self.mixer is not None) + (self.feed_forward is not None)


@dataclass(frozen=True)
class Architecture:
    """One decoder-only transformer, as blocks. Sizes are in elements.

    `checkpoint_precision` is how the published weights are stored: pools that name no precision run in it.
    `weight_block` is the number of inputs of a weight that share one scale in the checkpoint, if any do.
    """

    model_id: str
    family: str
    hidden: int
    blocks: tuple[Block, ...]
    vocabulary: int
    max_context_tokens: int
    tied_embeddings: bool
    checkpoint_precision: Precision
    weight_block: int | None = None

    @cached_property
    def layers(self) -> int:
        """The total number of layers."""
        return sum(block.count for block in self.blocks)

    @cached_property
    def expert_layers(self) -> int:
        """The number of layers with experts."""
        return sum(block.count for block in self.blocks if isinstance(block.feed_forward, Experts))

    @cached_property
    def experts(self) -> Experts | None:
        """The experts, which are equal in every layer that has them; None in dense models."""
        found = (block.feed_forward for block in self.blocks if isinstance(block.feed_forward, Experts))
        return next(found, None)

    @cached_property
    def is_latent(self) -> bool:
        """Whether any layer uses latent attention, which caches compressed keys and values."""
        return any(isinstance(block.mixer, LatentAttention) for block in self.blocks)

    @cached_property
    def keeps_states(self) -> bool:
        """Whether any layer is a recurrence, which keeps a state for each sequence."""
        return any(isinstance(block.mixer, LinearAttention) for block in self.blocks)

    @cached_property
    def heads(self) -> int:
        """The number that TP must divide: the greatest common divisor of the heads of all mixers."""
        return math.gcd(*(_heads(block.mixer) for block in self.blocks if block.mixer is not None))

    @cached_property
    def kv_heads(self) -> tuple[int, ...]:
        """The distinct numbers of KV heads, ascending; empty where nothing is grouped."""
        grouped = (block.mixer for block in self.blocks if isinstance(block.mixer, GroupedAttention))
        return tuple(sorted({mixer.kv_heads for mixer in grouped}))


def kv_copies(mixer: Mixer | None, tensor_parallel: int) -> int:
    """How many GPUs of a tensor group hold the same KV of a layer.

    All of them in latent attention, TP / KV heads but at least one in grouped attention, and else one.
    """
    if isinstance(mixer, LatentAttention):
        return tensor_parallel
    return max(1, tensor_parallel // mixer.kv_heads) if isinstance(mixer, GroupedAttention) else 1


def _heads(mixer: Mixer) -> int:
    if not isinstance(mixer, LinearAttention):
        return mixer.heads
    return mixer.value_heads if mixer.keys_replicate else math.gcd(mixer.key_heads, mixer.value_heads)
