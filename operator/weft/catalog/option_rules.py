"""What an engine's options accept and require, by release."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from typing import TYPE_CHECKING, Any

from weft.catalog.limits import numbers
from weft.catalog.loading import read_yaml

if TYPE_CHECKING:
    from weft.domain.shape import EngineName


class Need(StrEnum):
    """What a shape must have."""

    Experts = "Experts"
    Ranks = "Ranks"
    SeveralGPUs = "SeveralGPUs"


@dataclass(frozen=True, slots=True)
class OptionRule:
    """One rule of one option; `option_rules.yaml` explains each field."""

    option: str
    values: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    beside: str = ""
    variable: str = ""
    allowed: tuple[str, ...] = ()
    vendor: str = ""
    unless: str = ""
    experts: bool = False
    slots: bool = False
    spans: bool = False

    @property
    def shown(self) -> str:
        """The option as users write it."""
        return as_written(self.option)


def as_written(option: str) -> str:
    """`--set key` for `--set.key`."""
    return option.replace("--set.", "--set ", 1)


@functools.lru_cache(maxsize=256)
def option_rules(engine: EngineName, version: str) -> tuple[OptionRule, ...]:
    """Rules of a release; empty for an engine without rules. A version that cannot be parsed is a recent build."""
    rows, release = _table().get(engine.value, ()), numbers(version)
    return tuple(_rule(row) for row in rows if _covers(row, release))


def allowed_values(engine: EngineName, version: str, option: str) -> tuple[str, ...]:
    """The values that an option accepts; empty if it accepts any."""
    return next((rule.values for rule in option_rules(engine, version) if rule.option == option and rule.values), ())


def _rule(row: dict[str, Any]) -> OptionRule:
    fields = {
        name: value for name, value in row.items() if name not in {"since", "until", "values", "allowed", "needs"}
    }
    return OptionRule(
        **fields,
        values=tuple(map(str, row.get("values", ()))),
        allowed=tuple(map(str, row.get("allowed", ()))),
        needs=tuple(map(Need, row.get("needs", ()))),
    )


def _covers(row: dict[str, Any], release: tuple[int, ...] | None) -> bool:
    since, until = (numbers(str(row.get(bound, ""))) for bound in ("since", "until"))
    if release is None:
        return until is None
    return (since is None or release >= since) and (until is None or release <= until)


@functools.cache
def _table() -> dict[str, list[dict[str, Any]]]:
    text = resources.files("weft.catalog").joinpath("option_rules.yaml").read_text(encoding="utf-8")
    table: dict[str, list[dict[str, Any]]] = read_yaml(text)
    return table
