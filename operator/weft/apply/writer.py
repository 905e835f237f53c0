"""Write actions and statuses to the cluster. Every write is safe to repeat and stays in the served namespaces."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from weft.apply.kinds import plural_of
from weft.apply.labelling import Labelling, has_labels
from weft.apply.outcomes import ApplyIntent, Outcomes
from weft.apply.recreations import Recreations
from weft.apply.refusals import NameTaken, PodContended, not_permitted, refused
from weft.apply.rivals import contested
from weft.apply.routers import Routers
from weft.apply.sending import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    UNPROCESSABLE,
    ApiRequest,
    ApiResponse,
    Json,
    ServerError,
    Unanswered,
    object_path,
)
from weft.apply.undeclared import as_undeclared
from weft.domain import labels
from weft.domain.action import (
    Action,
    ApplyObject,
    CreatePod,
    DeleteObject,
    DeletePod,
    ForgetWorker,
    LabelPod,
    ReleasePods,
    UnroutePod,
)
from weft.domain.errors import Retry
from weft.domain.reasons import Reason
from weft.domain.texts.times import instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.apply.sending import Sender
    from weft.domain.snapshot import ResourceKey


class Writer:
    """The only way to write. Methods block; call them from threads.

    Raises `Invalid` and `Blocked` for what the API server refuses, `Retry` for what may pass, and counts every write
    that succeeded by kind and verb.
    """

    def __init__(self, sender: Sender, namespaces: Iterable[str], count: Callable[[str, str], None]) -> None:
        """An empty `namespaces` serves the whole cluster; `count` gets (kind, verb) of each write."""
        self._sender = sender
        self._namespaces = frozenset(namespaces)
        self._count = count
        self._outcomes = Outcomes()
        self._recreations = Recreations()
        self._labelling = Labelling()
        self._routers = Routers()

    def carry_out(self, action: Action) -> bool:
        """Carry out one action; succeeds if it was done before.

        False for an apply that is not sent, as admission undid the same one before.
        """
        match action:
            case CreatePod():
                self._create_pod(action.body)
            case ReleasePods():
                for name, uid in action.pods:
                    self._release(action.namespace, name, uid)
            case UnroutePod() | LabelPod():
                self._label(action)
            case ForgetWorker():
                self._expect_served(action.namespace)
                self._sender.expect_to_write()
                self._routers.forget(action)
            case ApplyObject():
                return self._apply(action)
            case DeletePod() | DeleteObject():
                self._delete(action)
            case _:  # pragma: no cover - mypy proves it
                assert_never(action)
        return True

    def write_status(self, key: ResourceKey, status: Json, manager: str, resource_version: str) -> Json | None:
        """Apply one manager's part of a status that was decided on `resource_version`.

        Returns the object as it is now, or None if it is gone; raises `Retry(StatusConflict)` if the object changed,
        `Undeclared` if its CRD lacks fields that may be left out, `Unanswered` if it has no status at all.
        """
        body = {
            "apiVersion": labels.API_VERSION,
            "kind": key.kind,
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "uid": key.uid,
                "resourceVersion": resource_version,
            },
            "status": status,
        }
        path = object_path(
            labels.API_VERSION, plural_of(labels.API_VERSION, key.kind), key.namespace, key.name, "status"
        )
        request = ApiRequest("PATCH", path, _by(manager), body, APPLY_PATCH)
        try:
            answer = self._write(key.namespace, f"{key.kind}/status", request)
        except ServerError as error:
            raise as_undeclared(error) from error
        if answer.finds_nothing:
            self._expect_gone(key)
            return None
        if not answer.ok:
            raise refused(answer)
        return answer.body

    def _expect_gone(self, key: ResourceKey) -> None:
        """Raise `Unanswered` for a resource that is still listed: without a status to write it is not found, either."""
        path = object_path(labels.API_VERSION, plural_of(labels.API_VERSION, key.kind), key.namespace)
        query = (("fieldSelector", f"metadata.name={key.name}"),)
        found = self._sender.send(ApiRequest("GET", path, query)).body.get("items") or ()
        if any(each["metadata"].get("uid") == key.uid for each in found):
            why = f"the definition of {key.kind}s serves no status: apply the CRDs of Weft's release"
            raise Unanswered(Reason.ApiUnavailable, why)

    def _create_pod(self, body: Json) -> None:
        namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
        query = (("fieldManager", labels.CONVERGE_MANAGER),)
        path = object_path("v1", "pods", namespace, name)
        self._recreations.expect_rested(path, body)
        answer = self._write(namespace, "Pod", ApiRequest("POST", object_path("v1", "pods", namespace), query, body))
        if answer.conflicts:
            if self._expect_ours(path, body) is None:
                raise Retry(Reason.StatusConflict, answer.message)  # about another object: a quota with many writers
        elif not answer.ok:
            raise refused(answer)
        else:
            self._recreations.note(path, body)

    def _release(self, namespace: str, name: str, uid: str) -> None:
        """Remove our scheduling gate by name, as others may put theirs before it. The API server compares the UID."""
        body = {"metadata": {"uid": uid}, "spec": {"schedulingGates": [{"name": labels.GATE, "$patch": "delete"}]}}
        path = object_path("v1", "pods", namespace, name)
        self._patch_pod(namespace, ApiRequest("PATCH", path, (), body, STRATEGIC_PATCH), uid, _is_gated)

    def _label(self, action: UnroutePod | LabelPod) -> None:
        """Change labels of a pod by merge patch, as it may have no annotations yet. The API server compares the UID."""
        tags, note = _labelling(action)
        path = object_path("v1", "pods", action.namespace, action.name)
        putting_back = isinstance(action, LabelPod)
        if putting_back and self._labelling.is_in_vain(path, action.uid, tags):
            return
        told = instant(int(action.at))
        meta = {"uid": action.uid, "labels": tags, "annotations": {note: told}}
        request = ApiRequest("PATCH", path, (), {"metadata": meta}, MERGE_PATCH)
        became = self._patch_pod(action.namespace, request, action.uid, lambda pod: not has_labels(pod, tags))
        if putting_back and became is not None:
            self._labelling.note(path, tags, became)

    def _patch_pod(self, namespace: str, request: ApiRequest, uid: str, is_left: Callable[[Json], bool]) -> Json | None:
        """Patch one pod; gives what became of it. `is_left` tells from the live pod whether anything is left to do."""
        request = replace(request, query=(("fieldManager", labels.CONVERGE_MANAGER),))
        answer = self._write(namespace, "Pod", request)
        if answer.ok:
            return answer.body
        if answer.finds_nothing:
            return None
        # On conflict the name has another UID now, or the pod was changed faster than the API server retries.
        # A ValidatingAdmissionPolicy without a reason refuses with 422, and so may a pod that was changed meanwhile.
        may_be_done = answer.conflicts or answer.status == UNPROCESSABLE
        if not may_be_done or self._is_left(request.path, uid, is_left):
            raise PodContended(answer.message) if answer.conflicts else refused(answer)
        return None

    def _is_left(self, path: str, uid: str, is_left: Callable[[Json], bool]) -> bool:
        found = self._sender.get(path)
        return found.ok and found.body["metadata"].get("uid") == uid and is_left(found.body)

    def _apply(self, action: ApplyObject) -> bool:
        body, meta = action.body, action.body["metadata"]
        plural = plural_of(body["apiVersion"], body["kind"])
        path = object_path(body["apiVersion"], plural, meta["namespace"], meta["name"])
        asked, live = ApplyIntent.of(path, action), self._expect_ours(path, body)
        if live is not None:
            if self._outcomes.is_unchanged(asked, live):
                return False
            if self._outcomes.rests(asked):
                raise contested(action, live)
            known_uid = str(live["metadata"]["uid"])  # a name re-created meanwhile by somebody else is not taken over
            body = {**body, "metadata": {**meta, "uid": known_uid}}
            self._patch_first(path, action, known_uid)
        else:
            self._recreations.expect_rested(path, action.body)
        seed = action.manager == labels.SEED_MANAGER  # never takes a field from its owner
        # Nor does one that finds nothing: what somebody makes there meanwhile has no UID yet to be told by.
        forced = "true" if live is not None and not seed else "false"
        query = (("fieldManager", action.manager), ("force", forced))
        answer = self._write(meta["namespace"], body["kind"], ApiRequest("PATCH", path, query, body, APPLY_PATCH))
        if not answer.ok and not (answer.conflicts and seed):
            raise refused(answer)
        if answer.ok and not seed:
            self._note_applied(asked, action, live, answer.body)
        return True

    def _note_applied(self, asked: ApplyIntent, action: ApplyObject, live: Json | None, became: Json) -> None:
        """Remember the outcome of an apply; raises `Blocked` or `DeletedAgain` while somebody keeps undoing it."""
        if live is not None:
            self._outcomes.note(asked, became)
            if self._outcomes.is_contested(asked):
                raise contested(action, live)
            return
        self._outcomes.begin(asked, became)
        self._recreations.note(asked.path, action.body)
        self._recreations.expect_to_stay(asked.path, action.body)

    def _patch_first(self, path: str, action: ApplyObject, uid: str) -> None:
        if not action.first:
            return
        patch = [_same(uid), *action.first]
        query = (("fieldManager", action.manager),)
        meta = action.body["metadata"]
        answer = self._write(
            meta["namespace"], action.body["kind"], ApiRequest("PATCH", path, query, patch, JSON_PATCH)
        )
        # 422: the object changed meanwhile; the next pass does what is left
        if not (answer.ok or answer.finds_nothing or answer.status == UNPROCESSABLE):
            raise refused(answer)

    def _delete(self, action: DeletePod | DeleteObject) -> None:
        api_version, kind, grace_seconds = _deletion(action)
        namespace, name = action.namespace, action.name
        body: Json = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": action.uid},
            "propagationPolicy": "Background",
        }
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        path = object_path(api_version, plural_of(api_version, kind), namespace, name)
        self._recreations.forget(path)
        answer = self._write(namespace, kind, ApiRequest("DELETE", path, (), body))
        if not (answer.ok or answer.finds_nothing or answer.conflicts):  # on conflict the name has another UID now
            raise refused(answer)

    def _expect_ours(self, path: str, body: Json) -> Json | None:
        """The object at `path` if the same owner controls it, None if there is none; else raises `NameTaken`."""
        answer = self._sender.get(path)
        if answer.finds_nothing:
            return None
        if not answer.ok:
            raise refused(answer)
        if _controller(answer.body["metadata"]) != _controller(body["metadata"]):
            raise NameTaken(answer.body, body)
        return answer.body

    def _expect_served(self, namespace: str) -> None:
        if self._namespaces and namespace not in self._namespaces:
            raise not_permitted(f"{namespace} is not a served namespace: nothing is written there")

    def _write(self, namespace: str, kind: str, request: ApiRequest) -> ApiResponse:
        self._expect_served(namespace)
        answer = self._sender.send(request)
        if answer.ok:
            self._count(kind, _VERBS[request.method, request.content_type])
        return answer


_VERBS = {
    ("POST", "application/json"): "create",
    ("DELETE", "application/json"): "delete",
    ("PATCH", APPLY_PATCH): "apply",
    ("PATCH", JSON_PATCH): "patch",
    ("PATCH", MERGE_PATCH): "patch",
    ("PATCH", STRATEGIC_PATCH): "patch",
}


def _is_gated(pod: Json) -> bool:
    return any(gate.get("name") == labels.GATE for gate in pod["spec"].get("schedulingGates") or ())


def _labelling(action: UnroutePod | LabelPod) -> tuple[dict[str, str | None], str]:
    """The labels to set (None removes one), and the annotation that holds the time."""
    if isinstance(action, UnroutePod):
        return {labels.ROUTED: None}, labels.UNROUTED
    return {**dict(action.labels)}, labels.RELABELLED


def _deletion(action: DeletePod | DeleteObject) -> tuple[str, str, int | None]:
    """API version and kind of what is deleted, and its grace period in seconds (None: its own)."""
    if isinstance(action, DeletePod):
        return "v1", "Pod", action.grace_seconds
    return action.api_version, action.kind, None


def _same(uid: str) -> Json:
    return {"op": "test", "path": "/metadata/uid", "value": uid}


def _by(manager: str) -> tuple[tuple[str, str], ...]:
    return (("fieldManager", manager), ("force", "true"))


def _controller(meta: Json) -> str | None:
    owners = (owner["uid"] for owner in meta.get("ownerReferences") or () if owner.get("controller"))
    return next(owners, None)
