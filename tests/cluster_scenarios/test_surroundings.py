"""Quotas, policies, lost nodes and wishes that cannot be fulfilled: said in a condition, and healed when they end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from e2e.cluster.presets import h200_boards
from e2e.cluster.simulated_nodes import fail_node, recover_node
from e2e.cluster.waiting import eventually
from tests.installed import GROUP, PLACE_LABEL
from tests.manifests import install, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(180)

Json = dict[str, Any]


@pytest.fixture(scope="module")
def place(weft: InstalledWeft) -> Place:
    """Two boards in a namespace that enforces `restricted`."""
    made = weft.place("surrounded", h200_boards(2))
    enforced = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    with weft.cluster.api_client() as api:
        client.CoreV1Api(api).patch_namespace(made.namespace, enforced)
    return made


@pytest.fixture(scope="module")
def operator(place: Place) -> Iterator[OperatorProcess]:
    with place.operator("--tick", "1", "--resync", "5") as running:
        yield running


@pytest.fixture
def chat(place: Place, operator: OperatorProcess) -> Iterator[str]:
    """A name for a pool that is gone afterwards, with all that belonged to it."""
    yield "chat"
    place.delete_pool("chat")
    eventually(lambda: not place.left_over(), "everything of the pool is gone", timeout_seconds=90)


@pytest.fixture
def quota(place: Place) -> Iterator[Callable[[Json], None]]:
    """Sets the namespace's quota, which is gone afterwards."""

    def put(hard: Json) -> None:
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "limit"}, "spec": {"hard": hard}}
        with place.weft.cluster.api_client() as api:
            install(api, [body], place.namespace)
        eventually(lambda: place.quotas_in_force() == [hard], "the quota is in force")

    yield put
    with place.weft.cluster.api_client() as api:
        client.CoreV1Api(api).delete_namespaced_resource_quota("limit", place.namespace)


def test_engine_pods_pass_the_restricted_policy(place: Place, chat: str) -> None:
    place.create_pool(chat)
    place.wait_ready(chat)


def test_a_quota_of_gpus_that_leaves_no_room_is_named_and_its_rise_heals(
    place: Place, operator: OperatorProcess, chat: str, quota: Callable[[Json], None]
) -> None:
    """F24: no pod is asked for that the quota would refuse, and no manual step is needed afterwards."""
    quota({"requests.nvidia.com/gpu": "0"})
    place.create_pool(chat)
    eventually(lambda: place.condition(chat, "Placed") == ("False", "BudgetExhausted"), "the quota is named")
    assert "ResourceQuota limit" in message(place, chat, "Placed")
    assert place.pods() == []
    quota({"requests.nvidia.com/gpu": "16"})
    place.wait_ready(chat, seconds=90)
    assert operator.counted("weft_pass_failures_total", loop="converge", reason="PodRefused") == 0


def test_a_quota_that_weft_does_not_read_is_named_and_its_rise_heals(
    place: Place, operator: OperatorProcess, chat: str, quota: Callable[[Json], None]
) -> None:
    """F24: a condition with the API server's words, no storm of attempts, and no manual step afterwards."""
    quota({"requests.cpu": "0", "requests.nvidia.com/gpu": "16"})
    place.create_pool(chat, engine={"resources": {"cpu": "1"}})
    eventually(lambda: place.condition(chat, "Stalled") == ("True", "PodRefused"), "the refusal is said")
    assert operator.counted("weft_pass_failures_total", loop="converge", reason="PodRefused") < 8
    quota({"requests.cpu": "64", "requests.nvidia.com/gpu": "16"})
    place.wait_ready(chat, seconds=90)
    assert place.condition(chat, "Stalled") == ("", "")


def test_what_the_scheduler_says_of_a_waiting_pod_is_told_at_once_and_once(
    place: Place, operator: OperatorProcess, chat: str
) -> None:
    """Long before the minute is over after which the replica is placed anew, and without a further write (L3)."""
    two = {"mode": "External", "replicas": 2}  # the GPUs of one board have room for both, its processors for one
    place.create_pool(chat, engine={"resources": {"cpu": "150"}}, scaling=two)
    eventually(lambda: place.status(chat).get("readyReplicas") == 1, "one serves")
    eventually(lambda: "Insufficient cpu" in message(place, chat, "Ready"), "the scheduler is quoted")
    eventually(lambda: "Insufficient cpu" in message(place, chat, "Placed"), "by deciding, too")
    version = place.pool(chat)["metadata"]["resourceVersion"]
    decided = operator.metric("weft_decision_seconds_count")
    eventually(lambda: operator.metric("weft_decision_seconds_count") >= decided + 5, "time to write again")
    assert place.pool(chat)["metadata"]["resourceVersion"] == version


def test_no_pod_is_made_for_which_no_node_is_large_enough(place: Place, operator: OperatorProcess, chat: str) -> None:
    """Devices that no node offers, and more memory than any has: said by name, and healed by a smaller wish."""
    rdma = {"rdma": {"resource": "rdma/hca_shared_devices", "count": 8}}
    place.create_pool(chat, engine={"resources": rdma})
    eventually(lambda: "0 rdma/hca_shared_devices, not 8" in message(place, chat, "Placed"), "what is missing is named")
    place.change_pool(chat, {"spec": {"engine": {"resources": {"rdma": None, "memory": "100Ti"}}}})
    eventually(lambda: "2048Gi memory, not 102400Gi" in message(place, chat, "Ready"), "what is too much is named")
    assert operator.is_ready()
    assert place.pods() == []
    place.change_pool(chat, {"spec": {"engine": {"resources": {"memory": "100Gi"}}}})
    place.wait_ready(chat)


def message(place: Place, name: str, kind: str) -> str:
    """What one condition says; nothing while it is absent."""
    found = (each for each in place.status(name).get("conditions") or () if each["type"] == kind)
    return next((str(each["message"]) for each in found), "")


def test_a_node_selector_that_fits_nowhere_is_named_and_its_correction_heals(place: Place, chat: str) -> None:
    """F8."""
    place.create_pool(chat, placement={"nodeSelector": {PLACE_LABEL: "nowhere"}})
    eventually(lambda: place.condition(chat, "Ready")[0] == "False", "it says that it does not serve")
    assert place.pods() == []
    place.change_pool(chat, {"spec": {"placement": {"nodeSelector": {PLACE_LABEL: place.namespace}}}})
    place.wait_ready(chat)


def test_a_replica_on_a_lost_node_is_served_from_another(place: Place, chat: str) -> None:
    """F18: the node is not ready and its pod does not answer."""
    place.create_pool(chat)
    place.wait_ready(chat)
    lost = place.status(chat)["assignments"][0]["nodes"][0]
    fail_node(place.weft.cluster, lost)
    eventually(
        lambda: any(node != lost for node in nodes(place, chat)) and ready(place, lost),
        "a pod on another node serves",
        timeout_seconds=120,
    )
    recover_node(place.weft.cluster, lost)


def nodes(place: Place, name: str) -> list[str]:
    """The first node of each replica that has its place; none has, between one decision and another."""
    return [each["nodes"][0] for each in place.status(name).get("assignments") or ()]


def ready(place: Place, lost: str) -> bool:
    """Whether a pod that is not on the lost node is ready."""
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" and pod["spec"].get("nodeName") != lost
        for pod in place.pods()
        for condition in pod["status"].get("conditions", ())
    )


def test_a_pool_is_served_with_the_permissions_of_the_namespaced_overlay(weft: InstalledWeft) -> None:
    """S8: the shipped overlay, bound to another account so that the cluster-wide roles do not help."""
    place = weft.place("inference", h200_boards(1))
    account = "weft-namespaced"
    kinds = {"ServiceAccount", "RoleBinding", "ClusterRoleBinding"}
    with weft.cluster.api_client() as api:
        install(api, [renamed(body, account) for body in load("namespaced") if body["kind"] in kinds])
    kubeconfig = weft.cluster.kubeconfig_for_service_account("weft-system", account)
    with place.operator(kubeconfig=kubeconfig) as process:
        place.create_pool("chat")
        place.wait_ready("chat")
        assert process.counted("weft_pass_failures_total", reason="NotPermitted") == 0


def renamed(body: Json, account: str) -> Json:
    """The same object for another service account, under a name of its own."""
    suffix = account if body["kind"] == "ServiceAccount" else f"{body['metadata']['name']}-namespaced"
    subjects = [{**subject, "name": account} for subject in body.get("subjects", ())]
    changed = {**body, "metadata": {**body["metadata"], "name": suffix}}
    return {**changed, "subjects": subjects} if subjects else changed


def test_nothing_was_refused_by_the_shipped_roles(weft: InstalledWeft, place: Place, operator: OperatorProcess) -> None:
    """A permission that is missing would show here, whichever test needed it."""
    with weft.cluster.api_client() as api:
        reviews = client.AuthorizationV1Api(api)
        assert not allowed(reviews, "create", "", "secrets")
        assert not allowed(reviews, "list", "", "secrets")
        assert allowed(reviews, "create", "", "pods")
        assert allowed(reviews, "patch", GROUP, "inferencepools", "status")
    assert operator.counted("weft_pass_failures_total", reason="NotPermitted") == 0


def allowed(reviews: client.AuthorizationV1Api, verb: str, group: str, resource: str, subresource: str = "") -> bool:
    """Whether the operator's account may do that in every namespace."""
    attributes = client.V1ResourceAttributes(verb=verb, group=group, resource=resource, subresource=subresource)
    spec = client.V1SubjectAccessReviewSpec(
        user="system:serviceaccount:weft-system:weft-controller", resource_attributes=attributes
    )
    review = reviews.create_subject_access_review(client.V1SubjectAccessReview(spec=spec))
    return bool(review.status and review.status.allowed)
