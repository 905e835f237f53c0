"""Models whose layers are no plain stack: Nemotron-H's pattern of single halves, pruned Llamas, LongCat's pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.catalog.feed_forwards import possible
from weft.catalog.fields import MOST_LAYERS
from weft.catalog.mixers import grouped, latent, state_space
from weft.domain.model import Dense, Experts

if TYPE_CHECKING:
    from weft.catalog.fields import Fields
    from weft.domain.model import FeedForward, GroupedAttention, Mixer

    Layer = tuple[Mixer | None, FeedForward | None]

_MAMBA, _ATTENTION, _MLP, _MOE = "M", "*", "-", "E"
_SYMBOLS = {"mamba": _MAMBA, "attention": _ATTENTION, "mlp": _MLP, "moe": _MOE}
_MULTIPLE = 256  # DeciLM rounds the width of a feed-forward block up to a multiple of this


def single_halves(fields: Fields) -> list[Layer]:
    """Nemotron-H: each layer is a recurrence, an attention, a feed-forward block or experts."""
    pattern = _pattern(fields)
    parts: dict[str, Layer] = {}
    if _MAMBA in pattern:
        parts[_MAMBA] = (state_space(fields), None)
    if _ATTENTION in pattern:
        parts[_ATTENTION] = (grouped(fields), None)
    if _MLP in pattern:
        parts[_MLP] = (None, Dense(fields.size("intermediate_size"), gated=False))
    if _MOE in pattern:
        parts[_MOE] = (None, _ungated_experts(fields))
    _check_length(fields, len(pattern))
    return [parts[symbol] for symbol in pattern]


def _check_length(fields: Fields, layers: int) -> None:
    """Check that `num_hidden_layers` agrees, if it is present."""
    stated = fields.size("num_hidden_layers", default=layers)
    if stated != layers:
        fields.refuse(f"num_hidden_layers is {stated}, and {layers} layers are described")


def _pattern(fields: Fields) -> str:
    text = fields.text("hybrid_override_pattern")
    if text is None:
        kinds = fields.items("layers_block_type")
        if not kinds:
            fields.refuse("hybrid_override_pattern (or layers_block_type) is missing")
        text = "".join(_SYMBOLS.get(kind, "?") if isinstance(kind, str) else "?" for kind in kinds)
    unknown = set(text) - set(_SYMBOLS.values())
    if unknown or not text:
        fields.refuse(f"the pattern of layers may hold {', '.join(_SYMBOLS)}; {text!r:.60} is not understood")
    return text


def _ungated_experts(fields: Fields) -> Experts:
    """Experts without a gate (squared ReLU); with `moe_latent_size` they work on a projection of the hidden state."""
    experts = Experts(
        count=fields.size("n_routed_experts"),
        per_token=fields.size("num_experts_per_tok"),
        width=fields.size("moe_intermediate_size"),
        shared_width=fields.count("n_shared_experts", default=0) * fields.size("moe_shared_expert_intermediate_size"),
        gated=False,
        latent=fields.size("moe_latent_size") if fields.raw("moe_latent_size") is not None else None,
    )
    return possible(fields, experts)


def pairs_around_experts(fields: Fields) -> list[Layer]:
    """LongCat Flash: each of `num_layers` has two attentions, each with a dense block, and experts beside both.

    Experts that do nothing (`zero_expert_num`) take their share of `moe_topk`: a token uses what is left on average.
    """
    layers = fields.size("num_layers")
    width, count, idle = (
        fields.size("ffn_hidden_size"),
        fields.size("n_routed_experts"),
        fields.count("zero_expert_num"),
    )
    used = max(1, round(fields.size("moe_topk") * count / (count + idle)))
    experts = possible(fields, Experts(count, used, fields.size("expert_ffn_hidden_size"), shared_width=width))
    first, second = latent(fields, 2)
    return [(first, Dense(width)), (second, experts)] * min(layers, MOST_LAYERS)


def pruned_blocks(fields: Fields) -> list[Layer]:
    """Llama-Nemotron (DeciLM): `block_configs` has the KV heads and the width of each layer."""
    blocks = fields.objects("block_configs")
    if not blocks:
        fields.refuse("block_configs is missing")
    _check_length(fields, len(blocks))
    base = grouped(replace(fields, values=fields.values | {"num_key_value_heads": None}))
    hidden = fields.size("hidden_size")
    return [(_attention(block, base), _dense(block, hidden)) for block in blocks]


def _attention(block: Fields, base: GroupedAttention) -> GroupedAttention | None:
    attention = _half(block, "attention")
    if attention is None:
        return None
    group = attention.size("n_heads_in_group")
    if base.heads % group:
        attention.refuse(f"n_heads_in_group {group} does not divide num_attention_heads {base.heads}")
    return replace(base, kv_heads=base.heads // group)


def _dense(block: Fields, hidden: int) -> Dense | None:
    half = _half(block, "ffn")
    if half is None:
        return None
    width = int(2 * half.positive("ffn_mult") * hidden / 3)
    return Dense(-(-width // _MULTIPLE) * _MULTIPLE)


def _half(block: Fields, name: str) -> Fields | None:
    """One half of a block, None if it is left out; refuses halves that are replaced by something else."""
    half = block.inner(name)
    if half is None:
        block.refuse(f"{name} is missing in a block")
    changed: tuple[str, ...] = ("replace_with_linear", "sparsify", "window_length")
    values: list[Any] = [half.raw(each) for each in changed]
    if any(values):
        half.refuse(f"a block whose {name} is replaced, sparse or windowed is not understood")
    return None if half.flag("no_op", default=False) else half
