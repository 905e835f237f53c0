"""One resource alone in a small cluster: decided on, rendered and converged until nothing moves, as the operator does.

What stands then is compared as text. Replicas are numbered anew, because an id is never used again, and their age is
left out; what only tells that something else differs (hashes, revisions) is left out where effects are looked for.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.holding.cluster import boards, node_body, rack
from tests.holding.operation import TEAM, Operation
from tests.holding.pairs import Pair
from weft.domain import labels
from weft.domain.queueing import Queueing, QueueRecord
from weft.domain.snapshot import PoolObservation

if TYPE_CHECKING:
    from weft.domain.snapshot import Snapshot

Json = dict[str, Any]
Standing = dict[tuple[str, str], str]
UID = "uid-chat"
KUEUE = Queueing(installed=True, queues=(QueueRecord(TEAM, "a"), QueueRecord(TEAM, "b")))
RATES = (*range(4, 64, 4), *30 * [4])  # requests per second, for a quarter of a minute each
ZONE = "topology.kubernetes.io/zone"
TELLTALES = (labels.APPLIED, labels.REVISION, labels.PAIR)


def nodes() -> list[Json]:
    """Boards of H200 in two zones, one of H100, a rack of four trays and two of one tray each."""
    trays = [*rack("c", 4), *rack("d", 1), *rack("e", 1)]
    found = [*boards(2), node_body("h-0", "NVIDIA-H100-80GB-HBM3", 8), *trays]
    for node in found:
        name, tags = node["metadata"]["name"], node["metadata"]["labels"]
        tags |= {ZONE: "z-2" if name == "b-1" else "z-1", "alone": str(name[0] in "de").lower()}
        for each in ("capacity", "allocatable"):
            node["status"][each] |= {"rdma/hca": "8", "rdma/other": "8", "hugepages-2Mi": "8Gi", "hugepages-1Gi": "8Gi"}
    return found


def pool(spec: Json) -> Json:
    """An InferencePool `chat` as its user wrote it."""
    meta = {"name": "chat", "namespace": TEAM, "uid": UID, "generation": 1, "resourceVersion": "1"}
    return {"apiVersion": labels.API_VERSION, "kind": "InferencePool", "metadata": meta, "spec": copy.deepcopy(spec)}


def split(spec: Json) -> Json:
    """A PDSplit `duo` as its user wrote it."""
    meta = {"name": "duo", "namespace": TEAM, "uid": "uid-duo", "generation": 1, "resourceVersion": "1"}
    return {"apiVersion": labels.API_VERSION, "kind": "PDSplit", "metadata": meta, "spec": copy.deepcopy(spec)}


@dataclass
class Alone(Operation):
    """A pool and its cluster, with Kueue beside, and metrics where a test gives them."""

    observations: dict[str, PoolObservation] = field(default_factory=dict)

    @classmethod
    def with_spec(cls, spec: Json) -> Alone:
        """At rest, as often as it is asked for."""
        return copy.deepcopy(_alone(json.dumps(spec)))

    def snapshot(self) -> Snapshot:
        return replace(super().snapshot(), queueing=KUEUE, observations=dict(self.observations))

    def go_on(self) -> None:
        """Routers get ready, too: until they are, the Service of a pool that had none leads to its replicas."""
        super().go_on()
        for each in self.cluster.objects_of(TEAM):
            if each.kind == "Deployment" and not each.body.get("status"):
                self.cluster.object(each.kind, each.name)["status"] = {"readyReplicas": each.body["spec"]["replicas"]}
                self.cluster.revision += 1

    def become(self, spec: Json) -> None:
        """The user applies another spec, and time passes until nothing moves."""
        body = self.bodies["chat"]
        body["spec"] = copy.deepcopy(spec)
        body["metadata"]["generation"] += 1
        self.rest()

    def history(self) -> list[Json]:
        """A day in which traffic grows and falls, and then an edit: counts, and replicas of each revision."""
        told = []
        for rate in RATES:
            self.observations = {UID: _seen(len(self.serving("chat")), rate)}
            told.append(self._tell())
        self.edit("chat", engine={**self.bodies["chat"]["spec"]["engine"], "env": [{"name": "NEWS", "value": "1"}]})
        return [*told, *(self._tell() for _ in range(12))]

    def _tell(self) -> Json:
        self.turn(seconds=15.0)
        tags = [pod["metadata"]["labels"] for pod in self.pods_of("chat")]
        count = self.pool("chat").status.desired_replicas
        planned = self.condition("chat", "Planned")
        return {"desired": count, "planned": planned, **Counter(each[labels.REVISION] for each in tags)}

    def standing(self) -> Standing:
        """Everything there is but nodes and the resource, by kind and name."""
        others = [record.body for record in self.cluster.objects_of(TEAM)]
        return {(body["kind"], body["metadata"]["name"]): text(body) for body in (*self._numbered_pods(), *others)}

    def _numbered_pods(self) -> list[Json]:
        order = {replica: index for index, replica in enumerate(sorted(self.replicas("chat")))}
        return [_renumbered(pod, order) for pod in self.pods_of("chat")]


def _seen(replicas: int, rate: float) -> PoolObservation:
    """Metrics of that many engines that meet every target."""
    return PoolObservation(
        expected=replicas,
        answered=replicas,
        age_seconds=5.0,
        requests_per_second=float(rate),
        input_tokens=1024.0,
        output_tokens=256.0,
        prefix_hit=0.0,
        waiting=0.0,
        running=4.0,
        kv_usage=0.3,
        startup_seconds=60.0,
    )


def text(body: Json) -> str:
    """An object byte for byte, without what differs between any two runs."""
    plain = copy.deepcopy(body)
    plain.pop("status", None)
    for name in ("uid", "creationTimestamp", "managedFields"):
        plain["metadata"].pop(name, None)
    return json.dumps(plain, sort_keys=True)


def differing(before: Standing, after: Standing) -> set[tuple[str, str]]:
    """Objects that came, went or became others in more than what tells of a change."""
    there = before.keys() | after.keys()
    return {key for key in there if _plain(before.get(key)) != _plain(after.get(key))}


def effects(before: Standing, after: Standing) -> set[str]:
    """Their kinds."""
    return {kind for kind, _ in differing(before, after)}


def _plain(standing: str | None) -> str | None:
    for name in TELLTALES:
        standing = standing and re.sub(rf'"{name}": "[0-9a-f]*"(, )?', "", standing)
    return standing


def _renumbered(pod: Json, order: dict[int, int]) -> Json:
    tags = pod["metadata"]["labels"]
    number, rank = tags[labels.REPLICA], tags[labels.RANK]
    own = pod["metadata"]["name"].removesuffix(f"-{number}-{rank}").removeprefix("chat-")
    new = order[int(number)]
    found: Json = json.loads(json.dumps(pod).replace(f"{own}-{number}", f"{own}-{new}"))
    found["metadata"]["labels"][labels.REPLICA] = str(new)
    return found


class Both(Pair):
    """A split `duo` and its cluster, as far as it renders anything itself: its halves' replicas are not started."""

    @classmethod
    def with_spec(cls, spec: Json) -> Both:
        """At rest, as often as it is asked for."""
        return copy.deepcopy(_both(json.dumps(spec)))

    def snapshot(self) -> Snapshot:
        return replace(super().snapshot(), queueing=KUEUE)

    def become(self, spec: Json) -> None:
        """The user applies another spec, and both loops look until nothing is written any more."""
        self.split["spec"] = copy.deepcopy(spec)
        self.split["metadata"]["generation"] += 1
        self.rest()

    def rest(self, most_turns: int = 20) -> None:
        for _ in range(most_turns):
            before = self.writes
            self.cluster.now += 5.0
            self.decide()
            self.converge_the_split()
            if self.writes == before:
                return
        raise AssertionError(f"not at rest after {most_turns} turns: {self.describe()}")

    def standing(self) -> Standing:
        """Its halves, and what stands before them."""
        bodies = [record.body for record in self.cluster.objects_of(TEAM)]
        return {(body["kind"], body["metadata"]["name"]): text(body) for body in bodies}

    def told(self) -> str:
        """Why there is no plan, or what is wrong with the spec; empty where neither is so."""
        problem = self.record().problem
        conditions = self.split.get("status", {}).get("conditions", ())
        unplanned = [each["message"] for each in conditions if (each["type"], each["status"]) == ("Planned", "False")]
        return problem.message if problem is not None else "".join(unplanned)


@cache
def _alone(spec: str) -> Alone:
    found = Alone.of(nodes(), pool(json.loads(spec)))
    assert isinstance(found, Alone)
    found.rest()
    return found


@cache
def _both(spec: str) -> Both:
    found = Both.on(nodes(), split(json.loads(spec)))
    assert isinstance(found, Both)
    found.rest()
    return found
