"""Reading a Hugging Face `config.json` into an `Architecture`: strictly, and never by guessing.

A field that the published files of a family leave out has the default of its class in `transformers`; those are written
here. Anything else that is missing, and anything that changes the arithmetic and is not understood, is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from weft.catalog.checkpoint import checkpoint_precision
from weft.catalog.fields import Fields, parse_object
from weft.domain.model import Architecture, Experts, LatentAttention

if TYPE_CHECKING:
    from weft.domain.hardware import Precision

ExpertReader = Callable[[Fields, int], Experts | None]


def architecture_from_config(model_id: str, config_json: str) -> Architecture:
    """What the performance model needs of a model.

    Raises `Invalid` (ArchitectureUnsupported) that names the architecture or the field it stumbled over.
    """
    outer = parse_object(model_id, config_json)
    name = _architecture_name(outer)
    family = FAMILIES.get(name)
    if family is None:
        outer.refuse(f"architecture {name!r:.60} is not understood; understood are {', '.join(sorted(FAMILIES))}")
    inner = outer.inner("text_config") or outer
    fields = replace(inner, fallback=family.defaults)
    return _build(family, fields, checkpoint_precision(outer, inner))


def _architecture_name(fields: Fields) -> str:
    names = fields.items("architectures")
    if not names:
        fields.refuse("architectures is missing")
    if len(names) != 1 or not isinstance(names[0], str):
        fields.refuse("architectures must hold exactly one name")
    return names[0]


@dataclass(frozen=True, slots=True)
class Family:
    """How the config of one architecture class is read. `defaults` are the class defaults of `transformers`."""

    name: str
    experts: ExpertReader = lambda _fields, _layers: None
    window_layers: Callable[[Fields, int], int] = lambda _fields, _layers: 0
    latent: bool = False
    tied: bool = False
    defaults: dict[str, Any] = field(default_factory=dict)


def _build(family: Family, fields: Fields, precision: Precision) -> Architecture:
    layers = fields.size("num_hidden_layers")
    hidden = fields.size("hidden_size")
    heads = fields.size("num_attention_heads")
    kv_heads = fields.size("num_key_value_heads", default=heads)
    if heads % kv_heads:
        fields.refuse(f"num_key_value_heads {kv_heads} does not divide num_attention_heads {heads}")
    windowed = _window_layers(family, fields, layers)
    return Architecture(
        model_id=fields.model_id,
        family=family.name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=_head_dim(fields, hidden, heads),
        ffn_width=fields.size("intermediate_size"),
        vocabulary=fields.size("vocab_size"),
        max_context_tokens=fields.size("max_position_embeddings"),
        tied_embeddings=fields.flag("tie_word_embeddings", default=family.tied),
        checkpoint_precision=precision,
        latent=_latent(fields) if family.latent else None,
        experts=family.experts(fields, layers),
        window_tokens=fields.size("sliding_window") if windowed else None,
        window_layers=windowed,
    )


def _head_dim(fields: Fields, hidden: int, heads: int) -> int:
    stated = fields.count("head_dim", default=0)
    if stated:
        return stated
    if hidden % heads:
        fields.refuse(f"head_dim is missing and num_attention_heads {heads} does not divide hidden_size {hidden}")
    return hidden // heads


def _latent(fields: Fields) -> LatentAttention:
    return LatentAttention(
        query_rank=fields.count("q_lora_rank", default=0),  # null: queries are not compressed (DeepSeek-V2-Lite)
        kv_rank=fields.size("kv_lora_rank"),
        nope_dim=fields.size("qk_nope_head_dim"),
        rope_dim=fields.size("qk_rope_head_dim"),
        value_dim=fields.size("v_head_dim"),
    )


# --- which layers look at a window only -------------------------------------------------------------------------------


def _window_layers(family: Family, fields: Fields, layers: int) -> int:
    """Layers with a sliding window: `layer_types` where it is written, else the family's rule."""
    kinds = fields.items("layer_types")
    if kinds is None:
        return family.window_layers(fields, layers)
    if len(kinds) != layers:
        fields.refuse(f"layer_types has {len(kinds)} entries for {layers} layers")
    for kind in kinds:
        if kind not in ("full_attention", "sliding_attention"):
            fields.refuse(f"layer_types holds {kind!r:.60}, which is not understood")
    return kinds.count("sliding_attention")


def _all_if_set(fields: Fields, layers: int) -> int:
    return layers if fields.raw("sliding_window") is not None else 0


def _qwen_window(fields: Fields, layers: int) -> int:
    """Layers from `max_window_layers` on, if the window is switched on at all."""
    if not fields.flag("use_sliding_window", default=False) or fields.raw("sliding_window") is None:
        return 0
    return max(0, layers - fields.count("max_window_layers"))


def _every_second(_fields: Fields, layers: int) -> int:
    return (layers + 1) // 2


def _all_but_every_nth(fields: Fields, layers: int) -> int:
    return layers - layers // fields.size("sliding_window_pattern")


# --- experts ----------------------------------------------------------------------------------------------------------


def _checked(fields: Fields, experts: Experts) -> Experts | None:
    if experts.per_token > experts.count:
        fields.refuse(f"num_experts_per_tok {experts.per_token} is more than all {experts.count} experts")
    return experts if experts.layers else None


def _local_experts(fields: Fields, layers: int) -> Experts | None:
    """Mixtral and gpt-oss: experts in every layer, `intermediate_size` wide."""
    experts = Experts(
        count=fields.size("num_local_experts"),
        per_token=fields.size("num_experts_per_tok"),
        width=fields.size("intermediate_size"),
        shared=0,
        layers=layers,
    )
    return _checked(fields, experts)


def _qwen_experts(fields: Fields, layers: int) -> Experts | None:
    """Every `decoder_sparse_step`-th layer, without those in `mlp_only_layers`."""
    step = fields.size("decoder_sparse_step", default=1)
    dense = fields.items("mlp_only_layers") or []
    if not all(isinstance(layer, int) for layer in dense):
        fields.refuse("mlp_only_layers must hold layer numbers")
    experts = Experts(
        count=fields.size("num_experts"),
        per_token=fields.size("num_experts_per_tok"),
        width=fields.size("moe_intermediate_size"),
        shared=0,
        layers=layers // step - sum(1 for layer in set(dense) if 0 <= layer < layers and (layer + 1) % step == 0),
    )
    return _checked(fields, experts)


def _deepseek_experts(fields: Fields, layers: int) -> Experts | None:
    """Every `moe_layer_freq`-th layer from `first_k_dense_replace` on."""
    first = fields.count("first_k_dense_replace")
    step = fields.size("moe_layer_freq", default=1)
    experts = Experts(
        count=fields.size("n_routed_experts"),
        per_token=fields.size("num_experts_per_tok"),
        width=fields.size("moe_intermediate_size"),
        shared=fields.count("n_shared_experts", default=0),
        layers=max(0, -(-layers // step) - -(-first // step)),
    )
    return _checked(fields, experts)


_GEMMA3 = Family(
    "gemma3",
    window_layers=_all_but_every_nth,
    tied=True,
    # Google's files leave these to Gemma3TextConfig.
    defaults={
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262_208,
        "max_position_embeddings": 131_072,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
    },
)
_DEEPSEEK = Family("deepseek", experts=_deepseek_experts, latent=True)

FAMILIES: dict[str, Family] = {
    "LlamaForCausalLM": Family("llama"),
    "MistralForCausalLM": Family("mistral", window_layers=_all_if_set),
    "MixtralForCausalLM": Family("mixtral", experts=_local_experts, window_layers=_all_if_set),
    "Qwen2ForCausalLM": Family("qwen2", window_layers=_qwen_window),
    "Qwen3ForCausalLM": Family("qwen3", window_layers=_qwen_window),
    "Qwen3MoeForCausalLM": Family("qwen3-moe", experts=_qwen_experts, window_layers=_qwen_window),
    "DeepseekV2ForCausalLM": _DEEPSEEK,
    "DeepseekV3ForCausalLM": _DEEPSEEK,
    "GptOssForCausalLM": Family("gpt-oss", experts=_local_experts, window_layers=_every_second),
    "Gemma2ForCausalLM": Family("gemma2", window_layers=_every_second, tied=True),
    "Gemma3ForCausalLM": _GEMMA3,
    "Gemma3ForConditionalGeneration": _GEMMA3,
    "Phi3ForCausalLM": Family("phi3", window_layers=_all_if_set),
}
