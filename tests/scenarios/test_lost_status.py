"""Somebody replaces a status by nothing, or by an old one, while replicas serve: no pod goes and none comes for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from e2e.cluster.presets import h200_boards
from e2e.cluster.waiting import eventually
from tests.installed import GROUP, VERSION
from tests.scenarios.tenants import A_VOLUME, engines, make_users_objects

if TYPE_CHECKING:
    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(150)

Json = dict[str, Any]
JSON_PATCH = "application/json-patch+json"
FROM_A_VOLUME = {"id": "meta-llama/Llama-3.1-8B-Instruct", "source": A_VOLUME}
A_FRONT = {"type": "Managed", "resources": {"cpu": "1", "memory": "1Gi"}}


def test_replicas_and_their_front_outlive_their_status(weft: InstalledWeft, operator: OperatorProcess) -> None:
    """S1, and S2 afterwards: their ids and places are known again, so that the next replica takes neither."""
    place = weft.place("forgotten", h200_boards(1))
    make_users_objects(place)
    place.create_pool("chat", model=FROM_A_VOLUME, router=A_FRONT, scaling={"minReplicas": 2})
    place.wait_ready("chat", 2)
    before, made = there(place), place.status("chat")
    replace_status(place, "chat", {})
    eventually(lambda: places(place) == places_of(made), "the status has both replicas again", timeout_seconds=40)
    place.wait_ready("chat", 2)
    assert there(place) == before

    place.change_pool("chat", {"spec": {"scaling": {"minReplicas": 3}}})
    place.wait_ready("chat", 3)
    assert there(place) > before
    assert sorted(places(place)) == [0, 1, 2]

    grown = there(place)
    replace_status(place, "chat", made)
    eventually(lambda: len(places(place)) == 3, "the status has the third replica again", timeout_seconds=40)
    place.wait_ready("chat", 3)
    assert there(place) == grown


def there(place: Place) -> set[str]:
    """UIDs of engine pods that nobody deletes, and of the Deployment before them."""
    pods = {pod["metadata"]["uid"] for pod in engines(place, "chat") if "deletionTimestamp" not in pod["metadata"]}
    return pods | {body["metadata"]["uid"] for body in place.objects("apis/apps/v1/deployments")}


def places(place: Place) -> dict[int, list[str]]:
    return places_of(place.status("chat"))


def places_of(status: Json) -> dict[int, list[str]]:
    """Nodes by replica."""
    return {each["replica"]: each["nodes"] for each in status.get("assignments") or ()}


def replace_status(place: Place, name: str, status: Json) -> None:
    """As `kubectl replace --subresource=status` does, whoever owns its fields, and whatever is written meanwhile."""
    change = {"op": "replace", "path": "/status", "value": status}
    with place.weft.cluster.api_client() as api:
        client.CustomObjectsApi(api).patch_namespaced_custom_object_status(
            GROUP, VERSION, place.namespace, "inferencepools", name, [change], _content_type=JSON_PATCH
        )
