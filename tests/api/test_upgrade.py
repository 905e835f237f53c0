"""What a version before wrote is served, and written on, under the definitions of this one."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from tests.api.cases import resource
from tests.api.conftest import install
from tests.eventually import eventually
from weft.api import crds

if TYPE_CHECKING:
    from tests.api.server import Answer, Server

Json = dict[str, Any]
GROUP = "before.weft.dev"  # a copy, as other tests use the definition itself
BY_POSITION = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-list-type": "atomic"}
ESTIMATED = {"message": "", "imageSeconds": 100, "weightsSeconds": 68, "engineSeconds": 148, "measuredSeconds": 140}
BY_NAME = {"setupSeconds": 2, "imageSeconds": 38, "downloadSeconds": 0, "weightsSeconds": 60, "engineSeconds": 40}


def definition() -> tuple[Json, Json]:
    """That of an InferencePool in another group, and therein the fields of `status.startUp`."""
    found: Json = copy.deepcopy(next(each for each in crds() if each["spec"]["names"]["kind"] == "InferencePool"))
    found["metadata"]["name"], found["spec"]["group"] = f"inferencepools.{GROUP}", GROUP
    del found["spec"]["names"]["shortNames"]
    (version,) = found["spec"]["versions"]
    status: Json = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    return found, status["properties"]["startUp"]["properties"]


def test_phases_of_a_start_in_their_order_give_way_to_phases_by_name(server: Server) -> None:
    """The API server drops the list, and takes the next apply of the same field manager."""
    mine = f"/apis/{GROUP}/v1alpha1/namespaces/{server.namespace}/inferencepools"

    def apply(start_up: Json) -> Answer:
        body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "InferencePool", "metadata": {"name": "chat"}}
        query = [("fieldManager", "weft-decide"), ("force", "true"), ("fieldValidation", "Strict")]
        return server.send("PATCH", f"{mine}/chat/status", {**body, "status": {"startUp": start_up}}, query=query)

    def applied(start_up: Json) -> Json:
        """The API server knows the definition by now."""
        answer = apply(start_up)
        assert answer.taken, answer.words
        found: Json = answer.body["status"]["startUp"]
        return found

    before, fields = definition()
    fields.pop("phases")
    fields["phaseSeconds"] = BY_POSITION
    install(server, before)
    pool = {**resource("InferencePool", "chat", {}), "apiVersion": f"{GROUP}/v1alpha1"}
    server.send("POST", mine, pool).expect_taken()
    assert applied({**ESTIMATED, "phaseSeconds": [2, 38, 0, 60, 40]})["phaseSeconds"] == [2, 38, 0, 60, 40]

    install(server, definition()[0])
    found = eventually(lambda: applied({**ESTIMATED, "phases": BY_NAME}), seconds=30.0)
    assert found == {**ESTIMATED, "phases": BY_NAME}
    served = server.send("GET", f"{mine}/chat").expect_taken()
    assert served["status"]["startUp"] == found
