"""Which values an engine's options take in which of its releases."""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING, Any

from weft.catalog.limits import numbers
from weft.catalog.loading import read_yaml

if TYPE_CHECKING:
    from weft.domain.shape import EngineName


@functools.lru_cache(maxsize=256)
def option_values(engine: EngineName, version: str) -> dict[str, tuple[str, ...]]:
    """Values by option; an option that takes anything, or whose values nobody read, is not there.

    A version that cannot be read is taken for a recent build.
    """
    rules = _rules().get(engine.value, ())
    return {rule["option"]: tuple(map(str, rule["values"])) for rule in rules if _covers(rule, numbers(version))}


def _covers(rule: dict[str, Any], release: tuple[int, ...] | None) -> bool:
    since, until = (numbers(str(rule.get(bound, ""))) for bound in ("since", "until"))
    if release is None:
        return until is None
    return (since is None or release >= since) and (until is None or release <= until)


@functools.cache
def _rules() -> dict[str, list[dict[str, Any]]]:
    text = resources.files("weft.catalog").joinpath("option_values.yaml").read_text(encoding="utf-8")
    rules: dict[str, list[dict[str, Any]]] = read_yaml(text)
    return rules
