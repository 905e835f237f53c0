"""What is wrong with a body, in one sentence that names the field and what is allowed."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

from weft.api.rules import ApiModel
from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from weft.api.rules import Json

_LONGEST_PATH_PART = 64
_IN_PLAIN_WORDS = {
    "missing": "this field is required",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "string_type": "must be a text, in quotes where YAML reads something else",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "invalid_key": "a key must be a text, in quotes where YAML reads something else",
}
_MOST_FIELDS_NAMED = 24
_LONGEST_VALUE = 60
_WITHOUT_A_VALUE = frozenset({"missing", "extra_forbidden", "invalid_key"})  # or the field itself is the mistake


def spec_problem(message: str) -> Explanation:
    """A spec that cannot be understood; its owner must edit it."""
    return Explanation(Reason.SpecInvalid, _printable(message))


def explain(error: ValidationError, model: type[ApiModel], path: str = "spec") -> Explanation:
    """The first thing that is wrong, and how many more there are; a misspelt field before the one it leaves unset."""
    errors = error.errors(include_url=False)
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    where = ".".join([path, *(_part(part) for part in first["loc"] if part != "[key]")])
    return spec_problem(f"{where}: {_allowed(first, model)}{_given(first)}{more}")


def unknown_override(side: Json, model: type[ApiModel], path: str) -> Explanation | None:
    """The first field that the sections of a side do not have, although a whole pool may."""
    for section, override in side.items():
        found = _member(model, section)
        known = _aliases(found) if found is not None else []
        names = override if isinstance(override, dict) and known else ()
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            return spec_problem(f"{path}.{_part(section)}.{_part(unknown)}: {_known_fields(model, (section, unknown))}")
    return None


def _aliases(model: type[ApiModel]) -> list[str]:
    return sorted(field.alias or name for name, field in model.model_fields.items())


def _allowed(error: ErrorDetails, model: type[ApiModel]) -> str:
    if error["type"] == "extra_forbidden":
        return _known_fields(model, error["loc"])
    if error["type"] in _IN_PLAIN_WORDS:
        return _IN_PLAIN_WORDS[error["type"]]
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
        shown = repr(value)
    except ValueError:  # an integer with more digits than Python writes
        return ""
    if len(shown) > _LONGEST_VALUE and not isinstance(value, str):
        return ""
    return f", not {shown[:_LONGEST_VALUE]}"


def _known_fields(model: type[ApiModel], loc: tuple[int | str, ...]) -> str:
    """What could be meant by the unknown field at `loc`, and the fields that its object has."""
    *above, unknown = loc
    found: type[ApiModel] | None = model
    for part in above:
        found = _member(found, part) if found is not None else None
    if found is None:
        return "unknown field"
    known = _aliases(found)
    close = get_close_matches(str(unknown)[:_LONGEST_PATH_PART], known, n=1)
    meant = f", perhaps {close[0]}" if close else ""
    return f"unknown field{meant}; the known ones are {', '.join(known[:_MOST_FIELDS_NAMED])}"


def _member(model: type[ApiModel], part: int | str) -> type[ApiModel] | None:
    if isinstance(part, int):
        return model  # the items of a list have the model of the list
    fields = (field for name, field in model.model_fields.items() if (field.alias or name) == part)
    return next((_model_in(field.annotation) for field in fields), None)


def _model_in(annotation: Any) -> type[ApiModel] | None:  # noqa: ANN401 - any type annotation
    """The model that an annotation such as `Slo | None` or `list[EnvVar]` is about."""
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _model_in(inner)) is not None), None)


def _part(part: int | str) -> str:
    text = str(part)
    return text if len(text) <= _LONGEST_PATH_PART else f"{text[:_LONGEST_PATH_PART]}…"


def _printable(text: str) -> str:
    """Text that survives JSON and UTF-8: lone surrogates and control characters are shown, not sent."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
