"""What leaves for the API server, byte for byte, and what comes of its answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web
from kubernetes.client import ApiClient, Configuration
from urllib3 import Retry as TransportRetry

from tests.protocol.scripted_server import ScriptedServer
from weft.apply import RetryLater, Sender, ServerError, TokenBucket, WebhookAway, Writer
from weft.domain import labels
from weft.domain.action import (
    ApplyObject,
    CreatePod,
    DeleteObject,
    DeletePod,
    ReleasePods,
    UnroutePod,
)
from weft.domain.errors import Blocked, Invalid, Retry, WeftError
from weft.domain.reasons import Reason
from weft.domain.snapshot import ResourceKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.action import Action

Json = dict[str, Any]

OWNER = {"apiVersion": labels.API_VERSION, "kind": "InferencePool", "uid": "u1", "controller": True, "name": "chat"}
POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "team", "name": "p", "ownerReferences": [OWNER]},
}
SERVICE = {**POD, "kind": "Service"}
KEY = ResourceKey("InferencePool", "team", "chat", "u1")


class Outbox:
    """A writer whose requests end at a scripted server."""

    def __init__(self, server: ScriptedServer) -> None:
        configuration = Configuration(host=server.url)
        configuration.retries = TransportRetry(total=0, redirect=0, respect_retry_after_header=False)
        self.counted: list[tuple[str, str]] = []
        self.server = server
        self.bucket = TokenBucket()
        sender = Sender(ApiClient(configuration), self.bucket)
        self.writer = Writer(sender, (), lambda kind, verb: self.counted.append((kind, verb)))

    def answers(self, status: int, message: str = "", headers: dict[str, str] | None = None, **body: Any) -> None:  # noqa: ANN401 - JSON
        """Answer every write like this; reads find nothing."""
        text = json.dumps({"message": message, **body})

        def answer(request: web.Request) -> web.Response:
            reads = request.method == "GET"
            return web.Response(status=404 if reads else status, text="{}" if reads else text, headers=headers)

        self.server.answer = answer


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    with ScriptedServer() as server:
        yield Outbox(server)


def test_an_apply_is_an_apply_patch_with_manager_and_force(outbox: Outbox) -> None:
    """The client's own patch methods send a merge patch even when given a field manager."""
    live = {**SERVICE, "metadata": {**SERVICE["metadata"], "uid": "s1"}}
    outbox.server.answer = lambda _: web.json_response(live)
    outbox.writer.carry_out(ApplyObject(SERVICE))
    sent = outbox.server.requests[-1]
    assert (sent.method, sent.path) == ("PATCH", "/api/v1/namespaces/team/services/p")
    assert sent.headers["Content-Type"] == "application/apply-patch+yaml"
    assert sent.query == {"fieldManager": "weft-converge", "force": "true"}
    assert json.loads(sent.body) == live


def test_what_somebody_makes_just_before_us_is_not_taken_over(outbox: Outbox) -> None:
    """S3: nothing was there when Weft looked, so that no UID tells theirs; without force their fields stay theirs."""
    outbox.answers(409, 'Apply failed with 1 conflict: conflict with "kubectl": .spec.selector')
    with pytest.raises(Retry) as conflict:
        outbox.writer.carry_out(ApplyObject(SERVICE))
    assert conflict.value.reason is Reason.StatusConflict
    sent = outbox.server.requests[-1]
    assert sent.query == {"fieldManager": "weft-converge", "force": "false"}
    assert json.loads(sent.body) == SERVICE


def test_a_first_value_for_others_is_never_forced(outbox: Outbox) -> None:
    outbox.answers(409)
    outbox.writer.carry_out(ApplyObject(SERVICE, labels.SEED_MANAGER))
    assert outbox.server.requests[-1].query == {"fieldManager": "weft-seed", "force": "false"}


def test_a_status_carries_identity_and_version(outbox: Outbox) -> None:
    outbox.answers(200, metadata={"uid": "u1"})
    outbox.writer.write_status(KEY, {"desiredReplicas": 2}, "weft-decide", "41")
    sent = outbox.server.requests[-1]
    assert sent.path == "/apis/weft.dev/v1alpha1/namespaces/team/inferencepools/chat/status"
    assert sent.headers["Content-Type"] == "application/apply-patch+yaml"
    body = json.loads(sent.body)
    assert body["metadata"] == {"name": "chat", "namespace": "team", "uid": "u1", "resourceVersion": "41"}
    assert body["status"] == {"desiredReplicas": 2}
    assert "spec" not in body


def test_a_gate_is_removed_by_a_patch_that_names_it_and_the_uid(outbox: Outbox) -> None:
    outbox.answers(200)
    outbox.writer.carry_out(ReleasePods("team", (("p-0", "ua"), ("p-1", "ub"))))
    first, second = outbox.server.requests[-2:]
    assert first.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert json.loads(first.body)["metadata"] == {"uid": "ua"}
    assert json.loads(second.body)["spec"] == {"schedulingGates": [{"name": labels.GATE, "$patch": "delete"}]}


def test_a_pod_leaves_its_front_by_a_patch_that_names_the_uid_and_the_time(outbox: Outbox) -> None:
    outbox.answers(200)
    outbox.writer.carry_out(UnroutePod("team", "p", "ua", 1_790_000_000.7))
    sent = outbox.server.requests[-1]
    assert sent.headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(sent.body)["metadata"] == {
        "uid": "ua",
        "labels": {"weft.dev/routed": None},
        "annotations": {"weft.dev/unrouted": "2026-09-21T14:13:20Z"},
    }


def test_a_deletion_names_the_uid(outbox: Outbox) -> None:
    outbox.answers(200)
    outbox.writer.carry_out(DeletePod("team", "p", "ua", 0))
    sent = json.loads(outbox.server.requests[-1].body)
    assert (sent["preconditions"], sent["gracePeriodSeconds"]) == ({"uid": "ua"}, 0)


@pytest.mark.parametrize(
    ("action", "status"),
    [
        (DeletePod("team", "p", "ua"), 404),
        (DeletePod("team", "p", "ua"), 409),
        (UnroutePod("team", "p", "ua", 0.0), 422),
        (UnroutePod("team", "p", "ua", 0.0), 404),
        (UnroutePod("team", "p", "ua", 0.0), 409),
        (ReleasePods("team", (("p", "ua"),)), 422),
        (ReleasePods("team", (("p", "ua"),)), 409),
    ],
    ids=["deleted", "another-uid", "unrouted", "gone", "unrouted-another-uid", "released", "released-another-uid"],
)
def test_what_is_done_already_is_a_success_and_no_write(outbox: Outbox, action: Any, status: int) -> None:  # noqa: ANN401 - any action
    outbox.answers(status)
    outbox.writer.carry_out(action)
    assert outbox.counted == []


def as_it_is(outbox: Outbox, status: int, pod: Json, message: str = "") -> None:
    """Answer every write with a status, and every read with the pod."""
    refusal = json.dumps({"message": message})
    outbox.server.answer = lambda request: (
        web.json_response(pod) if request.method == "GET" else web.Response(status=status, text=refusal)
    )


def test_a_pod_that_was_created_already_is_a_success_and_no_write(outbox: Outbox) -> None:
    as_it_is(outbox, 409, {**POD, "metadata": {**POD["metadata"], "uid": "ua"}})
    outbox.writer.carry_out(CreatePod(POD))
    assert outbox.counted == []


def test_a_pod_that_a_conflict_over_a_quota_kept_from_being_created_is_tried_again(outbox: Outbox) -> None:
    """The same status as for a pod that is there: the API server gave up writing to the ResourceQuota.

    A conflict is tried again at once and counts towards no back-off, in which the pool would not be looked at.
    """
    outbox.answers(409, 'Operation cannot be fulfilled on resourcequotas "gpus": the object has been modified')
    with pytest.raises(Retry) as conflict:
        outbox.writer.carry_out(CreatePod(POD))
    assert conflict.value.reason is Reason.StatusConflict
    assert "resourcequotas" in str(conflict.value)


GATED = {"schedulingGates": [{"name": labels.GATE}]}
DENIED = "ValidatingAdmissionPolicy 'owners' with binding 'all' denied request: no owner"


@pytest.mark.parametrize(
    ("action", "pod", "refused"),
    [
        (ReleasePods("team", (("p", "ua"),)), {"metadata": {"uid": "ua"}, "spec": GATED}, True),
        (ReleasePods("team", (("p", "ua"),)), {"metadata": {"uid": "ub"}, "spec": GATED}, False),
        (ReleasePods("team", (("p", "ua"),)), {"metadata": {"uid": "ua"}, "spec": {}}, False),
        (UnroutePod("team", "p", "ua", 0.0), {"metadata": {"uid": "ua", "labels": {labels.ROUTED: "true"}}}, True),
        (UnroutePod("team", "p", "ua", 0.0), {"metadata": {"uid": "ua"}}, False),
    ],
    ids=["gated", "another pod", "released", "routed", "unrouted"],
)
def test_a_policy_that_refuses_as_a_patch_fails_is_told_by_what_is_left(
    outbox: Outbox, action: ReleasePods | UnroutePod, pod: Json, *, refused: bool
) -> None:
    """Both are 422: a test in the patch that fails, and a ValidatingAdmissionPolicy that names no reason."""
    as_it_is(outbox, 422, pod, DENIED)
    told = None
    try:
        outbox.writer.carry_out(action)
    except Invalid as error:
        told = error
    assert refused is (told is not None)
    assert told is None or (told.reason, str(told)) == (Reason.PodRefused, DENIED)


def test_a_namespace_that_is_being_deleted_is_no_refusal_of_the_pod(outbox: Outbox) -> None:
    """S10: the API server says so in the causes of its 403; the sentence alone could be anybody's."""
    cause = {"reason": "NamespaceTerminating", "message": "namespace team is being terminated", "field": "metadata"}
    outbox.answers(403, 'pods "p" is forbidden: unable to create new content', details={"causes": [cause]})
    for action in (CreatePod(POD), ApplyObject(SERVICE)):
        with pytest.raises(Blocked) as refused:
            outbox.writer.carry_out(action)
        assert refused.value.reason is Reason.NamespaceTerminating


@pytest.mark.parametrize(
    ("status", "message", "error", "reason"),
    [
        (403, 'pods "p" is forbidden: exceeded quota: gpus', Blocked, Reason.PodRefused),
        (403, 'pods "p" is forbidden: violates PodSecurity "restricted:latest"', Blocked, Reason.PodRefused),
        (403, 'pods is forbidden: User "x" cannot create resource "pods"', Blocked, Reason.NotPermitted),
        (422, 'Pod "p" is invalid: spec', Invalid, Reason.PodRefused),
        (500, "etcd is away", ServerError, Reason.ApiUnavailable),
        (500, 'Internal error occurred: failed calling webhook "m.io": refused', WebhookAway, Reason.PodRefused),
        (500, 'admission webhook "m.io" denied the request: out of order', Blocked, Reason.PodRefused),
        (409, 'admission webhook "m.io" denied the request: there is one', Blocked, Reason.PodRefused),
        (429, "slow down", Retry, Reason.ApiUnavailable),
        (408, "the request took too long", Blocked, Reason.PodRefused),
        (410, "gone", Blocked, Reason.PodRefused),
    ],
    ids=[
        "quota",
        "pod-security",
        "rbac",
        "invalid",
        "server",
        "webhook away",
        "webhook fails",
        "webhook says 409",
        "busy",
        "timed out",
        "gone",
    ],
)
def test_a_refusal_says_who_can_change_it(
    outbox: Outbox, status: int, message: str, error: type[WeftError], reason: Reason
) -> None:
    outbox.answers(status, message)
    with pytest.raises(error) as refused:
        outbox.writer.carry_out(CreatePod(POD))
    assert (error, reason) == (type(refused.value), refused.value.reason)
    assert message in str(refused.value)


QUOTA = 'pods "p" is forbidden: failed quota: q: must specify '
SET = "; set spec.engine.resources.cpu and spec.engine.resources.memory"


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        ("requests.cpu for: engine; requests.memory for: engine", SET),
        ("limits.cpu for: engine", f"{SET}, and take limits.cpu out of the quota: Weft never limits CPU"),
    ],
)
def test_a_quota_that_counts_what_a_pod_leaves_open_is_told_with_the_fields(
    outbox: Outbox, missing: str, told: str
) -> None:
    """The API server names the container and what it lacks, and the user has no pod template to write that into."""
    outbox.answers(403, QUOTA + missing)
    with pytest.raises(Blocked) as refused:
        outbox.writer.carry_out(CreatePod(POD))
    assert QUOTA + missing + told == str(refused.value)


def write(outbox: Outbox, action: Action | None) -> None:
    """Do an action; None is a status."""
    if action is None:
        outbox.writer.write_status(KEY, {}, "weft-decide", "41")
    else:
        outbox.writer.carry_out(action)


@pytest.mark.parametrize("status", [401, 404, 409, 429])
@pytest.mark.parametrize(
    "action",
    [
        CreatePod(POD),
        ReleasePods("team", (("p", "ua"),)),
        UnroutePod("team", "p", "ua", 0.0),
        DeletePod("team", "p", "ua"),
        DeleteObject("v1", "Service", "team", "p", "ua"),
        ApplyObject(SERVICE),
        ApplyObject(SERVICE, labels.SEED_MANAGER),
        None,
    ],
    ids=["create", "release", "unroute", "delete pod", "delete", "apply", "seed", "status"],
)
def test_what_a_webhook_refuses_is_told_whatever_code_it_chose(
    outbox: Outbox, action: Action | None, status: int
) -> None:
    """No object moved on or is gone, and no API server is busy: it is neither done, nor worth a storm of tries."""
    said = 'admission webhook "m.io" denied the request: not on a Friday'
    outbox.answers(status, said, {"Retry-After": "7"})
    with pytest.raises(Blocked) as refused:
        write(outbox, action)
    assert (refused.value.reason, str(refused.value)) == (Reason.PodRefused, said)
    assert outbox.bucket.reserve() == 0


def test_a_server_that_is_gone_is_worth_another_try(outbox: Outbox) -> None:
    with ScriptedServer() as server:
        gone = Outbox(server)
    with pytest.raises(Retry):
        gone.writer.carry_out(CreatePod(POD))


def test_a_named_delay_is_obeyed_by_everybody(outbox: Outbox) -> None:
    outbox.answers(429, "later", {"Retry-After": "7"})
    with pytest.raises(RetryLater) as later:
        outbox.writer.carry_out(CreatePod(POD))
    assert later.value.seconds == 7
    assert 6 < outbox.bucket.reserve() <= 7


@pytest.mark.parametrize("told", ["86400", "9" * 400])
def test_nobody_is_left_alone_for_more_than_a_minute(outbox: Outbox, told: str) -> None:
    """A proxy before an API server that is away may say a day, for which its pool would wait as well."""
    outbox.answers(503, "closed", {"Retry-After": told})
    with pytest.raises(RetryLater) as later:
        outbox.writer.carry_out(CreatePod(POD))
    assert 60 == later.value.seconds


@pytest.mark.parametrize("told", ["Wed, 21 Oct 2026 07:28:00 GMT", "soon", "-1", "\u00b2"])
def test_a_delay_that_is_no_number_is_none(outbox: Outbox, told: str) -> None:
    outbox.answers(429, "later", {"Retry-After": told})
    with pytest.raises(Retry) as refused:
        outbox.writer.carry_out(CreatePod(POD))
    assert not isinstance(refused.value, RetryLater)


def test_a_status_on_an_old_version_is_a_conflict(outbox: Outbox) -> None:
    outbox.answers(409, "the object has been modified")
    with pytest.raises(Retry) as conflict:
        outbox.writer.write_status(KEY, {}, "weft-decide", "1")
    assert conflict.value.reason is Reason.StatusConflict


def test_nothing_is_sent_outside_the_served_namespaces(outbox: Outbox) -> None:
    """S8, and before RBAC would say so."""
    sender = Sender(ApiClient(Configuration(host=outbox.server.url)), outbox.bucket)
    confined = Writer(sender, ("elsewhere",), lambda *_: None)
    for action in (CreatePod(POD), DeletePod("team", "p", "u"), UnroutePod("team", "p", "u", 0.0)):
        with pytest.raises(Blocked):
            confined.carry_out(action)
    assert outbox.server.requests == []


def test_a_name_that_somebody_else_has_is_left_alone(outbox: Outbox) -> None:
    """S3: server-side apply with force would take the object over."""
    theirs = {**SERVICE, "metadata": {"namespace": "team", "name": "p", "uid": "x"}}
    outbox.server.answer = lambda _: web.json_response(theirs)
    with pytest.raises(Blocked) as taken:
        outbox.writer.carry_out(ApplyObject(SERVICE))
    assert taken.value.reason is Reason.NameTaken
    assert {seen.method for seen in outbox.server.requests} == {"GET"}


@pytest.mark.parametrize("page", ["<html>log in</html>", '{"metadata":', "[]", "null"])
@pytest.mark.parametrize("action", [CreatePod(POD), ApplyObject(SERVICE), UnroutePod("team", "p", "u1", 0.0)], ids=repr)
def test_a_page_of_somebody_before_the_api_server_is_no_success(outbox: Outbox, page: str, action: Action) -> None:
    """A proxy that answers 200 has carried nothing out: a pod that was not taken out of routing is not deleted."""
    outbox.server.answer = lambda request: web.Response(
        status=404 if request.method == "GET" else 200, text="{}" if request.method == "GET" else page
    )
    with pytest.raises(Retry, match="what answers is no API server"):
        outbox.writer.carry_out(action)
    with pytest.raises(Retry, match="what answers is no API server"):
        outbox.writer.write_status(KEY, {"replicas": 1}, labels.DECIDE_MANAGER, "1")
    assert [] == outbox.counted
