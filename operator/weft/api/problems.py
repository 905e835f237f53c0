"""What is wrong with a body, in one sentence that names the field and what is allowed."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import TYPE_CHECKING

from weft.api.meant import LONGEST_PATH_PART, aliases, fields_at, known_fields, member
from weft.api.patterns import IN_WORDS
from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import counted

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from weft.api.meant import ResourceKind
    from weft.api.rules import ApiModel, Json

_IN_PLAIN_WORDS = {
    "missing": "this field is required",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "string_type": "must be a string, in quotes where YAML reads something else",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "invalid_key": "a key must be a string, in quotes where YAML reads something else",
}
_OF_EVERY_RESOURCE = ("apiVersion", "kind", "metadata", "spec", "status")
_OBJECTS = frozenset({"model_type", "dict_type"})
_LONGEST_VALUE = 60
_WITHOUT_A_VALUE = frozenset({"missing", "extra_forbidden", "invalid_key"})  # or the field itself is the mistake


def spec_problem(message: str) -> Explanation:
    """A spec that cannot be understood; its owner must edit it."""
    return Explanation(Reason.SpecInvalid, _printable(message))


def explain(
    error: ValidationError, model: type[ApiModel], path: str = "spec", other: ResourceKind | None = None
) -> Explanation:
    """The first thing that is wrong, and how many more there are; a misspelt field before the one it leaves unset.

    `other` is the kind that may be meant by a field which `model` does not have.
    """
    errors = error.errors(include_url=False)
    more = f"; and {counted(len(errors) - 1, 'other mistake')}" if len(errors) > 1 else ""
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    where = ".".join([path, *(_part(part) for part in first["loc"] if part != "[key]")])
    return spec_problem(f"{where}: {_allowed(first, model, path, other)}{_given(first)}{more}")


def misplaced(body: Json, model: type[ApiModel]) -> Explanation | None:
    """The first field beside `spec` that no resource has, which the API server would drop: often one of the spec.

    One that stands a line further to the left than it should would else count for nothing, in silence.
    """
    unknown = next((name for name in body if name not in _OF_EVERY_RESOURCE), None)
    if unknown is None:
        return None
    name = _part(unknown)
    if unknown in aliases(model):
        return spec_problem(f"{name}: unknown field beside spec: indent it, so that it is spec.{name}")
    close = get_close_matches(name, _OF_EVERY_RESOURCE, n=1)
    meant = f", perhaps {close[0]}" if close else ""
    return spec_problem(f"{name}: unknown field{meant}; the known ones are {', '.join(_OF_EVERY_RESOURCE)}")


def unknown_override(side: Json, model: type[ApiModel], path: str, split: type[ApiModel]) -> Explanation | None:
    """The first field that the sections of a side do not have, although a whole pool may, or the `split` for both."""
    for section, override in side.items():
        found = member(model, section)
        known = aliases(found) if found is not None else []
        names = override if isinstance(override, dict) and known else ()
        unknown = next((name for name in names if name not in known), None)
        both = member(split, section)
        if unknown is not None and both is not None and unknown in aliases(both):
            place = f"{_part(section)}.{_part(unknown)}"
            told = f"unknown field, as both sides have the same: write spec.{place}; the known ones are"
            return spec_problem(f"{path}.{place}: {told} {', '.join(known)}")
        if unknown is not None:
            return spec_problem(
                f"{path}.{_part(section)}.{_part(unknown)}: {known_fields(model, (section, unknown), path)}"
            )
    return None


def _allowed(error: ErrorDetails, model: type[ApiModel], path: str, other: ResourceKind | None) -> str:
    if error["type"] == "extra_forbidden":
        return known_fields(model, error["loc"], path, other)
    if error["type"] in _IN_PLAIN_WORDS:
        fields = fields_at(model, error["loc"]) if error["type"] in _OBJECTS else []
        return _IN_PLAIN_WORDS[error["type"]] + (f" (its fields are {', '.join(fields)})" if fields else "")
    if (told := IN_WORDS.get(error.get("ctx", {}).get("pattern", ""))) is not None:
        return told
    message = error["msg"].removeprefix("Value error, ")
    for theirs in ("Input should ", "String should ", "List should ", "Dictionary should "):
        message = message.replace(theirs, "must ")
    return message[:1].lower() + message[1:]


def _given(error: ErrorDetails) -> str:
    """What stands there instead; of a long text its beginning, and no whole object that takes more words."""
    value = error["input"]
    if error["type"] in _WITHOUT_A_VALUE:
        return ""
    try:
        shown = _as_yaml(value)
    except ValueError:  # an integer with more digits than Python writes
        return ""
    if len(shown) > _LONGEST_VALUE and not isinstance(value, str):
        return ""
    if isinstance(value, dict) or ": " in error["msg"]:  # a rule, which "not" would seem to go on with
        return f" (given: {shown[:_LONGEST_VALUE]})"
    return f", not {shown[:_LONGEST_VALUE]}"


def _as_yaml(value: object) -> str:
    """Return a value as it may stand in a resource, on one line, with texts in quotes."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_as_yaml(inner)}' for key, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_yaml, value))}]"
    return repr(value)


def _part(part: int | str) -> str:
    text = str(part)
    return text if len(text) <= LONGEST_PATH_PART else f"{text[:LONGEST_PATH_PART]}…"


def _printable(text: str) -> str:
    """Text that survives JSON and UTF-8: lone surrogates and control characters are shown, not sent."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
