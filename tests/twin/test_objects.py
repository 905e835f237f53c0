"""What is applied stays as an API server keeps it."""

from __future__ import annotations

from typing import Any

from weft.domain import labels
from weft.domain.action import ApplyObject, DeleteObject
from weft.twin.cluster.objects import SimulatedObjects


def body(kind: str = "Service", **spec: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """An object of the pool with the UID `owner`."""
    owner = {"apiVersion": labels.API_VERSION, "kind": "PDSplit", "name": "duo", "uid": "owner", "controller": True}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "x", "namespace": "team", "ownerReferences": [owner]},
        "spec": spec,
    }


def test_an_apply_sets_its_fields_and_leaves_those_of_others() -> None:
    objects = SimulatedObjects()
    first = objects.apply(ApplyObject(body(scaling={"mode": "External", "replicas": 2})))
    again = objects.apply(ApplyObject(body(scaling={"mode": "External"}, other=1)))
    assert again.body["spec"] == {"scaling": {"mode": "External", "replicas": 2}, "other": 1}
    assert (again.uid, again.owner_uid) == (first.uid, "owner")
    assert again.body["metadata"]["generation"] == 2
    assert first.body["spec"] == {"scaling": {"mode": "External", "replicas": 2}}, "a record never changes"
    assert objects.of("team") == (again,)
    assert objects.of("other") == ()


def test_a_patch_goes_before_the_apply_of_what_is_there_already() -> None:
    objects = SimulatedObjects()
    patch: tuple[dict[str, Any], ...] = ({"op": "remove", "path": "/spec/scaling/replicas"},)
    created = objects.apply(ApplyObject(body(scaling={"replicas": 2}), first=patch))
    assert created.body["spec"] == {"scaling": {"replicas": 2}}
    patched = objects.apply(ApplyObject(body(), first=(*patch, {"op": "add", "path": "/spec/mode", "value": "Auto"})))
    assert patched.body["spec"] == {"scaling": {}, "mode": "Auto"}


def test_the_pods_of_a_front_are_ready_at_once() -> None:
    record = SimulatedObjects().apply(ApplyObject(body("Deployment", replicas=2)))
    assert record.body["status"] == {"readyReplicas": 2}


def test_only_the_very_object_is_deleted() -> None:
    objects = SimulatedObjects()
    record = objects.apply(ApplyObject(body()))
    objects.delete(DeleteObject("v1", "Service", "team", "x", "another"))
    assert objects.at("team", "Service", "x") == record
    objects.delete(DeleteObject("v1", "Service", "team", "x", record.uid))
    assert objects.at("team", "Service", "x") is None
