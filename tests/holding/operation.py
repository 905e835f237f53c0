"""Weft around a simulated cluster: decide and converge as the operator runs them, write by write.

Everything passes through what the API server keeps: nodes and pods are JSON and read by the operator's own readers,
decisions are written into the status and parsed again. What only a process knows is gone when it dies.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from tests.holding.cluster import GPU, Cluster, bound_to, gpus_of
from weft.api import converge_status, parse_pool, pool_status
from weft.catalog import load
from weft.control.statuses.status import needs_write
from weft.converge import Heard, converge_pool
from weft.decide import decide, in_safe_order
from weft.domain import labels
from weft.domain.action import (
    Action,
    ApplyObject,
    CreatePod,
    DeleteObject,
    DeletePod,
    LabelPod,
    ReleasePods,
    UnroutePod,
)
from weft.domain.crews import crews_of
from weft.domain.decision import PoolDecision
from weft.domain.moves import MoveBudget
from weft.domain.reports import Reports
from weft.domain.snapshot import PoolObservation, Snapshot
from weft.fabric import build_fabric
from weft.observe.custom_resources.regained import regained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from weft.converge import Convergence
    from weft.domain.cluster import ObjectRecord, PodRecord
    from weft.domain.decision import Decisions
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.snapshot import PoolRecord
    from weft.domain.status import Assignment, PoolProgress

Json = dict[str, Any]
TEAM = "team"
A_DAY = 86_400.0  # seconds
TRIES = "spec.rollout.minReadySeconds"  # as conditions name it while a rollout waits for no more than that


class Died(Exception):  # noqa: N818 - it is no error of anybody
    """The operator's process ended after the write that it was allowed."""


def pool_body(name: str, accelerator: str, tensor: int, replicas: int, **more: Any) -> Json:  # noqa: ANN401 - any field
    """An InferencePool of a small model, as its user wrote it, with a count of its own."""
    spec = {
        "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
        "shape": {"tensorParallel": tensor, "pipelineParallel": 1, "dataParallel": 1},
        "placement": {"accelerators": [accelerator]},
        "scaling": {"mode": "External", "replicas": replicas, "maxReplicas": 9},
        **more,
    }
    meta = {"name": name, "namespace": TEAM, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "1"}
    return {"apiVersion": labels.API_VERSION, "kind": "InferencePool", "metadata": meta, "spec": spec}


@dataclass
class Operation:
    """An operator, its pools and the cluster. `writes_left` is how many writes the process lives; None: all of them."""

    cluster: Cluster
    bodies: dict[str, Json]
    memory: dict[str, ScaleMemory] = field(default_factory=dict)
    parts: dict[str, dict[str, Json]] = field(default_factory=dict)  # status by pool and manager
    writes: int = 0
    writes_left: int | None = None
    made: Counter[str] = field(default_factory=Counter)  # pods by name
    last: Decisions | None = None
    again: dict[str, float | None] = field(default_factory=dict)  # when converging a pool says that it is due, seconds
    budget: MoveBudget = field(default_factory=MoveBudget)
    reports: Reports = field(default_factory=Reports)
    edited: set[str] = field(default_factory=set)  # pools whose status cannot be written: each time somebody was faster
    released_into: Callable[[Operation, Assignment], None] = lambda *_: None

    @classmethod
    def of(cls, nodes: list[Json], *pools: Json) -> Self:
        """A cluster in which nothing has happened yet."""
        return cls(Cluster({node["metadata"]["name"]: node for node in nodes}), {_name(body): body for body in pools})

    # looking

    def pools(self) -> tuple[PoolRecord, ...]:
        """As the operator reads them."""
        return self._read(self.bodies.values())

    def pool(self, name: str) -> PoolRecord:
        return self._read([self.bodies[name]])[0]

    def _read(self, bodies: Iterable[Json]) -> tuple[PoolRecord, ...]:
        return regained(map(parse_pool, bodies), crews_of(self.cluster.pod_records()), self.reports)

    def assignments(self, name: str) -> tuple[Assignment, ...]:
        return self.pool(name).status.assignments

    def replicas(self, name: str) -> list[int]:
        return [each.replica for each in self.assignments(name)]

    def nodes_of(self, name: str) -> list[tuple[str, ...]]:
        return [each.nodes for each in self.assignments(name)]

    def snapshot(self) -> Snapshot:
        cluster = self.cluster
        seen = (self.pools(), (), cluster.node_records(), cluster.pod_records())
        return Snapshot(cluster.now, *seen, self.heard(), dict(self.memory), self.reports, budget=self.budget)

    def heard(self) -> dict[str, PoolObservation]:
        """By UID of each pool who answers, where that matters: what engines tell of traffic does nowhere here."""
        away = self.cluster.away
        return {body["metadata"]["uid"]: self._heard(name) for name, body in self.bodies.items() if away}

    def _heard(self, name: str) -> PoolObservation:
        leaders = (pod for pod in self.pods_of(name) if pod["metadata"]["labels"][labels.RANK] == "0")
        heard = [(pod["metadata"]["name"], 0.0) for pod in leaders if self.cluster.answers(pod)]
        return PoolObservation(len(heard), 0, 0.0, heard=tuple(heard))

    def pods_of(self, name: str, replica: int | None = None) -> list[Json]:
        """Engine pods of a pool, or of one of its replicas."""
        tags = {labels.POOL: name} | ({labels.REPLICA: str(replica)} if replica is not None else {})
        return [pod for pod in self.cluster.pods.values() if tags.items() <= pod["metadata"]["labels"].items()]

    def serving(self, name: str) -> list[int]:
        """Replicas that have an assignment, all of their pods ready, and none that goes away."""
        return [each.replica for each in self.assignments(name) if self._serves(name, each)]

    def _serves(self, name: str, assignment: Assignment) -> bool:
        pods = self.pods_of(name, assignment.replica)
        return len(pods) == assignment.pods and all(self.cluster.serves(pod) for pod in pods)

    def condition(self, name: str, kind: str) -> tuple[str, str, str]:
        """(status, reason, message)."""
        return self.conditions_of(name).get(kind, ("", "", ""))

    def conditions_of(self, name: str) -> dict[str, tuple[str, str, str]]:
        """The same by type."""
        listed = self.bodies[name].get("status", {}).get("conditions", [])
        return {each["type"]: (each["status"], each["reason"], each["message"]) for each in listed}

    def events(self, name: str) -> list[str]:
        """Reasons of what the last decision told."""
        assert self.last is not None
        return [event.reason.value for each in self.last.pools if each.key.name == name for event in each.events]

    # the operator

    def decide(self) -> None:
        """One pass: each status is a write of its own."""
        now, snapshot = self.cluster.now, self.snapshot()
        self.last = decide(snapshot, load())
        self.memory = dict(self.last.memory)
        for each in in_safe_order(self.last.pools, snapshot.pools):
            decision = each.decision
            assert isinstance(decision, PoolDecision)
            if decision.key.name in self.edited or not each.after.isdisjoint(f"uid-{name}" for name in self.edited):
                continue
            live = self.bodies[decision.key.name].get("status") or {}
            self._persist(decision.key.name, labels.DECIDE_MANAGER, pool_status(decision, live, now))

    def converge(self, name: str) -> None:
        """One pass over one pool."""
        done = self._converged(name)
        for action in done.actions:
            for step in _writes(action):
                self._carry_out(step, name)
        live = self.bodies[name].get("status") or {}
        self._persist(name, labels.CONVERGE_MANAGER, converge_status(done.progress, live, self.cluster.now))

    def _converged(self, name: str) -> Convergence[PoolProgress]:
        """What a pass over one pool asks for."""
        pool, pods = self.pool(name), self.cluster.pod_records()
        fabric = build_fabric(self.cluster.node_records(), pods, load(), self.reports)
        owners = {pool.key.uid, pool.split_uid} - {None}
        mine = tuple(pod for pod in pods if _owner(pod) in owners)
        done = converge_pool(pool, fabric, mine, self.objects_seen(), Heard(self.cluster.now))
        self.again[name] = done.again_seconds
        return done

    def objects_seen(self) -> tuple[ObjectRecord, ...]:
        """Our objects, as the operator knows them."""
        return self.cluster.objects_of(TEAM)

    def _carry_out(self, action: Action, name: str) -> None:
        self._check(action, name)
        self.cluster.carry_out(action)
        self._count()

    def _check(self, action: Action, name: str) -> None:
        """S3 and S10 of every write to a pod, and ids that are never used again."""
        if isinstance(action, CreatePod):
            self.made[action.body["metadata"]["name"]] += 1
        if isinstance(action, DeletePod | UnroutePod | LabelPod):
            pod = self.cluster.pods[action.name]
            assert f"uid-{name}" == pod["metadata"]["ownerReferences"][0]["uid"]
            assert "deletionTimestamp" not in pod["metadata"]
        if isinstance(action, ReleasePods):
            replica = int(self.cluster.pods[action.pods[0][0]]["metadata"]["labels"][labels.REPLICA])
            (assignment,) = (each for each in self.assignments(name) if each.replica == replica)
            self.released_into(self, assignment)

    def _persist(self, name: str, manager: str, wanted: Json) -> None:
        """Server-side apply by one of two managers, where anything would change."""
        body, parts = self.bodies[name], self.parts.setdefault(name, {})
        if parts.get(manager) == wanted or (manager not in parts and not needs_write(body, wanted, manager)):
            return
        parts[manager] = copy.deepcopy(wanted)
        conditions = [each for part in parts.values() for each in part.get("conditions", ())]
        body["status"] = {key: value for part in parts.values() for key, value in part.items()}
        body["status"]["conditions"] = conditions
        self._count()

    def _count(self) -> None:
        self.writes += 1
        if self.writes_left is not None:
            self.writes_left -= 1
            if self.writes_left <= 0:
                raise Died

    def restart(self) -> None:
        """A new process: it knows what the API server keeps, and lives."""
        self.memory, self.writes_left, self.edited = {}, None, set()

    # time

    def turn(self, turns: int = 1, seconds: float = 5.0) -> None:
        """Everybody does one pass, as often as asked for."""
        for _ in range(turns):
            self.cluster.now += seconds
            self.decide()
            for name in self.bodies:
                self.converge(name)
            self.go_on()

    def go_on(self) -> None:
        """What everybody does whom no operator has to tell."""
        self.cluster.step()

    def outlives_a_turn(self, writes: int) -> bool:
        """Whether a process with so many writes does; where it dies, everybody else goes on, and a new one comes."""
        self.writes_left = writes
        try:
            self.turn()
        except Died:
            self.restart()
            self.go_on()
            return False
        return True

    def rest(self, most_turns: int = 120) -> None:
        """Let time pass until nobody has anything to do and time alone changes nothing for a day."""
        for _ in range(most_turns):
            before = (self.writes, self.cluster.revision)
            self.turn()
            wait = self.last.wake_after_seconds if self.last is not None else None
            if before == (self.writes, self.cluster.revision):
                if wait is None or wait > A_DAY:
                    return
                self.cluster.now += wait
        raise AssertionError(f"not at rest after {most_turns} turns: {self.describe()}")

    @property
    def tries(self) -> bool:
        """Whether replicas of a new revision are on trial: then nobody writes, and it is no rest."""
        return any(TRIES in told for name in self.bodies for _, _, told in self.conditions_of(name).values())

    def edit(self, name: str, **fields: Any) -> None:  # noqa: ANN401 - any field
        """The user applies other fields of the spec."""
        body = self.bodies[name]
        body["spec"] = {**body["spec"], **fields}
        body["metadata"]["generation"] += 1

    def replace_status(self, name: str, status: Json | None = None) -> None:
        """Somebody writes another status, or none."""
        self.parts.pop(name, None)
        self.bodies[name]["status"] = copy.deepcopy(status or {})

    def held(self) -> Counter[str]:
        """GPUs by node of all pods that are bound and have not ended."""
        held: Counter[str] = Counter()
        for pod in self.cluster.pods.values():
            if bound_to(pod) and pod["status"]["phase"] in {"Pending", "Running"}:
                held[bound_to(pod)] += gpus_of(pod)
        return held

    def describe(self) -> str:
        """For whoever reads a failure."""
        pools = [(name, self.condition(name, "Placed"), self.assignments(name)) for name in self.bodies]
        return "\n".join(map(str, (*pools, *self.cluster.describe())))


def _owner(pod: PodRecord) -> str | None:
    return pod.identity.pool_uid if pod.identity is not None else pod.front_of


def _name(body: Json) -> str:
    return str(body["metadata"]["name"])


def _writes(action: Action) -> Iterator[Action]:
    """Each pod is released by a patch of its own."""
    if isinstance(action, ReleasePods):
        yield from (ReleasePods(action.namespace, (pod,)) for pod in action.pods)
    else:
        yield action


__all__ = ["GPU", "ApplyObject", "DeleteObject", "Died", "Operation", "pool_body"]
