"""What a resource deletes of a namespace that holds the objects of many."""

from __future__ import annotations

from typing import ClassVar

from weft.converge.domains import delete_left_over
from weft.converge.objects import ObjectsAround
from weft.domain.action import DeleteObject
from weft.domain.cluster import ObjectRecord
from weft.domain.snapshot import ResourceKey

KEY = ResourceKey("InferencePool", "team", "chat", "u-chat")


class Name(str):
    """A name that counts how often it is compared with another."""

    __slots__ = ()
    compared: ClassVar[int] = 0

    def __lt__(self, other: str) -> bool:
        """Whether it comes first."""
        Name.compared += 1
        return str(self) < str(other)


def record(name: str, owner: str) -> ObjectRecord:
    return ObjectRecord("v1", "Service", KEY.namespace, Name(name), f"uid-{name}", owner)


def test_objects_of_others_are_not_put_in_order() -> None:
    """Each pass over each of many pools would sort all objects of their namespace."""
    theirs = [record(f"their-{number}", "theirs") for number in range(100)]
    around = ObjectsAround.of(KEY, [*theirs, record("b", KEY.uid), record("a", KEY.uid)])
    assert ["a", "b"] == [each.name for each in around.delete_unwanted(()) if isinstance(each, DeleteObject)]
    assert [] == list(delete_left_over((), around))
    assert 10 > Name.compared > 0
