"""The longest sequence of a model, as engines derive it: the config's positions, extended if it says so.

Formula: vLLM's check of `--max-model-len`. YaRN includes its factor in `max_position_embeddings` or, in older releases,
multiplies the original length: the longer of both is taken, so that nothing is refused that one of them serves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.catalog.fields import LARGEST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.catalog.fields import Fields

_YARN = {"yarn", "deepseek_yarn"}
_COUNTED_ALREADY = {"default", "su", "longrope", "llama3", "deepseek_llama_scaling"}
_COUNTED_BY_FAMILY = {"gemma3"}


def longest_context(fields: Fields, family: str) -> int:
    """The most tokens of a sequence, prompt and answer together."""
    served = int(_number(fields.raw("model_max_length")))  # which some configs state beside the positions, or alone
    stated = fields.size("max_position_embeddings", default=served or None)
    stretched = [] if family in _COUNTED_BY_FAMILY else [_stretched(stated, each) for each in _rotations(fields)]
    return max(stated, *stretched, served)


def _rotations(fields: Fields) -> Iterator[dict[str, Any]]:
    """`rope_scaling`, or `rope_parameters` of the whole model or of each kind of layer."""
    for name in ("rope_scaling", "rope_parameters"):
        found = fields.raw(name)
        if isinstance(found, dict):
            yield found
            yield from (inner for inner in found.values() if isinstance(inner, dict))


def _stretched(stated: int, rotation: dict[str, Any]) -> int:
    kind = rotation.get("rope_type", rotation.get("type"))
    if not isinstance(kind, str) or kind in _COUNTED_ALREADY:
        return stated
    base = _number(rotation.get("original_max_position_embeddings")) if kind in _YARN else stated
    return int(min(base * _number(rotation.get("factor")), LARGEST))


def _number(value: object) -> float:
    """The value if it is a number of at least 1, else 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return value if 1 <= value <= LARGEST else 0
