"""Feed-forward blocks of each layer, as the families write them: one per layer, None if it has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.model import Dense, Experts

if TYPE_CHECKING:
    from weft.catalog.fields import Fields
    from weft.domain.model import FeedForward

    FeedForwards = list[FeedForward | None]


def dense(fields: Fields, layers: int) -> FeedForwards:
    """A gated block in every layer."""
    return [Dense(fields.size("intermediate_size"))] * layers


def possible(fields: Fields, experts: Experts) -> Experts:
    """The same experts; refuses more experts per token than there are."""
    if experts.per_token > experts.count:
        fields.refuse(f"num_experts_per_tok {experts.per_token} is more than all {experts.count} experts")
    return experts


def _experts(fields: Fields, count: str, width: int, shared_width: int = 0) -> Experts:
    experts = Experts(fields.size(count), fields.size("num_experts_per_tok"), width, shared_width)
    return possible(fields, experts)


def local_experts(fields: Fields, layers: int) -> FeedForwards:
    """Mixtral, gpt-oss, MiniMax, Phi MoE: experts in every layer, `intermediate_size` wide."""
    shared = fields.count("shared_intermediate_size", default=0)
    return [_experts(fields, "num_local_experts", fields.size("intermediate_size"), shared)] * layers


def _layer_numbers(fields: Fields, name: str) -> set[int] | None:
    """Layer numbers in a list, from 0; None if the field is absent."""
    numbers = fields.items(name)
    if numbers is None:
        return None
    if not all(type(number) is int for number in numbers):  # a boolean would pass for 0 or 1
        fields.refuse(f"{name} must hold layer numbers")
    return set(numbers)


def every_nth_has_experts(fields: Fields, layers: int) -> FeedForwards:
    """Qwen: every `decoder_sparse_step`-th layer, without those in `mlp_only_layers`."""
    step = fields.size("decoder_sparse_step", default=1)
    without = _layer_numbers(fields, "mlp_only_layers") or set()
    shared = fields.count("shared_expert_intermediate_size", default=0)
    experts = _experts(fields, "num_experts", fields.size("moe_intermediate_size"), shared)
    sparse = [(layer + 1) % step == 0 and layer not in without for layer in range(layers)]
    plain = None if all(sparse) else Dense(fields.size("intermediate_size"))
    return [experts if is_sparse else plain for is_sparse in sparse]


def all_but_the_first_have_experts(fields: Fields, layers: int) -> FeedForwards:
    """DeepSeek, GLM, Kimi: every `moe_layer_freq`-th layer from `first_k_dense_replace` on."""
    sparse = _sparse_layers(fields, layers)
    width = fields.size("moe_intermediate_size")
    experts = _experts(fields, "n_routed_experts", width, width * fields.count("n_shared_experts", default=0))
    plain = Dense(fields.size("intermediate_size"))
    return [experts if is_sparse else plain for is_sparse in sparse]


def _sparse_layers(fields: Fields, layers: int) -> list[bool]:
    """Which layers have experts: by `mlp_layer_types` if present (GLM 5.2), else as DeepSeek counts."""
    kinds = fields.items("mlp_layer_types")
    if kinds is None:
        first, step = fields.count("first_k_dense_replace"), fields.size("moe_layer_freq", default=1)
        return [layer >= first and layer % step == 0 for layer in range(layers)]
    if len(kinds) != layers or any(kind not in ("dense", "sparse") for kind in kinds):
        fields.refuse(f"mlp_layer_types must hold dense or sparse for each of {layers} layers")
    return [kind == "sparse" for kind in kinds]


def interleaved_experts(fields: Fields, layers: int) -> FeedForwards:
    """Llama 4: every `interleave_moe_layer_step`-th layer has experts and a shared one; the others are wider."""
    listed = _layer_numbers(fields, "moe_layers")
    if listed is None:
        step = fields.size("interleave_moe_layer_step")
        listed = set(range(step - 1, layers, step))
    width = fields.size("intermediate_size")
    experts = _experts(fields, "num_local_experts", width, width)
    plain = Dense(fields.size("intermediate_size_mlp"))
    return [experts if layer in listed else plain for layer in range(layers)]


def experts_beside_dense(fields: Fields, layers: int) -> FeedForwards:
    """Gemma 4: with `enable_moe_block`, experts beside the dense block of the same layer."""
    width = fields.size("intermediate_size")
    if not fields.flag("enable_moe_block", default=False):
        return [Dense(width)] * layers
    inner = fields.size("moe_intermediate_size")
    experts = Experts(fields.size("num_experts"), fields.size("top_k_experts"), inner, shared_width=width)
    return [possible(fields, experts)] * layers
