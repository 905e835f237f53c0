"""What admission makes of an object is no reason to apply it again and again."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from tests.apply.test_sending import OWNER, Outbox
from tests.protocol.scripted_server import ScriptedServer
from weft.apply.outcomes import TRIED_AGAIN_SECONDS, ApplyIntent, Outcomes
from weft.domain.action import ApplyObject

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

PATH = "/apis/apps/v1/namespaces/team/deployments/front"
MIRROR = "mirror.internal/"


def deployment(image: str = "vllm/router:1", **meta: object) -> Json:
    made = {"name": "front", "namespace": "team", "ownerReferences": [OWNER], "labels": {"a": "b"}, **meta}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": made, "spec": {"replicas": 2, "image": image}}


class Admitted(Outbox):
    """An API server that keeps one Deployment, whose image a webhook takes from a mirror; `applied` counts writes."""

    def __init__(self, server: ScriptedServer) -> None:
        super().__init__(server)
        self.live: Json | None = None
        self.applied = 0
        server.answer = self.take

    def take(self, request: web.Request) -> web.Response:
        """Read it, or take it in."""
        if request.headers["Content-Type"] == "application/apply-patch+yaml":
            self.applied += 1
            body = json.loads(self.server.requests[-1].body)
            body["metadata"] |= {"uid": "u-1", "resourceVersion": str(self.applied)}
            body["spec"]["image"] = f"{MIRROR}{body['spec']['image']}"
            self.live = {**body, "status": {"readyReplicas": self.applied}}
        return web.json_response(self.live or {}, status=200 if self.live is not None else 404)

    def apply(self, body: Json) -> int:
        """One pass that finds the object different; gives how many writes there were by then."""
        self.writer.carry_out(ApplyObject(body))
        return self.applied


@pytest.fixture
def admitted() -> Iterator[Admitted]:
    with ScriptedServer() as server:
        yield Admitted(server)


def test_what_a_webhook_rewrites_is_written_once(admitted: Admitted) -> None:
    """L3."""
    assert [1, 1, 1] == [admitted.apply(deployment()) for _ in range(3)]


def test_another_rendering_is_written(admitted: Admitted) -> None:
    admitted.apply(deployment())
    assert admitted.apply(deployment("vllm/router:2")) == 2


def test_what_others_note_on_it_is_no_edit_and_an_edit_is_put_back(admitted: Admitted) -> None:
    admitted.apply(deployment())
    assert admitted.live is not None
    admitted.live["metadata"] |= {"annotations": {"deployment.kubernetes.io/revision": "4"}, "generation": 3}
    admitted.live["status"] = {"readyReplicas": 0}
    assert admitted.apply(deployment()) == 1
    admitted.live["spec"]["replicas"] = 9
    assert admitted.apply(deployment()) == 2
    admitted.live["metadata"]["labels"] = {"a": "c"}
    assert admitted.apply(deployment()) == 3


def test_what_has_to_be_patched_first_is_another_apply(admitted: Admitted) -> None:
    """An apply takes nothing from its owner, so that the same one after a patch makes another object."""
    admitted.apply(deployment())
    patch = {"op": "replace", "path": "/spec/replicas", "value": 2}
    admitted.writer.carry_out(ApplyObject(deployment(), first=(patch,)))
    assert admitted.applied == 2


def test_one_that_was_made_anew_is_written(admitted: Admitted) -> None:
    admitted.apply(deployment())
    assert admitted.live is not None
    admitted.live["metadata"]["uid"] = "u-2"
    assert admitted.apply(deployment()) == 2


def test_it_is_tried_again_once_in_a_while() -> None:
    """The policy may be gone, and nothing else would tell."""
    now = [0.0]
    outcomes = Outcomes(lambda: now[0])
    asked, became = ApplyIntent.of(PATH, ApplyObject(deployment())), deployment(f"{MIRROR}vllm/router:1", uid="u-1")
    outcomes.note(asked, became)
    assert outcomes.is_unchanged(asked, became)
    now[0] = TRIED_AGAIN_SECONDS
    assert not outcomes.is_unchanged(asked, became)
