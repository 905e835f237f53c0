"""The shipped roles grant what Weft needs and nothing else: nothing is refused, and every grant is used."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from e2e.cluster.presets import h200_boards
from e2e.cluster.simulated_pods import AfterCrash, Crash, crash_container
from e2e.cluster.waiting import eventually
from tests.catalog.configs import SHORT_LLAMA
from tests.manifests import install, load
from tests.scenarios.audit import CREATED, asked
from tests.scenarios.nvlink import Driver
from tests.scenarios.tenants import change_split, create_split, engines, hold_gpus, split_condition

if TYPE_CHECKING:
    from e2e.operator_process import OperatorProcess
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(150)

Json = dict[str, Any]

# Pods of a picker are looked for where a Prometheus may tell what they count; this cluster has none.
WITH_A_PROMETHEUS = {("list", "discovery.k8s.io/endpointslices")}
# The operator lists splits; `weft explain` in its pod gets one (tests/cli/test_in_pod.py).
BY_THE_COMMAND_LINE = {("get", "weft.dev/pdsplits")}
EDGE = {"parentRefs": [{"name": "edge"}], "endpointPickerRef": {"name": "picker"}}
A_FRONT = {"type": "Managed", "resources": {"cpu": "1", "memory": "1Gi"}}


@pytest.fixture
def place(weft: InstalledWeft, operator: OperatorProcess) -> Place:
    """A namespace with a ConfigMap that describes a model, and a PriorityClass."""
    place = weft.place("granted", h200_boards(1))
    objects: list[Json] = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "ours"},
            "data": {"config.json": json.dumps(SHORT_LLAMA)},
        },
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "important"},
            "value": 1000,
        },
    ]
    with weft.cluster.api_client() as api:
        install(api, objects, place.namespace)
    return place


def test_every_grant_is_used_and_nothing_is_refused(weft: InstalledWeft, place: Place) -> None:
    """A tour through what Weft can do; the API server's audit log says what that took."""
    a_pool_with_a_front_and_a_model_of_the_users_own(place)
    a_stranger_that_has_the_name_of_a_pod(place)
    a_replica_that_fails(place)
    a_split_that_loses_its_front(place)
    a_pool_that_leaves_a_gateway(place)
    a_replica_over_trays_that_leaves(weft)
    requests = asked(weft.cluster)
    assert [each for each in requests if not each.granted] == []
    used = {(each.verb, each.resource) for each in requests}
    used |= {("create", each.resource) for each in requests if (each.verb, each.code) == ("patch", CREATED)}
    assert granted() - used == WITH_A_PROMETHEUS | BY_THE_COMMAND_LINE


def a_pool_with_a_front_and_a_model_of_the_users_own(place: Place) -> None:
    place.create_pool(
        "chat",
        model={"id": "our/model", "config": {"configMapRef": {"name": "ours", "key": "config.json"}}},
        router=A_FRONT,
        pod={"priorityClassName": "important"},
        scaling={"mode": "External", "replicas": 1},
    )
    place.wait_ready("chat")
    place.change_pool("chat", {"spec": {"router": {"type": "None", "resources": None}}})
    eventually(lambda: names(place, "apis/apps/v1/deployments") == set(), "the front is gone")


def a_stranger_that_has_the_name_of_a_pod(place: Place) -> None:
    """S3: it is named and left alone; once it is gone, its name is used."""
    digest = hashlib.sha256(place.pool("chat")["metadata"]["uid"].encode()).hexdigest()[:5]
    stranger = hold_gpus(place, f"chat-{digest}-1-0", f"{place.namespace}-h200-0", 1)
    place.change_pool("chat", {"spec": {"scaling": {"replicas": 2}}})
    eventually(lambda: place.condition("chat", "Stalled") == ("True", "NameTaken"), "the stranger is named")
    (there,) = (pod for pod in place.pods() if pod["metadata"]["name"] == stranger["metadata"]["name"])
    assert there["metadata"]["uid"] == stranger["metadata"]["uid"]
    assert "deletionTimestamp" not in there["metadata"]
    place.delete_pod(stranger["metadata"]["name"])
    place.wait_ready("chat", 2, seconds=60)


def a_replica_that_fails(place: Place) -> None:
    victim = engines(place, "chat")[0]["metadata"]["name"]
    crash_container(place.weft.cluster, place.namespace, victim, Crash(after=AfterCrash.FAIL))
    eventually(lambda: victim not in names(place, "api/v1/pods"), "it is cleared away")
    place.wait_ready("chat", 2, seconds=60)


def a_split_that_loses_its_front(place: Place) -> None:
    model = {"id": "meta-llama/Llama-3.1-8B-Instruct"}
    create_split(place, "pair", {"model": model, "shape": {"tensorParallel": 1}, "router": A_FRONT})
    eventually(lambda: split_condition(place, "pair", "Ready")[0] == "True", "the pair serves", timeout_seconds=60)
    change_split(place, "pair", {"spec": {"router": {"type": "None", "resources": None}}})
    eventually(lambda: "pair" not in names(place, "api/v1/services"), "the address of the pair is gone")
    eventually(lambda: names(place, "apis/apps/v1/deployments") == set(), "and its front")


def a_pool_that_leaves_a_gateway(place: Place) -> None:
    routes, endpoints = (f"apis/{group}.k8s.io/v1" for group in ("gateway.networking", "inference.networking"))
    place.create_pool("routed", router={"type": "Gateway", "gateway": EDGE}, scaling={"maxReplicas": 1})
    eventually(lambda: names(place, f"{routes}/httproutes") == {"routed"}, "its route is there")
    eventually(lambda: names(place, f"{endpoints}/inferencepools") == {"routed"}, "and what it leads to")
    place.change_pool("routed", {"spec": {"router": {"type": "None", "gateway": None}}})
    eventually(lambda: names(place, f"{routes}/httproutes") == set(), "the route is gone")
    eventually(lambda: names(place, f"{endpoints}/inferencepools") == set(), "and what it led to")


def a_replica_over_trays_that_leaves(weft: InstalledWeft) -> None:
    driver = Driver(weft, "granted-nvlink", trays=4)
    driver.create_pool("wide", replicas=2)
    eventually(lambda: driver.serves("wide", 2), "both replicas serve", timeout_seconds=60)
    driver.place.change_pool("wide", {"spec": {"scaling": {"replicas": 1}}})
    eventually(lambda: driver.serves("wide", 1), "the ComputeDomain of one is gone", timeout_seconds=60)


def names(place: Place, path: str) -> set[str]:
    return {body["metadata"]["name"] for body in place.objects(path)}


def granted() -> set[tuple[str, str]]:
    """(verb, group/resource) of every shipped role that is bound to the operator."""
    roles = [body for folder in ("base", "pod-logs") for body in load(folder) if body["kind"] == "ClusterRole"]
    return {
        (verb, f"{group}/{resource}")
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
