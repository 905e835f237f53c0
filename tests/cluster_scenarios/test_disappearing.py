"""What goes away without a farewell: pods deleted by force, and the namespace under a pool (S10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client

from e2e.cluster.presets import h200_boards
from e2e.cluster.waiting import eventually
from tests.scenarios.audit import Asked, writes

if TYPE_CHECKING:
    from collections.abc import Callable

    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(300)

HOLD = "example.com/hold"
RESYNC = ("--tick", "1", "--resync", "1")
REFUSED = 403
PASSES = 4.0
MOST_ATTEMPTS = 4  # one, another for each conflict over the status that tells of it, and the event of the lost pods


@pytest.mark.parametrize("operator_sees_it", [True, False], ids=["seen", "while the operator is away"])
def test_a_pod_that_is_deleted_by_force_comes_back_under_a_new_id(
    weft: InstalledWeft,
    operator_sees_it: bool,  # noqa: FBT001
) -> None:
    """Its engine may still run on a node that nobody hears of: the id names that engine for good."""
    place = weft.place("forced-seen" if operator_sees_it else "forced-unseen", h200_boards(2))
    with place.operator(*RESYNC) as operator:
        place.create_pool("chat")
        place.wait_ready("chat")
        if not operator_sees_it:
            operator.kill()
        (before,) = place.pods()
        delete_by_force(place, before["metadata"]["name"])
        if not operator_sees_it:
            operator.resume()
        eventually(lambda: assigned(place) == [1], "another id is assigned")
        place.wait_ready("chat")
        (after,) = place.pods()
    assert after["metadata"]["name"] == before["metadata"]["name"].replace("-0-0", "-1-0")
    made = [each.name for each in writes(weft.cluster) if is_pod_of(place, each, "create")]
    assert len(made) == len(set(made)) == 2


def test_nothing_is_repaired_in_a_namespace_that_is_being_deleted(weft: InstalledWeft) -> None:
    """S10: somebody's finalizer holds the pool, its pods go, and Weft asks no more once it knows that all is to go.

    It knows by the pool's own deletion, or by the refusal of a pod that it tries to create before that.
    """
    place = weft.place("condemned", h200_boards(1))
    with place.operator(*RESYNC) as operator:
        place.create_pool("chat", scaling={"minReplicas": 2})
        place.wait_ready("chat", 2)
        place.change_pool("chat", {"metadata": {"finalizers": [HOLD]}})
        with weft.cluster.api_client() as api:
            client.CoreV1Api(api).delete_namespace(place.namespace)
        eventually(lambda: is_to_go(place), "Weft can know", timeout_seconds=90)
        eventually(lambda: not place.pods(), "the pods are gone", timeout_seconds=60)
        asked = len(refused(place))
        eventually(decided(operator, PASSES), "time for more attempts")
        assert len(refused(place)) == asked
        assert asked <= MOST_ATTEMPTS
        operator.kill()
        operator.resume()
        eventually(decided(operator, PASSES), "time for attempts of a new process")
        assert len(refused(place)) == asked
        place.change_pool("chat", {"metadata": {"finalizers": None}})
        eventually(lambda: place.namespace not in namespaces(place), "the namespace is gone", timeout_seconds=60)


def is_to_go(place: Place) -> bool:
    """Whether the pool is being deleted, or says that its namespace is."""
    told = place.condition("chat", "Stalled") == ("True", "NamespaceTerminating")
    return told or "deletionTimestamp" in place.pool("chat")["metadata"]


def delete_by_force(place: Place, pod: str) -> None:
    """`kubectl delete --force --grace-period=0`: gone at once, whatever its node says."""
    with place.weft.cluster.api_client() as api:
        client.CoreV1Api(api).delete_namespaced_pod(pod, place.namespace, grace_period_seconds=0)


def assigned(place: Place) -> list[int]:
    return [each["replica"] for each in place.status("chat").get("assignments") or ()]


def is_pod_of(place: Place, each: Asked, verb: str) -> bool:
    """Whether the API server carried out this write of a pod."""
    done = each.code < REFUSED
    return (each.verb, each.resource, each.namespace) == (verb, "/pods", place.namespace) and done


def refused(place: Place) -> list[Asked]:
    return [each for each in writes(place.weft.cluster) if each.namespace == place.namespace and each.code == REFUSED]


def decided(operator: OperatorProcess, passes: float) -> Callable[[], bool]:
    """Whether so many decisions were made from now on."""
    start = operator.metric("weft_decision_seconds_count")
    return lambda: operator.metric("weft_decision_seconds_count") >= start + passes


def namespaces(place: Place) -> set[str]:
    with place.weft.cluster.api_client() as api:
        listed: Any = client.CoreV1Api(api).list_namespace()
    return {each.metadata.name for each in listed.items}
