"""What happened in a namespace, version by version, told by the API server afterwards; and what must hold all along."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.domain import labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from e2e.cluster.presets import SimulatedNode
    from tests.installed import Place

Json = dict[str, Any]

POOLS, PODS, SERVICES = "apis/weft.dev/v1alpha1/inferencepools", "api/v1/pods", "api/v1/services"
WATCHED = (POOLS, PODS, SERVICES)
OK = 200
HALVES = ("prefill", "decode")
SETTLE_SECONDS = 1  # how long a watch may take to tell what is over


@dataclass(slots=True)
class World:
    """Pools, pods and Services of one namespace at one version, by name."""

    version: int = 0
    born: str | None = None  # engine pod that this version created
    written: str | None = None  # Service that this version created or changed
    pools: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    services: dict[str, Json] = field(default_factory=dict)

    def ready(self, pool: str, tags: Mapping[str, str] | None = None) -> int:
        """Replicas of a pool that serve: their first pod, with all labels of `tags` if any, is ready and stays."""
        wanted = {labels.POOL: pool, labels.RANK: "0", **(tags or {})}
        uid = self.pools[pool]["metadata"]["uid"] if pool in self.pools else None
        return sum(
            wanted.items() <= pod["metadata"]["labels"].items()
            and uid in _owners(pod)
            and "deletionTimestamp" not in pod["metadata"]
            and any(each["type"] == "Ready" and each["status"] == "True" for each in _conditions(pod))
            for pod in self.pods.values()
        )

    def take_in(self, event: Event) -> None:
        """One more change."""
        name = event.body["metadata"]["name"]
        engine = event.path == PODS and labels.REPLICA in event.body["metadata"].get("labels", {})
        engine = engine and bool(_owners(event.body))
        self.version = event.version
        self.born = name if engine and event.kind == "ADDED" else None
        self.written = name if event.path == SERVICES and event.kind != "DELETED" else None
        known = {POOLS: self.pools, PODS: self.pods, SERVICES: self.services}[event.path]
        known[name] = event.body
        if event.kind == "DELETED":
            del known[name]


@dataclass(frozen=True, slots=True)
class Event:
    """One change of one object, as a watch tells it."""

    path: str
    kind: str
    body: Json

    @property
    def version(self) -> int:
        return int(self.body["metadata"]["resourceVersion"])


@dataclass(slots=True)
class History:
    """Every single change in a namespace that was empty. The API server tells of a minute: `look` more often."""

    place: Place
    version: int
    events: list[Event] = field(default_factory=list)

    @classmethod
    def begin(cls, place: Place) -> History:
        """From this moment on."""
        return cls(place, version_now(place))

    def look(self) -> None:
        """Take in what happened since the last look."""
        until = version_now(self.place)
        with ThreadPoolExecutor() as watches:
            for found in watches.map(lambda path: list(_changes(self.place, path, self.version)), WATCHED):
                self.events += [event for event in found if event.version <= until]
        self.version = until

    def worlds(self) -> Iterator[World]:
        """The world after each change: one object that changes."""
        world = World()
        for event in sorted(self.events, key=lambda event: event.version):
            world.take_in(event)
            yield world


def version_now(place: Place) -> int:
    """Version of the cluster's state at this moment."""
    return int(json.loads(_read(place, PODS, {}))["metadata"]["resourceVersion"])


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


def check_counts(world: World) -> None:
    """S4: what is desired lies within the bounds, and no more is assigned than is desired."""
    for pool in world.pools.values():
        status, scaling = pool.get("status") or {}, pool["spec"]["scaling"]
        if "desiredReplicas" in status:
            assert scaling["minReplicas"] <= status["desiredReplicas"] <= scaling["maxReplicas"]
            assert len(status.get("assignments") or ()) <= status["desiredReplicas"]


def check_pairs(world: World) -> None:
    """S6: an address that is written chooses the front of a pair only while both halves serve."""
    if world.written is None:
        return
    chosen = world.services[world.written]["spec"]["selector"]
    if labels.FRONT_OF in chosen and chosen[labels.ROUTED] == "true":
        assert all(world.ready(f"{world.written}-{half}") for half in HALVES), f"half a pair at {world.version}"


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


def _owners(pod: Json) -> set[str]:
    """UIDs of what owns a pod; without one it is not ours, whatever its labels say."""
    return {owner["uid"] for owner in pod["metadata"].get("ownerReferences") or ()}


def _conditions(pod: Json) -> list[Json]:
    found: list[Json] = pod.get("status", {}).get("conditions") or []
    return found


def _changes(place: Place, path: str, since: int) -> Iterator[Event]:
    _read(place, path, {})  # waits until the API server's cache of these, which a watch tells of, is of this moment
    query = {"watch": "true", "resourceVersion": str(since), "timeoutSeconds": str(SETTLE_SECONDS)}
    for line in _read(place, path, query).splitlines():
        told = json.loads(line)
        assert told["type"] != "ERROR", f"the API server has forgotten version {since}"
        yield Event(path, told["type"], told["object"])


def _read(place: Place, plural: str, query: dict[str, str]) -> bytes:
    root, _, name = plural.rpartition("/")
    path = f"/{root}/namespaces/{place.namespace}/{name}"
    with place.weft.cluster.api_client() as api:
        answer = api.call_api(*api.param_serialize("GET", path, query_params=[*query.items()]))
        content: bytes = answer.read()
    assert answer.status == OK, content
    return content
