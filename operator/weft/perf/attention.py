"""What attention and recurrences store and read: KV cache, selected tokens and states, per GPU of a tensor group.

Formulas: a token of context costs 2 x d per KV head in grouped attention, rank + rope in latent attention (whole on
every GPU, unless several share a context), and nothing in a recurrence, whose state has a fixed size. A window caps
what is kept and looked at; a token selector caps what is looked at, keeps everything, and reads one small key per token
of context (DeepSeek V3.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.model import GroupedAttention, LatentAttention, kv_copies

if TYPE_CHECKING:
    from weft.domain.model import Architecture, LinearAttention, Mixer, TokenSelector

_INDEX_KEY_BYTES = 1.0 + 4.0 / 128.0  # FP8, and a 32-bit scale for 128 values
_CONVOLUTION_BYTES = 2.0
_STATE_FLOPS = 6.0  # per value of the state and token: decay, write, read
_WITHIN_CHUNK = 64.0  # prefill of a recurrence works in chunks: half of one is looked at like attention


@dataclass(frozen=True, slots=True)
class Reading:
    """One kind of mixer on one GPU. FLOP are per query token and token looked at, in one layer; bytes per layer.

    `kept_at_most` and `seen_at_most` are tokens of context. `index_*` are a selector's, which sees all of it.
    """

    layers: int
    kept_at_most: float
    seen_at_most: float
    token_bytes: float
    prefill_flops: float
    decode_flops: float
    index_bytes: float = 0.0
    index_flops: float = 0.0
    state_bytes: float = 0.0
    state_flops: float = 0.0

    def kept_bytes(self, context: float) -> float:
        """KV of a sequence in all layers of this kind."""
        kept = min(context, self.kept_at_most)
        return self.layers * (kept * (self.token_bytes + self.index_bytes) + self.state_bytes)

    def decode_bytes(self, context: float) -> float:
        """Bytes read, and of a recurrent state also written, to add a token to a sequence."""
        seen = min(context, self.seen_at_most)
        return self.layers * (seen * self.token_bytes + context * self.index_bytes + 2.0 * self.state_bytes)

    def decode_operations(self, context: float) -> float:
        """FLOP to add a token to a sequence."""
        seen = min(context, self.seen_at_most)
        return self.layers * (seen * self.decode_flops + context * self.index_flops + self.state_flops)

    def prefill_operations(self, new: float, cached: float) -> float:
        """FLOP to prefill `new` tokens after `cached` ones."""
        seen = looked_at(new, cached, self.seen_at_most) * self.prefill_flops
        index = looked_at(new, cached, math.inf) * self.index_flops if self.index_flops else 0.0
        return self.layers * (seen + index + new * self.state_flops)


def looked_at(new: float, cached: float, at_most: float) -> float:
    """Sum over new tokens of the tokens each looks at: n c + n^2/2, none more than `at_most`."""
    growing = min(new, max(0.0, at_most - cached))
    steady = new - growing
    return growing * cached + growing * growing / 2.0 + (steady * at_most if steady > 0 else 0.0)


def readings(
    architecture: Architecture, tensor_parallel: int, kv_bytes: float, decode_context: int = 1
) -> tuple[Reading, ...]:
    """The costs of every kind of mixer of a model; `kv_bytes` is the size of one value in the KV cache.

    `decode_context` GPUs share KV of which each would otherwise hold a copy, as far as there are copies.
    """
    layers: dict[Mixer, int] = {}
    for block in architecture.blocks:
        if block.mixer is not None:
            layers[block.mixer] = layers.get(block.mixer, 0) + block.count
    return tuple(_reading(mixer, count, tensor_parallel, kv_bytes, decode_context) for mixer, count in layers.items())


def _reading(mixer: Mixer, layers: int, tensor: int, kv_bytes: float, decode_context: int) -> Reading:
    """Shared KV is spread over GPUs. FLOP do not change: each GPU processes its part of the context for all heads."""
    among = min(decode_context, kv_copies(mixer, tensor))
    if isinstance(mixer, GroupedAttention):
        return _grouped(mixer, layers, tensor, kv_bytes / among)
    if isinstance(mixer, LatentAttention):
        return _latent(mixer, layers, tensor, kv_bytes, among)
    return _linear(mixer, layers, tensor)


def _grouped(mixer: GroupedAttention, layers: int, tensor: int, kv_bytes: float) -> Reading:
    """Where GPUs outnumber KV heads, these are replicated. 2 H (d + v) FLOP per pair of tokens."""
    window = math.inf if mixer.window_tokens is None else float(mixer.window_tokens)
    pair = mixer.head_dim + mixer.value_dim
    flops = 2.0 * mixer.heads / tensor * pair
    token_bytes = max(1.0, mixer.kv_heads / tensor) * pair * kv_bytes
    return Reading(layers, window, window, token_bytes, flops, flops)


def _latent(mixer: LatentAttention, layers: int, tensor: int, kv_bytes: float, among: int) -> Reading:
    """FLOP per pair of tokens: 2 H (nope + rope + v) in prefill, 2 H (2 rank + rope), absorbed, in decode."""
    heads = mixer.heads / tensor
    selector = mixer.selector
    return Reading(
        layers=layers,
        kept_at_most=math.inf,
        seen_at_most=math.inf if selector is None else float(selector.kept_tokens),
        token_bytes=(mixer.kv_rank + mixer.rope_dim) * kv_bytes / among,
        prefill_flops=2.0 * heads * (mixer.nope_dim + mixer.rope_dim + mixer.value_dim),
        decode_flops=2.0 * heads * (2 * mixer.kv_rank + mixer.rope_dim),
        index_bytes=_index_bytes(selector) / among,
        index_flops=2.0 * selector.heads * selector.dim if selector else 0.0,  # the indexer is replicated on every GPU
    )


def _index_bytes(selector: TokenSelector | None) -> float:
    return selector.dim * _INDEX_KEY_BYTES if selector else 0.0


def _linear(mixer: LinearAttention, layers: int, tensor: int) -> Reading:
    values = mixer.value_heads * mixer.key_dim * mixer.value_dim / tensor
    convolution = mixer.channels * (mixer.convolution - 1) * _CONVOLUTION_BYTES / tensor
    within = 2.0 * mixer.value_heads / tensor * (mixer.key_dim + mixer.value_dim) * _WITHIN_CHUNK / 2.0
    return Reading(
        layers=layers,
        kept_at_most=0.0,
        seen_at_most=0.0,
        token_bytes=0.0,
        prefill_flops=0.0,
        decode_flops=0.0,
        state_bytes=values * mixer.state_bytes_per_value + convolution,
        state_flops=_STATE_FLOPS * values + within,
    )
