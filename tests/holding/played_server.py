"""An API server behind the operator's own writer, around a simulated cluster: versions, owners of fields, conflicts.

It answers requests as the operator sends them, so that what a write asks of the API server counts as well.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.converge.world import merge, patch
from weft.apply.kinds import PLURALS
from weft.apply.sending import JSON_PATCH, STRATEGIC_PATCH, ApiRequest, ApiResponse, ServerError
from weft.control.statuses.status import LIST_KEYS
from weft.domain.action import ApplyObject, CreatePod, DeleteObject, DeletePod, ReleasePods
from weft.domain.errors import Retry
from weft.domain.labels import GROUP
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.holding.cluster import Cluster
    from weft.domain.action import Action

Json = dict[str, Any]
KINDS = {plural: (version, kind) for (version, kind), plural in PLURALS.items() if not version.startswith(GROUP)}
MODIFIED, DENIED = "the object has been modified", 'admission webhook "policy" denied the request: no'
THROTTLED, FAILING, LOST, CONFLICT, FORBIDDEN = ANSWERS = ("throttled", "failing", "lost", "conflict", "forbidden")
NOT_FOUND = ApiResponse(404, {"message": "not found"})


@dataclass
class PlayedServer:
    """Pools are `bodies` by name; all else is in the cluster.

    `about_to` is told of each write to the cluster, `wrote` of any; `changed` gets each pool that is another one now.
    `answers` are those to the next writes, `only` of one method and content type where it is set.
    """

    cluster: Cluster
    bodies: dict[str, Json]
    about_to: Callable[[Action], None]
    wrote: Callable[[], None]
    changed: Callable[[Json], None]
    answers: list[str] = field(default_factory=list)
    only: tuple[str, str] | None = None
    version: int = 1
    parts: dict[str, dict[str, Json]] = field(default_factory=dict)  # statuses by UID and manager

    def get(self, path: str) -> ApiResponse:
        return self._answer(ApiRequest("GET", path))

    def send(self, request: ApiRequest) -> ApiResponse:
        """Answer a write, or as it is told to."""
        meant = request.method != "GET" and self.only in {None, (request.method, request.content_type)}
        answer = self.answers.pop(0) if self.answers and meant else ""
        if answer == THROTTLED:
            raise Retry(Reason.ApiUnavailable, "429 Too Many Requests")
        if answer == FAILING:
            raise ServerError("etcdserver: leader changed")
        if answer == CONFLICT:
            return ApiResponse(409, {"message": MODIFIED})
        if answer == FORBIDDEN and request.method == "POST":
            return ApiResponse(403, {"message": DENIED})
        done = self._answer(request)
        if done.ok and request.method != "GET":
            self.wrote()
        if answer == LOST:
            raise Retry(Reason.ApiUnavailable, "the API server cannot be reached")
        return done

    def publish(self, body: Json) -> None:
        """A pool has another version."""
        self.version += 1
        body["metadata"]["resourceVersion"] = str(self.version)
        self.changed(copy.deepcopy(body))

    def _answer(self, request: ApiRequest) -> ApiResponse:
        root, _, tail = request.path.partition("/namespaces/")
        _, plural, *names = tail.split("/")
        if plural == "pods":
            return self._of_pods(request, names)
        if root.startswith(f"/apis/{GROUP}"):
            return self._of_pools(request, names)
        return self._of_objects(request, *KINDS[plural], names[0])

    def _of_pools(self, request: ApiRequest, names: list[str]) -> ApiResponse:
        if request.method == "GET":  # whether one is listed whose status was not found
            wanted = dict(request.query)["fieldSelector"].removeprefix("metadata.name=")
            return ApiResponse(200, {"items": [body for name, body in self.bodies.items() if name == wanted]})
        body, meta = self.bodies.get(names[0]), request.body["metadata"]
        if body is None:
            return NOT_FOUND
        if any(meta[key] != body["metadata"][key] for key in ("uid", "resourceVersion")):
            return ApiResponse(409, {"message": MODIFIED})
        parts = self.parts.setdefault(meta["uid"], {})
        parts[dict(request.query)["fieldManager"]] = copy.deepcopy(request.body["status"])
        body["status"] = _together(parts)
        body["metadata"]["managedFields"] = [
            {"manager": manager, "subresource": "status", "fieldsV1": {"f:status": owned(part)}}
            for manager, part in parts.items()
        ]
        self.publish(body)
        return ApiResponse(200, copy.deepcopy(body))

    def _of_objects(self, request: ApiRequest, version: str, kind: str, name: str) -> ApiResponse:
        found = [each for each in self.cluster.objects_of("team") if (each.kind, each.name) == (kind, name)]
        live = found[0] if found else None
        if request.method == "GET":
            return ApiResponse(200, copy.deepcopy(live.body)) if live is not None else NOT_FOUND
        if request.content_type == JSON_PATCH or request.method == "DELETE":
            return self._of_one(request, live.uid if live is not None else None, (version, kind, name))
        meta = {key: value for key, value in request.body["metadata"].items() if key != "uid"}
        if request.body["metadata"].get("uid") not in {None, live.uid if live is not None else None}:
            return ApiResponse(409, {"message": MODIFIED})
        body = {**request.body, "metadata": meta}
        self._carry_out(ApplyObject(body, dict(request.query)["fieldManager"]))
        return ApiResponse(200, copy.deepcopy(self.cluster.object(kind, name)))

    def _of_one(self, request: ApiRequest, uid: str | None, named: tuple[str, str, str]) -> ApiResponse:
        """A deletion, or a patch that first tests the UID."""
        version, kind, name = named
        deletes = request.method == "DELETE"
        asked = request.body["preconditions"]["uid"] if deletes else request.body[0]["value"]
        if uid is None:
            return NOT_FOUND
        if uid != asked:
            return ApiResponse(409 if deletes else 422, {"message": MODIFIED})
        if deletes:
            self._carry_out(DeleteObject(version, kind, "team", name, uid))
        else:
            for operation in request.body[1:]:
                patch(self.cluster.object(kind, name), operation)
        return ApiResponse(200)

    def _of_pods(self, request: ApiRequest, names: list[str]) -> ApiResponse:
        name = names[0] if names else request.body["metadata"]["name"]
        live = self.cluster.pods.get(name)
        if request.method == "POST":
            if live is not None:
                return ApiResponse(409, {"message": "already exists"})
            self._carry_out(CreatePod(request.body))
        elif live is None:
            return NOT_FOUND
        elif request.method != "GET":
            asked = request.body["preconditions" if request.method == "DELETE" else "metadata"]["uid"]
            if asked != live["metadata"]["uid"]:
                return ApiResponse(409, {"message": MODIFIED})
            self._change(request, name, asked)
        return ApiResponse(200, copy.deepcopy(self.cluster.pods.get(name, {})))

    def _change(self, request: ApiRequest, name: str, uid: str) -> None:
        if request.method == "DELETE":
            self._carry_out(DeletePod("team", name, uid, request.body.get("gracePeriodSeconds")))
        elif request.content_type == STRATEGIC_PATCH:
            self._carry_out(ReleasePods("team", ((name, uid),)))
        else:
            meta = self.cluster.pods[name]["metadata"]
            for kind in ("labels", "annotations"):
                known = {**meta.get(kind, {}), **request.body["metadata"].get(kind, {})}
                meta[kind] = {key: value for key, value in known.items() if value is not None}

    def _carry_out(self, action: Action) -> None:
        self.about_to(action)
        self.cluster.carry_out(action)


def _together(parts: dict[str, Json]) -> Json:
    """The status that several managers applied: maps and keyed lists have what each of them wants."""
    found: Json = {}
    for part in parts.values():
        lists = {key: [*found.get(key, ()), *value] for key, value in part.items() if key in LIST_KEYS}
        merge(found, {key: value for key, value in part.items() if key not in LIST_KEYS}, whole=())
        found |= copy.deepcopy(lists)
    return found


def owned(applied: Json) -> Json:
    """The fields of what was applied, as `managedFields` name them."""
    return {f"f:{key}": _owned_in(key, value) for key, value in applied.items()}


def _owned_in(key: str, value: Any) -> Json:  # noqa: ANN401 - any JSON
    if key in LIST_KEYS:
        name = LIST_KEYS[key]
        return {f"k:{json.dumps({name: item[name]})}": owned(item) for item in value}
    return owned(value) if isinstance(value, dict) else {}
