"""How many parameters an architecture has, block by block; memory and FLOPs are both built on these counts.

Biases and norms of attention are left out: they are far below a thousandth of any model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.model import Architecture


def query_parameters(architecture: Architecture) -> int:
    """Attention parameters of a layer that query heads split: queries and output, and both expansions under MLA."""
    hidden, heads = architecture.hidden, architecture.heads
    latent = architecture.latent
    if latent is None:
        return 2 * hidden * heads * architecture.head_dim
    query_in = latent.query_rank or hidden
    queries = query_in * heads * (latent.nope_dim + latent.rope_dim)
    expansions = latent.kv_rank * heads * (latent.nope_dim + latent.value_dim)
    return queries + expansions + heads * latent.value_dim * hidden


def key_value_parameters(architecture: Architecture) -> int:
    """Attention parameters of a layer that KV heads split: keys and values. Under MLA nothing splits them."""
    latent = architecture.latent
    if latent is None:
        return 2 * architecture.hidden * architecture.kv_heads * architecture.head_dim
    return architecture.hidden * (latent.query_rank + latent.kv_rank + latent.rope_dim)


def feed_forward_parameters(architecture: Architecture) -> int:
    """One dense gated feed-forward block."""
    return 3 * architecture.hidden * architecture.ffn_width


def expert_parameters(architecture: Architecture) -> int:
    """One routed or shared expert; 0 without experts."""
    return 3 * architecture.hidden * architecture.experts.width if architecture.experts else 0


def router_parameters(architecture: Architecture) -> int:
    """The gate of one layer with experts."""
    return architecture.hidden * architecture.experts.count if architecture.experts else 0


def embedding_parameters(architecture: Architecture) -> int:
    """Token embedding and LM head; one matrix when they are tied."""
    return architecture.vocabulary * architecture.hidden * (1 if architecture.tied_embeddings else 2)


def parameter_count(architecture: Architecture) -> int:
    """All parameters of the language model, within a fraction of a percent."""
    attention = query_parameters(architecture) + key_value_parameters(architecture)
    total = architecture.layers * attention + architecture.dense_layers * feed_forward_parameters(architecture)
    total += embedding_parameters(architecture)
    experts = architecture.experts
    if experts is None:
        return total
    per_layer = (experts.count + experts.shared) * expert_parameters(architecture) + router_parameters(architecture)
    return total + experts.layers * per_layer
