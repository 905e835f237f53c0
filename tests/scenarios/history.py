"""What happened in a namespace, version by version, told by the API server afterwards; and what must hold all along."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from e2e.cluster.presets import SimulatedNode
    from tests.installed import Place

Json = dict[str, Any]

POOLS, PODS = "apis/weft.dev/v1alpha1/inferencepools", "api/v1/pods"
OK = 200
SETTLE_SECONDS = 1  # how long a watch may take to tell what is over


@dataclass(slots=True)
class World:
    """Pools and pods of one namespace at one version, by name."""

    version: int = 0
    born: str | None = None  # engine pod that this version created
    pools: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)

    def ready(self, pool: str) -> int:
        """Replicas of a pool that serve: their first pod is ready and stays."""
        return sum(
            pod["metadata"]["labels"].get("weft.dev/pool") == pool
            and pod["metadata"]["labels"].get("weft.dev/rank") == "0"
            and "deletionTimestamp" not in pod["metadata"]
            and any(each["type"] == "Ready" and each["status"] == "True" for each in _conditions(pod))
            for pod in self.pods.values()
        )


def version_now(place: Place) -> int:
    """Version of the cluster's state at this moment."""
    return int(json.loads(_read(place, PODS, {}))["metadata"]["resourceVersion"])


def history(place: Place, since: int) -> Iterator[World]:
    """The world after every single change since a version, of a minute ago at most, when it was empty."""
    world, events = World(), []
    for path, known in ((POOLS, world.pools), (PODS, world.pods)):
        for kind, body in _changes(place, path, since):
            events.append((int(body["metadata"]["resourceVersion"]), known, kind, body))
    for version, known, kind, body in sorted(events, key=lambda event: event[0]):
        engine = kind == "ADDED" and "weft.dev/replica" in body["metadata"].get("labels", {})
        world.version, world.born = version, body["metadata"]["name"] if engine else None
        known[body["metadata"]["name"]] = body
        if kind == "DELETED":
            del known[body["metadata"]["name"]]
        yield world


def check_rules(world: World, nodes: Mapping[str, SimulatedNode]) -> None:
    """What holds at every moment, whatever died: S2 and S9."""
    promised: Counter[str] = Counter()
    held: Counter[str] = Counter()
    for pool in world.pools.values():
        for each in (pool.get("status") or {}).get("assignments") or ():
            promised.update(dict.fromkeys(each["nodes"], each["gpusPerPod"]))
            cliques = {nodes[name].labels["nvidia.com/gpu.clique"] for name in each["nodes"]}
            assert len(cliques) == 1, f"a replica spans NVLink domains: {each}"
    for pod in world.pods.values():
        if "nodeName" in pod["spec"]:
            held.update({pod["spec"]["nodeName"]: _gpus(pod)})
    for counts in (promised, held):
        assert all(count <= nodes[name].gpus for name, count in counts.items()), f"GPUs are given twice: {counts}"


def check_assigned_first(world: World) -> None:
    """A pod is created for an assignment that is in the status by then."""
    if world.born is None:
        return
    tags = world.pods[world.born]["metadata"]["labels"]
    status = world.pools[tags["weft.dev/pool"]].get("status") or {}
    assert tags["weft.dev/replica"] in {str(each["replica"]) for each in status.get("assignments") or ()}, world.born


def _gpus(pod: Json) -> int:
    amounts = (each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"])
    return sum(int(amount.get("nvidia.com/gpu", 0)) for amount in amounts)


def _conditions(pod: Json) -> list[Json]:
    found: list[Json] = pod.get("status", {}).get("conditions") or []
    return found


def _changes(place: Place, plural: str, since: int) -> list[tuple[str, Json]]:
    query = {"watch": "true", "resourceVersion": str(since), "timeoutSeconds": str(SETTLE_SECONDS)}
    events = [json.loads(line) for line in _read(place, plural, query).splitlines()]
    assert all(event["type"] != "ERROR" for event in events), f"the API server has forgotten version {since}"
    return [(event["type"], event["object"]) for event in events]


def _read(place: Place, plural: str, query: dict[str, str]) -> bytes:
    root, _, name = plural.rpartition("/")
    path = f"/{root}/namespaces/{place.namespace}/{name}"
    with place.weft.cluster.api_client() as api:
        answer = api.call_api(*api.param_serialize("GET", path, query_params=[*query.items()]))
        content: bytes = answer.read()
    assert answer.status == OK, content
    return content
