"""Strict reading of untrusted JSON objects: every value is checked, every complaint names its field."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason

LARGEST = 1 << 40  # far beyond any size in a config.json, and small enough that products are exact floats
LONGEST_LIST = 10_000
MOST_LAYERS = 1000
_ABSENT = object()


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object and its path; `fallback` has the defaults of the class for what it lacks."""

    model_id: str
    values: dict[str, Any]
    fallback: dict[str, Any]
    path: str = ""

    def refuse(self, sentence: str) -> NoReturn:
        """Raise `Invalid` (ArchitectureUnsupported) for this config.json."""
        raise Invalid(Reason.ArchitectureUnsupported, f"config.json of {self.model_id}: {sentence}")

    def raw(self, name: str) -> Any:  # noqa: ANN401 - whatever JSON holds
        """A value as it stands, else the default of the architecture's class, else None."""
        value = self.values.get(name, _ABSENT)
        return self.fallback.get(name) if value is _ABSENT else value

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number above zero; `default` is what other fields imply; without it the field is required."""
        value = self.raw(name)
        if value is None and default is not None:
            return default
        return self._whole(name, value, least=1)

    def count(self, name: str, default: int | None = None) -> int:
        """A whole number of zero or more; required without a `default`."""
        value = self.raw(name)
        if value is None and default is not None:
            return default
        return self._whole(name, value, least=0)

    def number_of_layers(self) -> int:
        """`num_hidden_layers`, of which there may be only so many."""
        layers = self.size("num_hidden_layers")
        if layers > MOST_LAYERS:
            self.refuse(f"num_hidden_layers must be at most {MOST_LAYERS}, not {layers}")
        return layers

    def flag(self, name: str, *, default: bool) -> bool:
        """A boolean, or `default` if it is absent."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(f"{self.path}{name} must be true or false, not {_shown(value)}")
        return value

    def text(self, name: str) -> str | None:
        """A string, or None if it is absent."""
        value = self.raw(name)
        if value is not None and not isinstance(value, str):
            self.refuse(f"{self.path}{name} must be a string, not {_shown(value)}")
        return value

    def items(self, name: str) -> list[Any] | None:
        """A list, or None if it is absent."""
        value = self.raw(name)
        if value is not None and (not isinstance(value, list) or len(value) > LONGEST_LIST):
            self.refuse(f"{self.path}{name} must be a list, not {_shown(value)}")
        return value

    def positive(self, name: str) -> float:
        """A required number above zero."""
        value = self.raw(name)
        if value is None:
            self.refuse(f"{self.path}{name} is missing: a number above 0 is needed")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
            self.refuse(f"{self.path}{name} must be a number above 0, not {_shown(value)}")
        return float(value)

    def objects(self, name: str) -> list[Fields]:
        """A list of objects; empty if it is absent."""
        return [self._object(f"{name}[{index}]", each) for index, each in enumerate(self.items(name) or [])]

    def inner(self, name: str) -> Fields | None:
        """A nested object, or None if it is absent."""
        value = self.raw(name)
        return None if value is None else self._object(name, value)

    def _object(self, name: str, value: object) -> Fields:
        if not isinstance(value, dict):
            self.refuse(f"{self.path}{name} must be an object, not {_shown(value)}")
        return Fields(self.model_id, value, {}, f"{self.path}{name}.")

    def _whole(self, name: str, value: object, least: int) -> int:
        if value is None:
            self.refuse(f"{self.path}{name} is missing: a whole number of at least {least} is needed")
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(f"{self.path}{name} must be a whole number, not {_shown(value)}")
        if not least <= value <= LARGEST or value != int(value):  # NaN and infinity fail the first comparison
            self.refuse(f"{self.path}{name} must be a whole number of at least {least}, not {_shown(value)}")
        return int(value)


def parse_object(model_id: str, text: str) -> Fields:
    """The JSON object in `text`; raises `Invalid` for anything else."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        sentence = f"config.json of {model_id}: is not JSON ({error}): is it whole?"
        raise Invalid(Reason.ArchitectureUnsupported, sentence) from None
    if not isinstance(values, dict):
        sentence = f"config.json of {model_id}: must be an object, not {_shown(values)}"
        raise Invalid(Reason.ArchitectureUnsupported, sentence)
    return Fields(model_id, values, {})


def _shown(value: object) -> str:
    """An untrusted value, short enough for a condition."""
    return f"{value!r:.60}"
