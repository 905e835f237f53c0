"""What an API server keeps of Services, Deployments, budgets and child pools: applies and patches of plain JSON."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from weft.domain.cluster import ObjectRecord
from weft.observe.identity import controller_uid

if TYPE_CHECKING:
    from weft.domain.action import ApplyObject, DeleteObject

Json = dict[str, Any]
_Name = tuple[str, str, str]  # namespace, kind, name


class SimulatedObjects:
    """Objects by namespace, kind and name. A Deployment's pods are ready at once."""

    def __init__(self) -> None:
        """Nothing exists."""
        self._found: dict[_Name, ObjectRecord] = {}
        self._made = 0

    def of(self, namespace: str) -> tuple[ObjectRecord, ...]:
        """All of one namespace."""
        return tuple(each for each in self._found.values() if each.namespace == namespace)

    def at(self, namespace: str, kind: str, name: str) -> ObjectRecord | None:
        """One of them."""
        return self._found.get((namespace, kind, name))

    def apply(self, action: ApplyObject) -> ObjectRecord:
        """The object after a server-side apply, and after its patch where it was there already."""
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
        """Somebody else's write, such as a count through `/scale`."""
        return self._keep((record.namespace, record.kind, record.name), body)

    def delete(self, action: DeleteObject) -> None:
        """Gone, if it is still the same."""
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
    """Fields of maps one by one; nothing of others goes away."""
    for field, value in body.items():
        if isinstance(value, dict) and isinstance(known.get(field), dict):
            _merge(known[field], value)
        else:
            known[field] = copy.deepcopy(value)


def _patch(body: Json, operation: Json) -> None:
    """One operation of a JSON patch on a member of a map."""
    *parents, last = operation["path"].removeprefix("/").split("/")
    for parent in parents:
        body = body[parent]
    if operation["op"] == "remove":
        body.pop(last, None)
    else:
        body[last] = operation["value"]
