"""Read a Hugging Face `config.json` into an `Architecture`: strictly, and never by guessing.

A field that the published files of a family leave out has the default of its class in `transformers`; those defaults
are in `families`. Anything else that is missing, and anything that changes the arithmetic and is not understood, is
refused by name.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.catalog.checkpoint import checkpoint_precision, weight_block
from weft.catalog.context import longest_context
from weft.catalog.families import FAMILIES
from weft.catalog.fields import MOST_LAYERS, parse_object
from weft.domain.model import Architecture, Block

if TYPE_CHECKING:
    from weft.catalog.families import Family
    from weft.catalog.fields import Fields
    from weft.domain.hardware import Precision
    from weft.domain.model import FeedForward, Mixer

# Parts that add work or memory to every token and that no family here models: zero or absent is accepted.
_UNSUPPORTED_PARTS = ("hidden_size_per_layer_input", "num_kv_shared_layers", "cross_attention_layers", "hc_mult")

_LANGUAGE_MODELS = ("text_config", "llm_config", "language_config")  # in the configs of models that also see or hear


def architecture_from_config(model_id: str, config_json: str) -> Architecture:
    """What the performance model needs of a model.

    Raises `Invalid` (ArchitectureUnsupported) that names the unsupported architecture or field.
    """
    outer = parse_object(model_id, config_json)
    inner = next((found for name in _LANGUAGE_MODELS if (found := outer.inner(name)) is not None), outer)
    family = _family(outer, inner)
    fields = replace(inner, fallback=family.defaults)
    for part in _UNSUPPORTED_PARTS:
        if fields.raw(part):
            fields.refuse(f"{part} is not understood")
    architecture = _build(family, fields, outer, checkpoint_precision(outer, inner))
    return replace(architecture, weight_block=weight_block(outer, inner))


def _family(outer: Fields, inner: Fields) -> Family:
    """The family that is named, or that of the language model inside a wrapper that adds nothing to a token."""
    name = _architecture_name(outer)
    within = inner.items("architectures") if inner is not outer else None
    known = FAMILIES.get(name) or (FAMILIES.get(_architecture_name(inner)) if within else None)
    if known is None:
        outer.refuse(f"architecture {name!r:.60} is not understood; understood are {', '.join(sorted(FAMILIES))}")
    return known


def _architecture_name(fields: Fields) -> str:
    names = fields.items("architectures")
    if not names:
        fields.refuse("architectures is missing: a list of one name such as LlamaForCausalLM is needed")
    if len(names) != 1 or not isinstance(names[0], str):
        fields.refuse(f"architectures must hold exactly one name, not {names!r:.60}")
    return names[0]


def _build(family: Family, fields: Fields, outer: Fields, precision: Precision) -> Architecture:
    layers = family.layers(fields)
    if len(layers) > MOST_LAYERS:
        fields.refuse(f"it has {len(layers)} layers; at most {MOST_LAYERS} are understood")
    if all(mixer is None for mixer, _ in layers):
        fields.refuse("no layer mixes tokens")
    tied = outer.flag("tie_word_embeddings", default=family.tied)
    return Architecture(
        model_id=fields.model_id,
        family=family.name,
        hidden=fields.size("hidden_size"),
        blocks=_blocks(layers),
        vocabulary=fields.size("vocab_size"),
        max_context_tokens=longest_context(fields, family.name),
        tied_embeddings=fields.flag("tie_word_embeddings", default=tied),
        checkpoint_precision=precision,
    )


def _blocks(layers: list[tuple[Mixer | None, FeedForward | None]]) -> tuple[Block, ...]:
    """Equal layers as blocks with counts, in the order of their first layer."""
    return tuple(Block(count, mixer, feed_forward) for (mixer, feed_forward), count in Counter(layers).items())
