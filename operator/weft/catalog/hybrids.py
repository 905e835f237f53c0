"""Mixers of models in which some layers recur: Mamba beside attention, lightning attention, Kimi's delta rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog.feed_forwards import experts_of, uniform_experts
from weft.catalog.mixers import grouped, latent, layer_kinds
from weft.domain.model import Dense, LinearAttention

if TYPE_CHECKING:
    from weft.catalog.fields import Fields
    from weft.domain.model import FeedForward, Mixer

    Mixers = list[Mixer | None]
    Layer = tuple[Mixer | None, FeedForward | None]

_MAMBA, _ATTENTION, _FULL, _LINEAR = "mamba", "attention", "full_attention", "linear_attention"
_FLOAT32_STATE = 4.0
_MODEL_STATE = 2.0  # vLLM keeps Mamba's states in the model's own 16 bits, unless a config says otherwise
_STATE_SPACE_GATES = 1  # the time step
_DELTA_RULE_GATES = 1  # write strength; the decay of each channel comes from a small projection, as the gate does


def mamba_beside_attention(fields: Fields, layers: int) -> Mixers:
    """Granite 4: `layer_types` says which layers are attention, under either of its names; the others are Mamba-2."""
    kinds = layer_kinds(fields, layers, (_MAMBA, _LINEAR, _ATTENTION, _FULL)) or [_MAMBA] * layers
    full, recurrent = grouped(fields), mamba2(fields)
    return [full if kind in (_ATTENTION, _FULL) else recurrent for kind in kinds]


def mamba2(fields: Fields) -> LinearAttention:
    """Mamba-2 as Granite and Falcon-H1 write it: `mamba_d_ssm` channels, or `mamba_expand` times the hidden size."""
    heads = fields.size("mamba_n_heads")
    channels = _channels(fields, "mamba_d_ssm")
    if channels % heads:
        fields.refuse(f"mamba_n_heads {heads} does not divide the {channels} channels of a Mamba layer")
    return LinearAttention(
        key_heads=fields.size("mamba_n_groups", default=1),
        value_heads=heads,
        key_dim=fields.size("mamba_d_state"),
        value_dim=channels // heads,
        convolution=fields.size("mamba_d_conv"),
        gates=_STATE_SPACE_GATES,
        state_bytes_per_value=_MODEL_STATE,
        keys_replicate=True,
    )


def _channels(fields: Fields, name: str) -> int:
    expanded = fields.size("hidden_size") * fields.size("mamba_expand", default=2)
    return fields.size(name, default=expanded)


def attention_and_mamba_in_every_layer(fields: Fields) -> list[Layer]:
    """Falcon-H1: both work side by side in each layer. They count as two layers, one of which has no feed-forward."""
    each: list[Layer] = [(mamba2(fields), None), (grouped(fields), Dense(fields.size("intermediate_size")))]
    return each * fields.number_of_layers()


def jamba(fields: Fields) -> list[Layer]:
    """Mamba (its first version: a state for each channel), attention every `attn_layer_period`-th layer."""
    layers = fields.number_of_layers()
    recurrent = LinearAttention(
        key_heads=1,
        value_heads=_channels(fields, "mamba_d_inner"),
        key_dim=fields.size("mamba_d_state"),
        value_dim=1,
        convolution=fields.size("mamba_d_conv"),
        gates=0,  # time steps come from a small projection
        state_bytes_per_value=_MODEL_STATE,
        keys_replicate=True,
    )
    plain = Dense(fields.size("intermediate_size"))
    sparse = uniform_experts(fields, "num_experts", fields.size("intermediate_size"))
    full = grouped(fields)
    places = zip(_periodic(fields, "attn_layer", layers), _periodic(fields, "expert_layer", layers), strict=True)
    return [(full if attends else recurrent, sparse if has_experts else plain) for attends, has_experts in places]


def _periodic(fields: Fields, name: str, layers: int) -> list[bool]:
    """Every `<name>_period`-th layer from `<name>_offset` on."""
    period, offset = fields.size(f"{name}_period"), fields.count(f"{name}_offset")
    return [layer % period == offset for layer in range(layers)]


def lightning_and_full(fields: Fields, layers: int) -> Mixers:
    """MiniMax-Text-01 and M1: `attn_type_list` has 1 for full attention, `layer_types` its name."""
    kinds = layer_kinds(fields, layers, (_FULL, _LINEAR)) or _by_number(fields, "attn_type_list", layers)
    full = grouped(fields)
    lightning = LinearAttention(
        key_heads=full.heads,
        value_heads=full.heads,
        key_dim=full.head_dim,
        value_dim=full.head_dim,
        convolution=1,  # none: its state keeps no earlier token
        gates=0,
        state_bytes_per_value=_FLOAT32_STATE,
    )
    return [full if kind == _FULL else lightning for kind in kinds]


def _by_number(fields: Fields, name: str, layers: int) -> list[str]:
    numbers = fields.items(name)
    if (
        numbers is None
        or len(numbers) != layers
        or any(type(each) is not int or each not in (0, 1) for each in numbers)
    ):
        fields.refuse(f"{name} (or layer_types) must hold 0 or 1 for each of {layers} layers")
    return [_FULL if each else _LINEAR for each in numbers]


def delta_rule_and_latent(fields: Fields, layers: int) -> Mixers:
    """Kimi Linear: a delta rule with a decay for each channel, and latent attention in the layers that are listed."""
    named = fields.inner("linear_attn_config")
    kinds = layer_kinds(fields, layers, (_FULL, _LINEAR))
    if kinds is None:
        if named is None:
            fields.refuse("linear_attn_config (or layer_types) is missing")
        full = {each for each in named.items("full_attn_layers") or [] if type(each) is int}  # counted from 1
        kinds = [_FULL if layer + 1 in full else _LINEAR for layer in range(layers)]
    heads = named.size("num_heads") if named is not None else fields.size("linear_num_heads")
    width = named.size("head_dim") if named is not None else fields.size("linear_head_dim")
    window = named.size("short_conv_kernel_size") if named is not None else fields.size("linear_conv_kernel_dim")
    rule = LinearAttention(
        key_heads=heads,
        value_heads=heads,
        key_dim=width,
        value_dim=width,
        convolution=window,
        gates=_DELTA_RULE_GATES,
        state_bytes_per_value=_FLOAT32_STATE,
    )
    return [each if kind == _FULL else rule for kind, each in zip(kinds, latent(fields, layers), strict=True)]


def granite_feed_forward(fields: Fields, layers: int) -> list[FeedForward | None]:
    """Granite 4: experts and a shared one in every layer, or with `num_local_experts` 0 the shared one alone."""
    shared = fields.size("shared_intermediate_size")
    if fields.count("num_local_experts", default=0) == 0:
        return [Dense(shared)] * layers
    width = fields.size("intermediate_size")
    return [experts_of(fields, "num_local_experts", "num_experts_per_tok", width, shared)] * layers
