"""The drafter of speculative decoding, as an architecture of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from weft.domain.model import Block, Dense, GroupedAttention, LatentAttention

if TYPE_CHECKING:
    from weft.domain.hardware import Precision
    from weft.domain.model import Architecture, FeedForward, Mixer

# A published EAGLE-3 layer is Llama's, whatever attention the model has.
_LLAMA_HEAD_DIM = 128
_LLAMA_KV_HEADS = 8


class Drafter(StrEnum):
    """What drafts the tokens."""

    Nothing = "Nothing"
    Layer = "Layer"
    DenseLayer = "DenseLayer"
    Model = "Model"


@dataclass(frozen=True, slots=True)
class DraftingMethod:
    """One method of `speculation.yaml`, which explains the fields."""

    acceptance: float
    drafter: Drafter
    precision: Precision | None = None
    vocabulary: int | None = None
    part: float = 1.0
    families: tuple[str, ...] = ()

    def works_for(self, architecture: Architecture) -> bool:
        """Whether models of this family have what the method needs."""
        return not self.families or architecture.family in self.families


def drafting_layer(architecture: Architecture) -> Architecture:
    """One more layer like the model's last one, with the model's own embeddings and head (MTP)."""
    return replace(architecture, blocks=(Block(1, _last_attention(architecture), _last_feed_forward(architecture)),))


def dense_drafting_layer(architecture: Architecture, vocabulary: int | None) -> Architecture:
    """One layer of grouped attention, with as many dense parameters as a token activates, and a head (EAGLE-3)."""
    block = Block(1, _grouped(_last_attention(architecture)), _dense(_last_feed_forward(architecture)))
    size = min(vocabulary or architecture.vocabulary, architecture.vocabulary)
    return replace(architecture, blocks=(block,), vocabulary=size, tied_embeddings=True)


def drafting_part(architecture: Architecture, part: float) -> Architecture:
    """The model with a fraction of the layers of each kind, at least one: the assumption for an unknown draft model."""
    blocks = tuple(replace(block, count=math.ceil(block.count * part)) for block in architecture.blocks)
    return replace(architecture, blocks=blocks)


def _last_attention(architecture: Architecture) -> Mixer | None:
    """The last attention of the model: a drafting layer has attention even if the model mixes it with recurrences."""
    mixers = [block.mixer for block in architecture.blocks if block.mixer is not None]
    attention = [mixer for mixer in mixers if isinstance(mixer, GroupedAttention | LatentAttention)]
    return (attention or mixers or [None])[-1]


def _last_feed_forward(architecture: Architecture) -> FeedForward | None:
    return next((block.feed_forward for block in reversed(architecture.blocks) if block.feed_forward), None)


def _grouped(mixer: Mixer | None) -> Mixer | None:
    if not isinstance(mixer, LatentAttention):
        return mixer
    return GroupedAttention(mixer.heads, _LLAMA_KV_HEADS, _LLAMA_HEAD_DIM, _LLAMA_HEAD_DIM)


def _dense(feed_forward: FeedForward | None) -> FeedForward | None:
    if feed_forward is None or isinstance(feed_forward, Dense):
        return feed_forward
    return Dense(feed_forward.per_token * feed_forward.width + feed_forward.shared_width, feed_forward.gated)
