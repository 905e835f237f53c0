"""What a real API server says where a policy or a webhook refuses: told, and not taken for something else."""

from __future__ import annotations

from secrets import token_hex
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client, utils
from kubernetes.client.exceptions import ApiException

from e2e.cluster.waiting import eventually
from weft.apply import Sender, TokenBucket, WebhookAway, Writer
from weft.apply.sending import UNPROCESSABLE
from weft.domain import labels
from weft.domain.action import ApplyObject, CreatePod, ReleasePods, UnroutePod
from weft.domain.errors import WeftError
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.control_plane import ControlPlane
    from weft.domain.action import Action

Json = dict[str, Any]
NOBODY = "https://127.0.0.1:1/"
SPEC = {"ports": [{"port": 80}]}  # of a Service


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[client.ApiClient]:
    with control_plane.api_client() as made:
        yield made


@pytest.fixture
def namespace(api: client.ApiClient) -> str:
    name = f"policies-{token_hex(3)}"
    client.CoreV1Api(api).create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    return name


@pytest.fixture
def writer(api: client.ApiClient) -> Writer:
    return Writer(Sender(api, TokenBucket()), (), lambda *_: None)


def pod(namespace: str) -> Json:
    meta = {"name": "p", "namespace": namespace, "labels": {labels.ROUTED: "true"}}
    spec = {"schedulingGates": [{"name": labels.GATE}], "containers": [{"name": "engine", "image": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def a_gated_pod(api: client.ApiClient, writer: Writer, namespace: str) -> str:
    """Its UID."""
    writer.carry_out(CreatePod(pod(namespace)))
    found: Any = client.CoreV1Api(api).read_namespaced_pod("p", namespace)
    return str(found.metadata.uid)


def nobody_changes_pods(namespace: str) -> list[Json]:
    """A ValidatingAdmissionPolicy as most are written: it names no reason."""
    version = "admissionregistration.k8s.io/v1"
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule], "namespaceSelector": here},
        "validations": [{"expression": "false", "message": "hands off"}],
    }
    binding = {"policyName": namespace, "validationActions": ["Deny"]}
    return [
        {
            "apiVersion": version,
            "kind": f"ValidatingAdmissionPolicy{kind}",
            "metadata": {"name": namespace},
            "spec": each,
        }
        for kind, each in (("", spec), ("Binding", binding))
    ]


def a_webhook_that_is_away(namespace: str) -> Json:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}
    hook = {
        "name": "away.example.com",
        "clientConfig": {"url": NOBODY},
        "rules": [rule],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 1,
    }
    version, kind = "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"
    return {"apiVersion": version, "kind": kind, "metadata": {"name": namespace}, "webhooks": [hook]}


def refusal(writer: Writer, action: Action) -> WeftError | None:
    try:
        writer.carry_out(action)
    except WeftError as error:
        return error
    return None


def test_a_policy_that_lets_nobody_change_pods_is_told(api: client.ApiClient, writer: Writer, namespace: str) -> None:
    """Else replicas would wait behind their gates, or be drained for ever, and nobody knew why."""
    uid = a_gated_pod(api, writer, namespace)
    for body in nobody_changes_pods(namespace):
        utils.create_from_dict(api, body)
    eventually(lambda: change(api, namespace) == UNPROCESSABLE, "the policy is in force")
    for action in (UnroutePod(namespace, "p", uid, 0.0), ReleasePods(namespace, (("p", uid),))):
        told = refusal(writer, action)
        assert told is not None
        assert (Reason.PodRefused, True) == (told.reason, "hands off" in str(told))


def change(api: client.ApiClient, namespace: str) -> int:
    """What anybody is told who changes the pod."""
    try:
        client.CoreV1Api(api).patch_namespaced_pod("p", namespace, {"metadata": {"annotations": {"a": "b"}}})
    except ApiException as error:
        return int(error.status)
    return 200


def test_a_gate_that_fell_already_is_no_refusal(api: client.ApiClient, writer: Writer, namespace: str) -> None:
    """Neither for a pod without its gate nor for one that has another UID."""
    uid = a_gated_pod(api, writer, namespace)
    assert [refusal(writer, ReleasePods(namespace, (("p", one),))) for one in (uid, uid, "another")] == [None] * 3


def test_a_gate_falls_wherever_it_stands(api: client.ApiClient, writer: Writer, namespace: str) -> None:
    """A webhook may put one of its own before it; that one is left alone."""
    body = pod(namespace)
    body["spec"]["schedulingGates"].insert(0, {"name": "example.com/quota"})
    writer.carry_out(CreatePod(body))
    made: Any = client.CoreV1Api(api).read_namespaced_pod("p", namespace)
    writer.carry_out(ReleasePods(namespace, (("p", made.metadata.uid),)))
    found: Any = client.CoreV1Api(api).read_namespaced_pod("p", namespace)
    assert [gate.name for gate in found.spec.scheduling_gates] == ["example.com/quota"]


def test_a_webhook_that_nobody_answers_is_no_outage_of_the_api_server(
    api: client.ApiClient, writer: Writer, namespace: str
) -> None:
    utils.create_from_dict(api, a_webhook_that_is_away(namespace))
    eventually(lambda: is_asked(api, namespace), "the webhook is asked")
    meta = {"name": "s", "namespace": namespace}
    told = refusal(writer, ApplyObject({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": SPEC}))
    assert isinstance(told, WebhookAway)
    assert (Reason.PodRefused, True) == (told.reason, "away.example.com" in str(told))


def is_asked(api: client.ApiClient, namespace: str) -> bool:
    """Whether a Service that nobody creates is refused. One that came through would be there, and not created again."""
    probe: Any = {"metadata": {"name": "probe"}, "spec": SPEC}
    try:
        client.CoreV1Api(api).create_namespaced_service(namespace, probe, dry_run="All")
    except ApiException:
        return True
    return False
