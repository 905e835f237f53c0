"""Attention and recurrences of each layer, as the families write them: one mixer per layer, None if it has none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.model import GroupedAttention, LatentAttention, LinearAttention, TokenSelector

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.catalog.fields import Fields
    from weft.domain.model import Mixer

    Mixers = list[Mixer | None]

_FULL, _SLIDING, _CHUNKED, _LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"
_FLOAT32_STATE = 4.0
_DELTA_RULE_GATES = 2  # decay and write strength
_STATE_SPACE_GATES = 1  # the time step


def layer_kinds(fields: Fields, layers: int, known: tuple[str, ...]) -> list[str] | None:
    """The checked `layer_types`; None if absent."""
    kinds = fields.items("layer_types")
    if kinds is None:
        return None
    if len(kinds) != layers:
        fields.refuse(f"layer_types has {len(kinds)} entries for {layers} layers")
    for kind in kinds:
        if kind not in known:
            fields.refuse(f"layer_types holds {kind!r:.60}, which is not understood")
    return kinds


def grouped(fields: Fields) -> GroupedAttention:
    """Grouped attention from the usual fields, without a window."""
    hidden, heads = fields.size("hidden_size"), fields.size("num_attention_heads")
    kv_heads = fields.size("num_key_value_heads", default=heads)
    if heads % kv_heads:
        fields.refuse(f"num_key_value_heads {kv_heads} does not divide num_attention_heads {heads}")
    head_dim = _head_dim(fields, hidden, heads)
    return GroupedAttention(heads, kv_heads, head_dim, fields.size("v_head_dim", default=head_dim))


def _head_dim(fields: Fields, hidden: int, heads: int) -> int:
    stated = fields.count("head_dim", default=0) or fields.count("attention_head_dim", default=0)
    if stated:
        return stated
    if hidden % heads:
        fields.refuse(f"head_dim is missing and num_attention_heads {heads} does not divide hidden_size {hidden}")
    return hidden // heads


def everywhere(fields: Fields, layers: int) -> Mixers:
    """The same full attention in every layer."""
    return [grouped(fields)] * layers


# --- windows ----------------------------------------------------------------------------------------------------------


def windowed(rule: Callable[[Fields, int], list[bool]]) -> Callable[[Fields, int], Mixers]:
    """Full attention, with a sliding window in the layers that `layer_types` or else the family's rule says."""

    def read(fields: Fields, layers: int) -> Mixers:
        kinds = layer_kinds(fields, layers, (_FULL, _SLIDING))
        where = rule(fields, layers) if kinds is None else [kind == _SLIDING for kind in kinds]
        full = grouped(fields)
        narrow = replace(full, window_tokens=fields.size("sliding_window")) if any(where) else full
        return [narrow if is_narrow else full for is_narrow in where]

    return read


def all_if_set(fields: Fields, layers: int) -> list[bool]:
    """Mistral: every layer, if there is a window at all."""
    return [fields.raw("sliding_window") is not None] * layers


def from_a_layer_on_if_switched_on(fields: Fields, layers: int) -> list[bool]:
    """Qwen: layers from `max_window_layers` on, if `use_sliding_window`."""
    if not fields.flag("use_sliding_window", default=False) or fields.raw("sliding_window") is None:
        return [False] * layers
    first = fields.count("max_window_layers")
    return [layer >= first for layer in range(layers)]


def every_second(_fields: Fields, layers: int) -> list[bool]:
    """Gemma 2, gpt-oss: the first layer, the third, and so on."""
    return [layer % 2 == 0 for layer in range(layers)]


def all_but_every_nth(fields: Fields, layers: int) -> list[bool]:
    """Gemma 3: all layers but one in `sliding_window_pattern`."""
    pattern = fields.size("sliding_window_pattern")
    return [(layer + 1) % pattern != 0 for layer in range(layers)]


def all_but_one_in(default: int | None = None) -> Callable[[Fields, int], list[bool]]:
    """Command A, EXAONE 4: all layers but the last in each `sliding_window_pattern`, if there is a window.

    The pattern is a number of layers (`default` without one) or a word such as LLLG, with G for a full layer.
    """

    def rule(fields: Fields, layers: int) -> list[bool]:
        if fields.raw("sliding_window") is None:
            return [False] * layers
        pattern = fields.raw("sliding_window_pattern")
        if isinstance(pattern, str) and set(pattern) <= {"L", "G"} and pattern:
            return [pattern[layer % len(pattern)] == "L" for layer in range(layers)]
        size = fields.size("sliding_window_pattern", default=default)
        return [(layer + 1) % size != 0 for layer in range(layers)]

    return rule


def nowhere(_fields: Fields, layers: int) -> list[bool]:
    """No layer, unless `layer_types` says so."""
    return [False] * layers


def full_and_local_heads(fields: Fields, layers: int) -> Mixers:
    """MiMo V2: layers with a window have their own KV heads (twice as many if not stated), and maybe dimensions."""
    kinds = layer_kinds(fields, layers, (_FULL, _SLIDING))
    numbers = fields.items("hybrid_layer_pattern")
    if kinds is None and (numbers is None or len(numbers) != layers or any(each not in (0, 1) for each in numbers)):
        fields.refuse(f"hybrid_layer_pattern (or layer_types) must hold 0 or 1 for each of {layers} layers")
    local = [kind == _SLIDING for kind in kinds] if kinds is not None else [each == 1 for each in numbers or []]
    full = grouped(fields)
    narrow = replace(
        full,
        kv_heads=fields.size("swa_num_key_value_heads", default=2 * full.kv_heads),
        head_dim=fields.size("swa_head_dim", default=full.head_dim),
        value_dim=fields.size("swa_v_head_dim", default=full.value_dim),
        window_tokens=fields.size("sliding_window"),
    )
    if full.heads % narrow.kv_heads:
        fields.refuse(f"swa_num_key_value_heads {narrow.kv_heads} does not divide num_attention_heads {full.heads}")
    return [narrow if is_local else full for is_local in local]


def chunked(fields: Fields, layers: int) -> Mixers:
    """Llama 4: layers with rotary positions attend to their own chunk, every fourth has none and attends to all."""
    full = grouped(fields)
    chunk = fields.raw("attention_chunk_size")
    near = replace(full, window_tokens=fields.size("attention_chunk_size")) if chunk is not None else full
    kinds = layer_kinds(fields, layers, (_FULL, _CHUNKED))
    if kinds is not None:
        return [near if kind == _CHUNKED else full for kind in kinds]
    rotary = fields.items("no_rope_layers")  # 1 means rotary positions, whatever the name says
    if rotary is None or not rotary:
        step = fields.size("no_rope_layer_interval", default=4)
        return [full if (layer + 1) % step == 0 else near for layer in range(layers)]
    if len(rotary) != layers:
        fields.refuse(f"no_rope_layers has {len(rotary)} entries for {layers} layers")
    return [near if each else full for each in rotary]


def global_and_local(fields: Fields, layers: int) -> Mixers:
    """Gemma 4: full layers have heads of another size, and may use one projection for keys and values."""
    kinds = layer_kinds(fields, layers, (_FULL, _SLIDING))
    if kinds is None:
        fields.refuse("layer_types is missing")
    local = replace(grouped(fields), window_tokens=fields.size("sliding_window"))
    wide = fields.size("global_head_dim", default=local.head_dim)
    whole = replace(
        local,
        kv_heads=fields.size("num_global_key_value_heads", default=local.kv_heads),
        head_dim=wide,
        value_dim=wide,
        window_tokens=None,
        keys_are_values=fields.flag("attention_k_eq_v", default=False),
    )
    return [whole if kind == _FULL else local for kind in kinds]


# --- latent -----------------------------------------------------------------------------------------------------------


def latent(fields: Fields, layers: int) -> Mixers:
    """DeepSeek's compressed keys and values; with an `index_topk`, a selector of tokens before them."""
    mixer = LatentAttention(
        heads=fields.size("num_attention_heads"),
        query_rank=fields.count("q_lora_rank", default=0),  # null: queries are not compressed (DeepSeek-V2-Lite)
        kv_rank=fields.size("kv_lora_rank"),
        nope_dim=fields.size("qk_nope_head_dim"),
        rope_dim=fields.size("qk_rope_head_dim"),
        value_dim=fields.size("v_head_dim"),
        selector=_selector(fields) if fields.raw("index_topk") is not None else None,
    )
    owners = fields.items("indexer_types")
    if owners is None or mixer.selector is None:
        return [mixer] * layers
    return _with_shared_selectors(fields, mixer, owners, layers)


def _selector(fields: Fields) -> TokenSelector:
    return TokenSelector(fields.size("index_n_heads"), fields.size("index_head_dim"), fields.size("index_topk"))


def _with_shared_selectors(fields: Fields, mixer: LatentAttention, owners: list[object], layers: int) -> Mixers:
    """GLM 5.3: `shared` layers reuse what the previous selector picked; they have none to compute or keep."""
    if len(owners) != layers or any(each not in ("full", "shared") for each in owners):
        fields.refuse(f"indexer_types must hold full or shared for each of {layers} layers")
    chosen = mixer.selector
    borrowing = replace(mixer, selector=replace(chosen, heads=0, dim=0) if chosen else None)
    return [mixer if each == "full" else borrowing for each in owners]


# --- recurrences ------------------------------------------------------------------------------------------------------


def delta_rule_and_full(fields: Fields, layers: int) -> Mixers:
    """Qwen3-Next and Qwen3.5: gated delta rule, and full attention with an output gate every few layers."""
    kinds = layer_kinds(fields, layers, (_FULL, _LINEAR))
    if kinds is None:
        step = fields.size("full_attention_interval", default=4)
        kinds = [_FULL if (layer + 1) % step == 0 else _LINEAR for layer in range(layers)]
    linear = LinearAttention(
        key_heads=fields.size("linear_num_key_heads"),
        value_heads=fields.size("linear_num_value_heads"),
        key_dim=fields.size("linear_key_head_dim"),
        value_dim=fields.size("linear_value_head_dim"),
        convolution=fields.size("linear_conv_kernel_dim"),
        gates=_DELTA_RULE_GATES,
        state_bytes_per_value=_FLOAT32_STATE,
    )
    full = replace(grouped(fields), gated=fields.flag("attn_output_gate", default=True))
    return [full if kind == _FULL else linear for kind in kinds]


def state_space(fields: Fields) -> LinearAttention:
    """Mamba-2 of Nemotron-H: groups share keys and queries (B and C), heads are values."""
    return LinearAttention(
        key_heads=fields.size("n_groups"),
        value_heads=fields.size("mamba_num_heads"),
        key_dim=fields.size("ssm_state_size"),
        value_dim=fields.size("mamba_head_dim"),
        convolution=fields.size("conv_kernel"),
        gates=_STATE_SPACE_GATES,
        state_bytes_per_value=_FLOAT32_STATE,
        keys_replicate=True,
    )
