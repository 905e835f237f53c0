"""What somebody may have meant by a field that is not there: one by nearly the same name, or one in another place."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args, get_origin

from weft.api.rules import ApiModel

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_PATH_PART = 64
_MOST_FIELDS_NAMED = 24
_MOST_PLACES_NAMED = 2

Place = tuple[int | str, ...]


class ResourceKind(NamedTuple):
    """A kind of resource by its name, with what its spec is."""

    name: str
    spec: type[ApiModel]


def known_fields(model: type[ApiModel], loc: Place, path: str = "spec", other: ResourceKind | None = None) -> str:
    """What could be meant by the unknown field at `loc` below `path`, and the fields that its object has."""
    *above, unknown = loc
    found: type[ApiModel] | None = model
    for part in above:
        found = member(found, part) if found is not None else None
    if found is None:
        return "unknown field"
    known = aliases(found)
    close = get_close_matches(str(unknown)[:LONGEST_PATH_PART], known, n=1)
    below = _elsewhere(found, str(unknown), ".".join((path, *map(str, above)))) if above and not close else ""
    meant = f", perhaps {close[0]}" if close else below or _elsewhere(model, str(unknown), path)
    if not above and other is not None and str(unknown) in aliases(other.spec):
        meant = f" (kind {other.name} has it)"
    return f"unknown field{meant}; the known ones are {', '.join(known[:_MOST_FIELDS_NAMED])}"


def fields_at(model: type[ApiModel], loc: Place) -> list[str]:
    """The fields, or keys, of the object that belongs at `loc`; none where any are allowed."""
    *above, last = loc
    outer: type[ApiModel] | None = model
    for part in above:
        outer = member(outer, part) if outer is not None else None
    if outer is None:
        return []
    annotations = [field.annotation for name, field in outer.model_fields.items() if (field.alias or name) == last]
    found = _model_in(annotations[0]) if annotations else None
    return aliases(found)[:_MOST_FIELDS_NAMED] if found is not None else list(map(str, _keys(annotations)))


def aliases(model: type[ApiModel]) -> list[str]:
    """The names of all fields, as users write them."""
    return sorted(field.alias or name for name, field in model.model_fields.items())


def member(model: type[ApiModel], part: int | str) -> type[ApiModel] | None:
    """The model of one field, or of the items of a list."""
    if isinstance(part, int):
        return model  # the items of a list have the model of the list
    fields = (field for name, field in model.model_fields.items() if (field.alias or name) == part)
    return next((_model_in(field.annotation) for field in fields), None)


def _elsewhere(model: type[ApiModel], name: str, path: str) -> str:
    """The places nearest the top that have a field of that name; nothing for a name that many objects have."""
    found = [place for place in _places(model, ()) if place[-1] == name]
    if not 0 < len({place[-2:] for place in found}) <= _MOST_PLACES_NAMED:
        return ""
    depth = min(map(len, found))
    return f", perhaps {' or '.join('.'.join((path, *place)) for place in found if len(place) == depth)}"


def _places(model: type[ApiModel], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every field of every object below, but not of the items of lists."""
    for name, field in model.model_fields.items():
        place = (*above, field.alias or name)
        yield place
        inner = None if _is_list(field.annotation) else _model_in(field.annotation)
        if inner is not None:
            yield from _places(inner, place)


def _is_list(annotation: Any) -> bool:  # noqa: ANN401 - any type annotation
    return get_origin(annotation) is list or any(map(_is_list, get_args(annotation)))


def _keys(annotations: list[Any]) -> tuple[Any, ...]:
    """The keys of a `dict[Literal[...], ...]`."""
    inner = get_args(annotations[0]) if annotations and get_origin(annotations[0]) is dict else ()
    return get_args(inner[0]) if inner and get_origin(inner[0]) is Literal else ()


def _model_in(annotation: Any) -> type[ApiModel] | None:  # noqa: ANN401 - any type annotation
    """The model that an annotation such as `Slo | None` or `list[EnvVar]` is about."""
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _model_in(inner)) is not None), None)
