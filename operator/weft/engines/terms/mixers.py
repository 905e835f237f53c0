"""Kinds of attention and recurrence in the layers of a pool's model, by its catalog entry or config.json."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from weft.catalog import architecture_from_config, load
from weft.domain.model import LinearAttention

if TYPE_CHECKING:
    from weft.domain.model import Mixer
    from weft.domain.spec import ModelSpec


def mixers_of(model: ModelSpec) -> frozenset[Mixer]:
    """Each kind once; empty for an unknown model."""
    return _mixers(model.model_id, model.config_json)


def keeps_states(model: ModelSpec) -> bool:
    """Whether layers of the model keep a state for each sequence; False for an unknown model."""
    return any(isinstance(mixer, LinearAttention) for mixer in mixers_of(model))


@functools.lru_cache(maxsize=256)
def _mixers(model_id: str, config_json: str | None) -> frozenset[Mixer]:
    known = architecture_from_config(model_id, config_json) if config_json else load().architecture(model_id)
    return frozenset(block.mixer for block in known.blocks if block.mixer is not None) if known else frozenset()
