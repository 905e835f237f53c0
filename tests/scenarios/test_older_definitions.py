"""F20: an operator whose definitions are of an earlier release does its work, and leaves out what they lack."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from e2e.cluster.presets import h200_boards
from e2e.cluster.waiting import eventually
from tests.installed import GROUP, PLACE_LABEL, VERSION
from tests.scenarios.test_steady_state import written_during

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.control_plane import ControlPlane
    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(150)

Json = dict[str, Any]
NAME = "inferencepools.weft.dev"
LACKS = ("startUp", "recommendedReplicas")


def test_pools_are_served_though_their_definition_lacks_fields_of_the_status(
    weft: InstalledWeft, control_plane: ControlPlane, operator: OperatorProcess
) -> None:
    place = weft.place("earlier", h200_boards(1))
    with earlier_definition(weft):
        place.create_pool("chat", placement={"nodeSelector": {PLACE_LABEL: "nowhere"}})
        eventually(lambda: is_refused(place), "the API server has taken it over")
        place.change_pool("chat", {"spec": {"placement": {"nodeSelector": {PLACE_LABEL: place.namespace}}}})
        place.wait_ready("chat")
        place.change_pool("chat", {"spec": {"scaling": {"minReplicas": 2}}})
        place.wait_ready("chat", 2)
        assert not place.status("chat").keys() & set(LACKS)
        eventually(lambda: not written_during(control_plane, operator, 2), "writing ends", timeout_seconds=60)
        assert written_during(control_plane, operator, 5) == []


def is_refused(place: Place) -> bool:
    """Whether the API server has taken the definition over: it refuses what that lacks."""
    with place.weft.cluster.api_client() as api:
        body = {"kind": "InferencePool", "apiVersion": f"{GROUP}/{VERSION}", "status": {LACKS[0]: {}}}
        path = f"/apis/{GROUP}/{VERSION}/namespaces/{place.namespace}/inferencepools/chat/status"
        query = [("fieldManager", "somebody"), ("dryRun", "All")]
        headers = {"Content-Type": "application/apply-patch+yaml", "Accept": "application/json"}
        request = api.param_serialize("PATCH", path, query_params=query, header_params=headers, body=body)
        answer = api.call_api(*request)
        return "not declared in schema" in str(json.loads(answer.read()).get("message"))


def definitions(weft: InstalledWeft) -> list[Json]:
    with weft.cluster.api_client() as api:
        found = client.ApiextensionsV1Api(api).list_custom_resource_definition()
        listed: list[Json] = api.sanitize_for_serialization(found)["items"]
    return listed


def declared(definition: Json) -> Json:
    """Those of the fields that it has, to be taken out."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    return {name: schema[name] for name in LACKS if name in schema}


@contextmanager
def earlier_definition(weft: InstalledWeft) -> Iterator[None]:
    """As long as it lasts, the definition of pools lacks some fields."""
    (now,) = (body for body in definitions(weft) if body["metadata"]["name"] == NAME)
    at = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties"
    fields = declared(now)
    patch(weft, [{"op": "remove", "path": f"{at}/{name}"} for name in fields])
    try:
        yield
    finally:
        patch(weft, [{"op": "add", "path": f"{at}/{name}", "value": value} for name, value in fields.items()])


def patch(weft: InstalledWeft, changes: list[Json]) -> None:
    with weft.cluster.api_client() as api:
        client.ApiextensionsV1Api(api).patch_custom_resource_definition(
            NAME, changes, _content_type="application/json-patch+json"
        )
