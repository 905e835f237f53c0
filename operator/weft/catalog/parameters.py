"""Parameter counts per layer, by how tensor parallelism splits them; memory and FLOPs are built on these.

Norms and biases are left out: they are far below a thousandth of any model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.model import Dense, GroupedAttention, LatentAttention, LinearAttention

if TYPE_CHECKING:
    from weft.domain.model import Architecture, Experts, FeedForward, Mixer


@dataclass(frozen=True, slots=True)
class MixerParameters:
    """Parameters of one mixer: split by query heads, split by KV heads, and replicated on every GPU."""

    by_heads: int
    by_kv_heads: int = 0
    whole: int = 0

    @property
    def total(self) -> int:
        """All parameters, each counted once."""
        return self.by_heads + self.by_kv_heads + self.whole


def mixer_parameters(hidden: int, mixer: Mixer | None) -> MixerParameters:
    """Parameters of the attention or recurrence of one layer."""
    if mixer is None:
        return MixerParameters(0)
    if isinstance(mixer, GroupedAttention):
        return _grouped(hidden, mixer)
    return _latent(hidden, mixer) if isinstance(mixer, LatentAttention) else _linear(hidden, mixer)


def _grouped(hidden: int, mixer: GroupedAttention) -> MixerParameters:
    query = mixer.heads * mixer.head_dim * (2 if mixer.gated else 1)
    key_value = mixer.kv_heads * (mixer.head_dim + (0 if mixer.keys_are_values else mixer.value_dim))
    return MixerParameters(hidden * (query + mixer.heads * mixer.value_dim), hidden * key_value)


def _latent(hidden: int, mixer: LatentAttention) -> MixerParameters:
    """Queries, output and both expansions of the latent split by heads; the compression is replicated on every GPU."""
    queries = (mixer.query_rank or hidden) * mixer.heads * (mixer.nope_dim + mixer.rope_dim)
    expansions = mixer.kv_rank * mixer.heads * (mixer.nope_dim + mixer.value_dim)
    whole = hidden * (mixer.query_rank + mixer.kv_rank + mixer.rope_dim)
    if mixer.selector is not None:
        selector = mixer.selector
        whole += (mixer.query_rank or hidden) * selector.heads * selector.dim + hidden * (selector.dim + selector.heads)
    return MixerParameters(queries + expansions + mixer.heads * mixer.value_dim * hidden, whole=whole)


def _linear(hidden: int, mixer: LinearAttention) -> MixerParameters:
    values = mixer.value_heads * mixer.value_dim  # computed, gated, and projected back
    keys = 2 * mixer.key_heads * mixer.key_dim
    scalars = mixer.gates * mixer.value_heads
    return MixerParameters(hidden * (3 * values + keys + scalars) + mixer.channels * mixer.convolution)


def split_widths(architecture: Architecture) -> tuple[int, ...]:
    """Input widths of matrices that tensor parallelism splits by input: outputs of mixers, and of dense blocks."""
    mixers = {_mixed(block.mixer) for block in architecture.blocks if block.mixer is not None}
    dense = {block.feed_forward.width for block in architecture.blocks if isinstance(block.feed_forward, Dense)}
    return tuple(sorted(mixers | dense))


def _mixed(mixer: Mixer) -> int:
    """The width of all heads' values."""
    heads = mixer.value_heads if isinstance(mixer, LinearAttention) else mixer.heads
    return heads * mixer.value_dim


def dense_parameters(hidden: int, feed_forward: FeedForward | None) -> int:
    """Parameters of a feed-forward block that every token uses: dense, or shared experts, router, projections."""
    if feed_forward is None:
        return 0
    matrices = 3 if feed_forward.gated else 2
    if isinstance(feed_forward, Dense):
        return matrices * hidden * feed_forward.width
    latent = 2 * hidden * feed_forward.latent if feed_forward.latent else 0
    return matrices * hidden * feed_forward.shared_width + hidden * feed_forward.count + latent


def expert_parameters(hidden: int, experts: Experts) -> int:
    """Parameters of one routed expert."""
    return (3 if experts.gated else 2) * (experts.latent or hidden) * experts.width


def embedding_parameters(architecture: Architecture) -> int:
    """Parameters of the token embedding and LM head; one matrix if they are tied."""
    return architecture.vocabulary * architecture.hidden * (1 if architecture.tied_embeddings else 2)


def parameter_count(architecture: Architecture) -> int:
    """All parameters of the language model, within a fraction of a percent."""
    hidden, experts = architecture.hidden, architecture.experts
    routed = architecture.expert_layers * experts.count * expert_parameters(hidden, experts) if experts else 0
    met_by_every_token = sum(
        block.count * (mixer_parameters(hidden, block.mixer).total + dense_parameters(hidden, block.feed_forward))
        for block in architecture.blocks
    )
    return routed + embedding_parameters(architecture) + met_by_every_token
