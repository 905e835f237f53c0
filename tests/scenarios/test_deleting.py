"""Deleting a resource, its namespace or the definitions finishes, and leaves nothing of Weft's and all that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client
from kubernetes.client.exceptions import ApiException

from e2e.cluster.presets import h200_boards
from e2e.cluster.waiting import eventually
from tests.manifests import install, load
from tests.scenarios.tenants import (
    A_VOLUME,
    a_pod_with_our_labels,
    create_split,
    delete_split,
    make_users_objects,
    name_its_pool,
    split_condition,
    users_objects,
)

if TYPE_CHECKING:
    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(150)

Json = dict[str, Any]
CHILDREN = (
    *("api/v1/pods", "api/v1/services", "apis/apps/v1/deployments", "apis/apps/v1/replicasets"),
    "apis/policy/v1/poddisruptionbudgets",
)
OWNED = (*CHILDREN, "apis/weft.dev/v1alpha1/inferencepools")
DEFINITIONS = ("inferencepools.weft.dev", "pdsplits.weft.dev")
NOT_FOUND = 404
# The garbage collector reads what kinds there are every 30 s, and knows nothing of an owner whose kind came and went in
# between: it asks for it again and again, for ever.
COLLECTED_SECONDS = 90
FROM_A_VOLUME = {"id": "meta-llama/Llama-3.1-8B-Instruct", "source": A_VOLUME}
A_FRONT = {"type": "Managed", "resources": {"cpu": "1", "memory": "1Gi"}}
SPLIT = {"model": FROM_A_VOLUME, "shape": {"tensorParallel": 1}, "router": A_FRONT}


def test_a_deleted_pool_takes_all_of_it_along_and_nothing_else(weft: InstalledWeft, operator: OperatorProcess) -> None:
    """Pods, Services, budget and front go; volumes, Secrets, accounts and other people's pods stay (S3, S7)."""
    place = weft.place("deleting", h200_boards(1))
    make_users_objects(place)
    a_pod_with_our_labels(place, f"{place.namespace}-h200-0")
    place.create_pool("chat", model=FROM_A_VOLUME, router=A_FRONT, scaling={"minReplicas": 2})
    stranger = name_its_pool(place)
    place.wait_ready("chat", 2)
    before = users_objects(place)
    kinds = {"pods", "services", "deployments", "replicasets", "poddisruptionbudgets"}
    assert {kind for kind, _ in owned(place)} == kinds

    place.delete_pool("chat")
    eventually(lambda: not owned(place), "everything of the pool is gone", timeout_seconds=60)
    assert users_objects(place) == before
    assert place.pods() == [stranger]


def test_a_deleted_split_takes_both_pools_along(weft: InstalledWeft, operator: OperatorProcess) -> None:
    place = weft.place("parting", h200_boards(1))
    make_users_objects(place)
    create_split(place, "pair", SPLIT)
    eventually(lambda: split_condition(place, "pair", "Ready")[0] == "True", "the pair serves", timeout_seconds=60)
    before = users_objects(place)
    assert {kind for kind, _ in owned(place)} >= {"pods", "services", "deployments", "inferencepools"}

    delete_split(place, "pair")
    eventually(lambda: not owned(place), "everything of the pair is gone", timeout_seconds=60)
    assert users_objects(place) == before


def test_a_namespace_with_pools_can_be_deleted(weft: InstalledWeft, operator: OperatorProcess) -> None:
    """No finalizer of ours holds it, and nothing is created in it meanwhile."""
    place = weft.place("leaving", h200_boards(1))
    make_users_objects(place)
    place.create_pool("chat", scaling={"minReplicas": 2})
    create_split(place, "pair", SPLIT)
    place.wait_ready("chat", 2)
    eventually(lambda: split_condition(place, "pair", "Ready")[0] == "True", "the pair serves", timeout_seconds=60)
    delete_namespace(place)
    eventually(lambda: place.namespace not in namespaces(place), "the namespace is gone", timeout_seconds=60)


@pytest.mark.timeout(480)
def test_deleted_definitions_take_everything_along(weft: InstalledWeft, operator: OperatorProcess) -> None:
    """The operator outlives its own definitions: once they are installed again, it serves again."""
    place = weft.place("undefined", h200_boards(1))
    make_users_objects(place)
    the_garbage_collector_knows_our_kinds(place)
    place.create_pool("chat")
    create_split(place, "pair", SPLIT)
    place.wait_ready("chat")
    eventually(lambda: split_condition(place, "pair", "Ready")[0] == "True", "the pair serves", timeout_seconds=60)
    with weft.cluster.api_client() as api:
        for name in DEFINITIONS:
            client.ApiextensionsV1Api(api).delete_custom_resource_definition(name)
    eventually(lambda: not defined(place), "the definitions are gone")
    eventually(lambda: not owned(place, CHILDREN), "nothing of ours is left", timeout_seconds=COLLECTED_SECONDS)
    assert operator.running

    with weft.cluster.api_client() as api:
        install(api, [body for body in load("base") if body["kind"] == "CustomResourceDefinition"])
    eventually(lambda: created(place, "again"), "a pool can be created again")
    place.wait_ready("again", seconds=180)


def the_garbage_collector_knows_our_kinds(place: Place) -> None:
    """What a split and its pools owned goes when the split goes, which only the collector does."""
    create_split(place, "first", SPLIT)
    eventually(lambda: owned(place, CHILDREN), "the first pair has pods", timeout_seconds=60)
    delete_split(place, "first")
    eventually(lambda: not owned(place), "everything of the first pair is gone", timeout_seconds=COLLECTED_SECONDS)


def owned(place: Place, paths: tuple[str, ...] = OWNED) -> set[tuple[str, str]]:
    """(plural, name) of everything in the namespace that has an owner, be it the owner of its owner."""
    return {
        (path.rpartition("/")[2], body["metadata"]["name"])
        for path in paths
        for body in place.objects(path)
        if body["metadata"].get("ownerReferences")
    }


def delete_namespace(place: Place) -> None:
    with place.weft.cluster.api_client() as api:
        client.CoreV1Api(api).delete_namespace(place.namespace)


def namespaces(place: Place) -> set[str]:
    with place.weft.cluster.api_client() as api:
        listed = api.sanitize_for_serialization(client.CoreV1Api(api).list_namespace())
    return {body["metadata"]["name"] for body in listed["items"]}


def defined(place: Place) -> set[str]:
    """Definitions of ours; others read those of neighbours, which stay."""
    with place.weft.cluster.api_client() as api:
        found = client.ApiextensionsV1Api(api).list_custom_resource_definition()
        listed = api.sanitize_for_serialization(found)
    return {body["metadata"]["name"] for body in listed["items"]} & set(DEFINITIONS)


def created(place: Place, name: str) -> bool:
    """Whether the API server takes a pool by now."""
    try:
        place.create_pool(name)
    except ApiException as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True
