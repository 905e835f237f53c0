"""What an API server keeps of Services, Deployments, PodDisruptionBudgets and child pools, as plain JSON."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from weft.domain.cluster import ObjectRecord
from weft.observe.objects.identity import controller_uid

if TYPE_CHECKING:
    from weft.domain.action import ApplyObject, DeleteObject

Json = dict[str, Any]
_Name = tuple[str, str, str]  # namespace, kind, name


class SimulatedObjects:
    """Objects by namespace, kind and name. A Deployment's pods become ready at once."""

    def __init__(self) -> None:
        """Start without objects."""
        self._found: dict[_Name, ObjectRecord] = {}
        self._made = 0

    def of(self, namespace: str) -> tuple[ObjectRecord, ...]:
        """Return all objects of one namespace."""
        return tuple(each for each in self._found.values() if each.namespace == namespace)

    def at(self, namespace: str, kind: str, name: str) -> ObjectRecord | None:
        """Return one object; None where it does not exist."""
        return self._found.get((namespace, kind, name))

    def apply(self, action: ApplyObject) -> ObjectRecord:
        """Apply an object server-side, after its JSON patch where the object exists; returns the result."""
        meta = action.body["metadata"]
        where = (str(meta["namespace"]), str(action.body["kind"]), str(meta["name"]))
        known = self._found.get(where)
        body = copy.deepcopy(known.body) if known is not None else self._born()
        for operation in action.first if known is not None else ():
            _patch(body, operation)
        _merge(body, action.body)
        if body["kind"] == "Deployment":
            body["status"] = {"readyReplicas": body["spec"]["replicas"]}
        return self._keep(where, body)

    def rewrite(self, record: ObjectRecord, body: Json) -> ObjectRecord:
        """Store the write of another client, such as a count through `/scale`; returns the result."""
        return self._keep((record.namespace, record.kind, record.name), body)

    def delete(self, action: DeleteObject) -> None:
        """Delete an object, if its UID is still the same."""
        where = (action.namespace, action.kind, action.name)
        known = self._found.get(where)
        if known is not None and known.uid == action.uid:
            del self._found[where]

    def _born(self) -> Json:
        self._made += 1
        return {"metadata": {"uid": f"object-{self._made}", "generation": 0}}

    def _keep(self, where: _Name, body: Json) -> ObjectRecord:
        meta = body["metadata"]
        meta["generation"] += 1
        record = ObjectRecord(
            body["apiVersion"], body["kind"], where[0], where[2], meta["uid"], controller_uid(meta), body=body
        )
        self._found[where] = record
        return record


def _merge(known: Json, body: Json) -> None:
    """Merge fields of maps one by one; fields of others stay."""
    for field, value in body.items():
        if isinstance(value, dict) and isinstance(known.get(field), dict):
            _merge(known[field], value)
        else:
            known[field] = copy.deepcopy(value)


def _patch(body: Json, operation: Json) -> None:
    """Apply one operation of a JSON patch to a member of a map."""
    *parents, last = operation["path"].removeprefix("/").split("/")
    for parent in parents:
        body = body[parent]
    if operation["op"] == "remove":
        body.pop(last, None)
    else:
        body[last] = operation["value"]
