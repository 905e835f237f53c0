"""What others put in the way of a pool: a Service of its name, and a scheduling gate on its pods. Both are theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from e2e.cluster.presets import h200_boards
from e2e.cluster.waiting import eventually
from tests.manifests import install

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(150)

Json = dict[str, Any]
APPROVAL = "corp.example/approved"
STRATEGIC = "application/strategic-merge-patch+json"
SERVICE: Json = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "chat"},
    "spec": {"ports": [{"port": 80}], "selector": {"app": "theirs"}},
}


def test_a_pool_is_not_ready_at_the_service_of_somebody_else(weft: InstalledWeft, operator: OperatorProcess) -> None:
    """S3: it stays as it is, and nobody is sent there. Once it is gone, the pool has its own."""
    place = weft.place("occupied", h200_boards(1))
    with weft.cluster.api_client() as api:
        install(api, [SERVICE], place.namespace)
    (before,) = place.objects("api/v1/services")
    place.create_pool("chat")
    eventually(lambda: place.status("chat").get("readyReplicas") == 1, "its engine runs")
    eventually(lambda: place.condition("chat", "Ready") == ("False", "NameTaken"), "it says why nobody reaches it")
    assert "url" not in place.status("chat")
    assert [before] == place.objects("api/v1/services")
    with weft.cluster.api_client() as api:
        client.CoreV1Api(api).delete_namespaced_service("chat", place.namespace)
    place.wait_ready("chat", seconds=60)
    assert "url" in place.status("chat")


@pytest.fixture
def guarded(weft: InstalledWeft) -> Iterator[Place]:
    """A place where admission puts a gate on every pod."""
    place = weft.place("guarded", h200_boards(1))
    with weft.cluster.api_client() as api:
        install(api, policy(place.namespace), place.namespace)
        eventually(lambda: is_gated(api, place), "the policy is in force")
        yield place
        admission = client.AdmissionregistrationV1Api(api)
        admission.delete_mutating_admission_policy_binding("approval")
        admission.delete_mutating_admission_policy("approval")


def test_a_gate_of_somebody_else_is_named_and_waited_for(guarded: Place, operator: OperatorProcess) -> None:
    """S10: the same pod serves once whoever set it removes it."""
    guarded.create_pool("chat")
    eventually(lambda: APPROVAL in ready_message(guarded), "the gate is named")
    (pod,) = guarded.pods()
    assert [APPROVAL] == [gate["name"] for gate in pod["spec"]["schedulingGates"]]
    decided = operator.metric("weft_decision_seconds_count")
    eventually(lambda: operator.metric("weft_decision_seconds_count") >= decided + 5, "time for another one")
    with guarded.weft.cluster.api_client() as api:
        gone = {"spec": {"schedulingGates": [{"name": APPROVAL, "$patch": "delete"}]}}
        client.CoreV1Api(api).patch_namespaced_pod(
            pod["metadata"]["name"], guarded.namespace, gone, _content_type=STRATEGIC
        )
    guarded.wait_ready("chat")
    assert [pod["metadata"]["uid"]] == [each["metadata"]["uid"] for each in guarded.pods()]


def ready_message(place: Place) -> str:
    conditions = place.status("chat").get("conditions") or ()
    return next((str(each["message"]) for each in conditions if each["type"] == "Ready"), "")


def is_gated(api: client.ApiClient, place: Place) -> bool:
    """Whether a pod that nobody creates would get the gate."""
    body: Any = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    made: Any = client.CoreV1Api(api).create_namespaced_pod(place.namespace, body, dry_run="All")
    return bool(made.spec.scheduling_gates)


def policy(namespace: str) -> list[Json]:
    """A MutatingAdmissionPolicy as an administrator writes it, and its binding."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    gate = f'Object{{spec: Object.spec{{schedulingGates: [Object.spec.schedulingGates{{name: "{APPROVAL}"}}]}}}}'
    kind, version = "MutatingAdmissionPolicy", "admissionregistration.k8s.io/v1"
    spec = {
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
        "matchConstraints": {"namespaceSelector": selector, "resourceRules": [rule]},
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": gate}}],
    }
    meta = {"name": "approval"}
    return [
        {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec},
        {"apiVersion": version, "kind": f"{kind}Binding", "metadata": meta, "spec": {"policyName": "approval"}},
    ]
