"""Feed-forward blocks of each layer, as the families write them: one per layer, None if it has none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.model import Dense, Experts

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.catalog.fields import Fields
    from weft.domain.model import FeedForward

    FeedForwards = list[FeedForward | None]


def dense(fields: Fields, layers: int) -> FeedForwards:
    """A gated block in every layer."""
    return [Dense(fields.size("intermediate_size"))] * layers


def ungated(fields: Fields, layers: int) -> FeedForwards:
    """A block of two matrices in every layer (squared ReLU of Minitron, GELU of StarCoder 2, xIELU of Apertus)."""
    return [Dense(fields.size("intermediate_size"), gated=False)] * layers


def possible(fields: Fields, experts: Experts) -> Experts:
    """The same experts; refuses more experts per token than there are."""
    if experts.per_token > experts.count:
        fields.refuse(f"num_experts_per_tok {experts.per_token} is more than all {experts.count} experts")
    return experts


def experts_of(fields: Fields, count: str, per_token: str, width: int, shared_width: int = 0) -> Experts:
    """Experts whose number and number per token have these names."""
    return possible(fields, Experts(fields.size(count), fields.size(per_token), width, shared_width))


def uniform_experts(fields: Fields, count: str, width: int, shared_width: int = 0) -> Experts:
    """Experts with the usual name for how many of them a token uses."""
    return experts_of(fields, count, "num_experts_per_tok", width, shared_width)


def experts_in_every_layer(fields: Fields, layers: int) -> FeedForwards:
    """OLMoE: `num_experts` in every layer, `intermediate_size` wide."""
    return [uniform_experts(fields, "num_experts", fields.size("intermediate_size"))] * layers


def local_experts(fields: Fields, layers: int) -> FeedForwards:
    """Mixtral, gpt-oss, MiniMax, Phi MoE: experts in every layer, `intermediate_size` wide."""
    shared = fields.count("shared_intermediate_size", default=0)
    return [uniform_experts(fields, "num_local_experts", fields.size("intermediate_size"), shared)] * layers


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
    experts = uniform_experts(fields, "num_experts", fields.size("moe_intermediate_size"), shared)
    sparse = [(layer + 1) % step == 0 and layer not in without for layer in range(layers)]
    plain = None if all(sparse) else Dense(fields.size("intermediate_size"))
    return [experts if is_sparse else plain for is_sparse in sparse]


def all_but_the_first(
    count: str = "n_routed_experts", shared: str = "n_shared_experts", used: str = "num_experts_per_tok"
) -> Callable[[Fields, int], FeedForwards]:
    """DeepSeek, GLM, Kimi, Ling: every `moe_layer_freq`-th layer from `first_k_dense_replace` on.

    `count`, `shared` and `used` are the family's names for how many experts there are, all tokens share and each token
    uses.
    """

    def read(fields: Fields, layers: int) -> FeedForwards:
        sparse = _sparse_layers(fields, layers)
        width = fields.size("moe_intermediate_size")
        each = fields.size("moe_shared_expert_intermediate_size", default=width)
        experts = experts_of(fields, count, used, width, each * fields.count(shared, default=0))
        plain = None if all(sparse) else Dense(fields.size("intermediate_size"))
        return [experts if is_sparse else plain for is_sparse in sparse]

    return read


def _sparse_layers(fields: Fields, layers: int) -> list[bool]:
    """Which layers have experts: by `mlp_layer_types` (GLM 5.2) or a list (MiMo), else as DeepSeek counts."""
    kinds = fields.items("mlp_layer_types")
    if kinds is not None:
        if len(kinds) != layers or any(kind not in ("dense", "sparse") for kind in kinds):
            fields.refuse(f"mlp_layer_types must hold dense or sparse for each of {layers} layers")
        return [kind == "sparse" for kind in kinds]
    if isinstance(fields.raw("moe_layer_freq"), list):
        return _listed(fields, "moe_layer_freq", layers)
    first, step = fields.count("first_k_dense_replace"), fields.size("moe_layer_freq", default=1)
    return [layer >= first and layer % step == 0 for layer in range(layers)]


def _listed(fields: Fields, name: str, layers: int) -> list[bool]:
    numbers = fields.items(name) or []
    if len(numbers) != layers or any(type(each) is not int or each not in (0, 1) for each in numbers):
        fields.refuse(f"{name} must hold 0 or 1 for each of {layers} layers")
    return [each == 1 for each in numbers]


def between_two_layers(fields: Fields, layers: int) -> FeedForwards:
    """ERNIE 4.5: every `moe_layer_interval`-th layer from `moe_layer_start_index` to `moe_layer_end_index`."""
    first, step = fields.count("moe_layer_start_index"), fields.size("moe_layer_interval", default=1)
    last = fields.raw("moe_layer_end_index")
    last = layers - 1 if last in (None, -1) else fields.count("moe_layer_end_index")
    width = fields.size("moe_intermediate_size")
    shared = width * fields.count("moe_num_shared_experts", default=0)
    experts = experts_of(fields, "moe_num_experts", "moe_k", width, shared)
    sparse = [first <= layer <= last and (layer + 1) % step == 0 for layer in range(layers)]
    plain = None if all(sparse) else Dense(fields.size("intermediate_size"))
    return [experts if is_sparse else plain for is_sparse in sparse]


def alike_in_every_layer(fields: Fields, layers: int) -> FeedForwards:
    """Hunyuan: experts in every layer, whose sizes may be written once for each layer."""
    width = _one_of_all(fields, "moe_intermediate_size") or fields.size("intermediate_size")
    shared = (_one_of_all(fields, "num_shared_expert") or 0) * fields.size("intermediate_size")
    count, per_token = _one_of_all(fields, "num_experts"), _one_of_all(fields, "moe_topk")
    whole = replace(fields, values=fields.values | {"num_experts": count, "moe_topk": per_token})
    if fields.flag("use_cla", default=False):
        fields.refuse("use_cla is not understood: layers that share keys and values")
    return [experts_of(whole, "num_experts", "moe_topk", width, shared)] * layers


def _one_of_all(fields: Fields, name: str) -> int | None:
    """A size that may be listed for each layer, where all are equal; None if it is absent."""
    value = fields.raw(name)
    if not isinstance(value, list):
        return None if value is None else fields.size(name)
    if not value or any(each != value[0] for each in value):
        fields.refuse(f"{name} must be the same in every layer")
    return replace(fields, values={name: value[0]}).size(name)


def interleaved_experts(fields: Fields, layers: int) -> FeedForwards:
    """Llama 4: every `interleave_moe_layer_step`-th layer has experts and a shared one; the others are wider."""
    listed = _layer_numbers(fields, "moe_layers")
    if listed is None:
        step = fields.size("interleave_moe_layer_step")
        listed = set(range(step - 1, layers, step))
    width = fields.size("intermediate_size")
    experts = uniform_experts(fields, "num_local_experts", width, width)
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
