"""A value that is made often is, once made, what a frozen dataclass makes of the same fields."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from weft.domain.pool_memory import ScaleMemory
from weft.domain.snapshot import PoolObservation
from weft.domain.status import PoolStatus
from weft.domain.values.changed import changed
from weft.domain.values.made_often import made_often


@dataclass(frozen=True, slots=True)
class Usual:
    name: str
    size: int = 3
    parts: tuple[int, ...] = ()
    notes: dict[str, int] = field(default_factory=dict)


@made_often
@dataclass(frozen=True, slots=True)
class Quick:
    name: str
    size: int = 3
    parts: tuple[int, ...] = ()
    notes: dict[str, int] = field(default_factory=dict)


ARGUMENTS: list[tuple[list[Any], dict[str, Any]]] = [
    (["a"], {}),
    (["a", 4, (1, 2), {"x": 1}], {}),
    ([], {"parts": (1,), "name": "b"}),
    (["a"], {"notes": {}}),
]


@pytest.mark.parametrize(("given", "named"), ARGUMENTS)
def test_it_has_the_fields_that_the_usual_constructor_gives_it(given: list[Any], named: dict[str, Any]) -> None:
    """Given by place, by name or not at all."""
    usual, quick = Usual(*given, **named), Quick(*given, **named)
    assert [(each.name, getattr(usual, each.name)) for each in fields(usual)] == [
        (each.name, getattr(quick, each.name)) for each in fields(quick)
    ]
    assert repr(usual).removeprefix("Usual") == repr(quick).removeprefix("Quick")


def test_each_value_has_a_default_of_its_own() -> None:
    """A factory is asked for every value."""
    assert Quick("a").notes is not Quick("a").notes


def test_it_cannot_be_changed() -> None:
    """Not by assignment, not by deletion, and it has no room for more; nor has a changed one."""
    for value in (Quick("a"), changed(Quick("a"), size=4)):
        with pytest.raises(FrozenInstanceError):
            value.size = 5  # type: ignore[misc]
        with pytest.raises(FrozenInstanceError):
            del value.size
        assert not hasattr(value, "__dict__")


def test_it_is_of_its_own_class() -> None:
    """Equal to the same value of this class alone, however it was made; the open twin is never seen."""
    value = Quick("a", parts=(1,))
    alike = [changed(Quick("b", parts=(1,)), name="a"), replace(value), copy.copy(value), copy.deepcopy(value)]
    for other in (*alike, pickle.loads(pickle.dumps(value))):  # noqa: S301 - ours
        assert Quick is type(other)
        assert value == other
    usual: object = Usual("a", parts=(1,))
    assert value != usual


def test_equal_values_have_one_hash() -> None:
    """As keys of dictionaries."""
    assert 1 == len({ScaleMemory(1.0), changed(ScaleMemory(2.0), since=1.0)})


@pytest.mark.parametrize("arguments", [{}, {"name": "a", "colour": 1}], ids=["too few", "unknown"])
def test_wrong_arguments_are_refused_in_the_name_of_the_class(arguments: dict[str, Any]) -> None:
    """As any constructor does."""
    with pytest.raises(TypeError, match="Quick"):
        Quick(**arguments)


def test_what_is_more_than_its_fields_is_refused() -> None:
    """A class that does something when it is made would no longer do it."""

    @dataclass(frozen=True, slots=True)
    class Checked:
        name: str
        size: int

        def __post_init__(self) -> None:
            raise ValueError(self.name)

    with pytest.raises(TypeError, match="Checked"):
        made_often(Checked)


@pytest.mark.parametrize("kind", [ScaleMemory, PoolStatus, PoolObservation], ids=lambda kind: kind.__name__)
def test_tools_read_its_parameters(kind: type) -> None:
    """Help and editors name the fields, in order."""
    assert [each.name for each in fields(kind)] == list(inspect.signature(kind).parameters)
