"""A model's architecture as its `config.json` states it: what the performance model needs and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.hardware import Precision


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek): ranks and head parts, in elements."""

    query_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class Experts:
    """Mixture of experts: how many, how many answer a token, how wide, how many layers have them."""

    count: int
    per_token: int
    width: int
    shared: int
    layers: int


@dataclass(frozen=True, slots=True)
class Architecture:
    """One decoder-only transformer. Sizes are in elements; `window_tokens` caps the context of `window_layers` layers.

    `checkpoint_precision` is how the published weights are stored: a pool that names no precision runs it.
    """

    model_id: str
    family: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_width: int
    vocabulary: int
    max_context_tokens: int
    tied_embeddings: bool
    checkpoint_precision: Precision
    latent: LatentAttention | None = None
    experts: Experts | None = None
    window_tokens: int | None = None
    window_layers: int = 0

    @property
    def dense_layers(self) -> int:
        """Layers with an ordinary feed-forward block."""
        return self.layers - (self.experts.layers if self.experts else 0)
