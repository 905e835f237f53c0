"""Services, budgets, fronts and child pools: applied where they differ, deleted where no longer wanted, never taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain import labels
from weft.domain.action import ApplyObject, DeleteObject
from weft.render import ENDPOINTS, ROUTE, has_all_of, surplus, why_taken

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from weft.domain.action import Action
    from weft.domain.cluster import ObjectRecord
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import ResourceKey
    from weft.render import Json

Kind = tuple[str, str]  # (apiVersion, kind)
Identity = tuple[str, str, str]  # (apiVersion, kind, name)
BUDGET = "PodDisruptionBudget"
OF_ROUTERS: frozenset[Kind] = frozenset({("v1", "Service"), ("apps/v1", "Deployment"), ("policy/v1", BUDGET)})
OF_GATEWAYS: frozenset[Kind] = frozenset({ENDPOINTS, ROUTE})
# What an edited spec can make superfluous; the roles grant no more.
_DELETABLE = OF_ROUTERS | OF_GATEWAYS


@dataclass(frozen=True, slots=True)
class ObjectsAround:
    """The objects around one resource, by apiVersion, kind and name: two groups have a kind called InferencePool."""

    owner: ResourceKey
    found: dict[Identity, ObjectRecord]

    @classmethod
    def of(cls, owner: ResourceKey, objects: Iterable[ObjectRecord]) -> ObjectsAround:
        """Objects of the owner's namespace, whoever they belong to."""
        near = (record for record in objects if record.namespace == owner.namespace)
        return cls(owner, {(record.api_version, record.kind, record.name): record for record in near})

    def mine(self, api_version: str, kind: str, name: str) -> ObjectRecord | None:
        """An object that the resource controls, by UID."""
        record = self.found.get((api_version, kind, name))
        return record if record is not None and record.owner_uid == self.owner.uid else None

    def taken(self, wanted: Iterable[Json]) -> Explanation | None:
        """The first wanted name that belongs to somebody else."""
        for body in wanted:
            record = self.at(body)
            if record is not None and record.owner_uid != self.owner.uid:
                return why_taken(_named(record), body)
        return None

    def taken_budget(self, wanted: Iterable[Json]) -> Explanation | None:
        """As `taken`, of what no request needs: a budget protects replicas from evictions."""
        return self.taken(body for body in wanted if body["kind"] == BUDGET)

    def taken_way(self, wanted: Iterable[Json]) -> Explanation | None:
        """As `taken`, of all else: without it, requests do not reach the replicas."""
        return self.taken(body for body in wanted if body["kind"] != BUDGET)

    def apply(self, wanted: Iterable[Json]) -> Iterator[Action]:
        """Apply what is missing or differs; leave alone what is somebody else's or is being deleted."""
        for body in wanted:
            record = self.at(body)
            if record is None or (self.may_touch(record) and not has_all_of(record.body, body)):
                yield ApplyObject(body, first=_labels_of_others(body, record))

    def delete_unwanted(self, wanted: Iterable[Json], spared: Collection[Kind] = ()) -> Iterator[Action]:
        """Delete objects of ours that the resource does not ask for any more, but for `spared` kinds."""
        names = {_identity(body) for body in wanted}
        for (version, kind, name), record in self.ours():
            deletable = (version, kind) in _DELETABLE and (version, kind) not in spared
            if deletable and (version, kind, name) not in names:
                yield DeleteObject(version, kind, record.namespace, name, record.uid)

    def at(self, body: Json) -> ObjectRecord | None:
        """The object with the kind and the name of a rendered one, whoever owns it."""
        return self.found.get(_identity(body))

    def is_to_change(self, body: Json) -> bool:
        """Whether an object of ours is not yet as it is rendered."""
        record = self.at(body)
        return record is not None and self.may_touch(record) and not has_all_of(record.body, body)

    def ours(self) -> list[tuple[Identity, ObjectRecord]]:
        """Objects that the resource owns and nobody deletes, in order: a few of all those of a namespace."""
        return sorted((known, record) for known, record in self.found.items() if self.may_touch(record))

    def may_touch(self, record: ObjectRecord) -> bool:
        """Whether an object is owned by the resource and not being deleted."""
        return record.owner_uid == self.owner.uid and not record.terminating


def _labels_of_others(body: Json, record: ObjectRecord | None) -> tuple[Json, ...]:
    """A patch that takes labels of others out of the selector of a Gateway's InferencePool, in one step.

    In this selector each label has a field owner, and an apply removes none of another owner's; every other kind's
    selector is atomic.
    """
    if record is None or (body["apiVersion"], body["kind"]) != ENDPOINTS:
        return ()
    wanted, there = body["spec"]["selector"], record.body.get("spec", {}).get("selector")
    patch = {"op": "replace", "path": "/spec/selector", "value": wanted}
    return (patch,) if surplus(there, wanted) else ()


def _named(record: ObjectRecord) -> Json:
    """Its kind and metadata, also where its body is not kept."""
    meta = {**record.body.get("metadata", {}), "namespace": record.namespace, "name": record.name}
    return {"kind": record.kind, "metadata": meta}


def _identity(body: Json) -> Identity:
    return body["apiVersion"], body["kind"], body["metadata"]["name"]


def has_this_rendering(record: ObjectRecord, wanted: Json) -> bool:
    """Whether the object was last applied with this very content, so that any difference is somebody else's."""
    return _rendering(record.body) == _rendering(wanted)


def _rendering(body: Json) -> str | None:
    notes = body.get("metadata", {}).get("annotations") or {}
    found: str | None = notes.get(labels.APPLIED)
    return found
