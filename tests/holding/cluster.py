"""A simulated cluster: a scheduler that binds what fits, kubelets, garbage collection, and everything that may happen.

The scheduler never promises a GPU twice, whoever asks; pods of others are there before ours are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.converge.world import World, pinned_node
from weft.domain import labels
from weft.domain.action import Action, DeletePod, ReleasePods
from weft.observe.objects.records import read_node

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord, ObjectRecord, PodRecord

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
CLIQUE = "nvidia.com/gpu.clique"
ENDED = {"Succeeded", "Failed"}
QUARANTINE_SECONDS = 40.0  # from a node's being gone until garbage collection deletes its pods


def node_body(name: str, product: str, gpus: int, clique: str = "") -> Json:
    """A Node as the API server gives it."""
    tags = {"nvidia.com/gpu.product": product, "kubernetes.io/hostname": name} | ({CLIQUE: clique} if clique else {})
    devices = {GPU: str(gpus), "cpu": "192", "memory": "2Ti"}
    status = {"capacity": dict(devices), "allocatable": dict(devices), "conditions": [_condition("Ready", "True")]}
    return {"metadata": {"name": name, "uid": f"uid-{name}", "labels": tags}, "spec": {}, "status": status}


def boards(count: int) -> list[Json]:
    """H200 nodes of eight GPUs."""
    return [node_body(f"b-{index}", "NVIDIA-H200", 8) for index in range(count)]


def rack(clique: str, trays: int) -> list[Json]:
    """Trays of four GB200 in one clique."""
    return [node_body(f"{clique}-t{index}", "NVIDIA-GB200", 4, clique) for index in range(trays)]


@dataclass
class Cluster:
    """Nodes and pods as JSON. Times are epoch seconds. `revision` rises with every change that nobody of ours made."""

    nodes: dict[str, Json]
    now: float = 1_000_000.0
    revision: int = 0
    wedged: set[str] = field(default_factory=set)  # nodes whose kubelet ends no pod
    away: dict[str, Json] = field(default_factory=dict)  # nodes that are gone
    collected_at: dict[str, float] = field(default_factory=dict)  # when their pods go; those with a machine answer
    deaf: bool = False  # whether the scheduler does nothing
    refusing: set[str] = field(default_factory=set)  # nodes to which it binds nothing, for reasons of its own
    _world: World = field(default_factory=World)

    @property
    def pods(self) -> dict[str, Json]:
        return self._world.pods

    # what the operator reads and writes

    def node_records(self) -> tuple[NodeRecord, ...]:
        return tuple(read_node(body) for body in self.nodes.values())

    def pod_records(self) -> tuple[PodRecord, ...]:
        return self._world.pod_records()

    def objects_of(self, namespace: str) -> tuple[ObjectRecord, ...]:
        return tuple(each for each in self._world.object_records() if each.namespace == namespace)

    def object(self, kind: str, name: str) -> Json:
        """As the API server keeps it; to be written to."""
        return self._world.objects[kind, name]

    def add_object(self, body: Json) -> None:
        """Somebody makes it."""
        self._world.objects[body["kind"], body["metadata"]["name"]] = body

    def forget_object(self, kind: str, name: str) -> None:
        """Somebody deletes it."""
        self._world.forget(kind, name)
        self.revision += 1

    def carry_out(self, action: Action) -> None:
        """What the API server does with a write."""
        before = set(self.pods)
        self._world.carry_out(action)
        for name in set(self.pods) - before:
            self.pods[name]["metadata"]["creationTimestamp"] = stamp(self.now)
        if isinstance(action, ReleasePods):
            for name, uid in action.pods:
                if name in self.pods and self.pods[name]["metadata"]["uid"] == uid:
                    entry = {"manager": labels.CONVERGE_MANAGER, "operation": "Update", "time": stamp(self.now)}
                    self.pods[name]["metadata"]["managedFields"] = [entry]
        if isinstance(action, DeletePod) and "deletionTimestamp" in self.pods[action.name]["metadata"]:
            self.pods[action.name]["metadata"]["deletionTimestamp"] = stamp(self.now + (action.grace_seconds or 0))

    # what the control plane and the kubelets do

    def step(self) -> None:
        """Everybody once."""
        self.collect()
        self.schedule()
        self.run()

    def collect(self) -> None:
        """Pods that are being deleted end, as do those of nodes that have been gone for long enough."""
        for name, pod in list(self.pods.items()):
            node = bound_to(pod)
            gone = node in self.away and self.now >= self.collected_at[node]
            if gone or ("deletionTimestamp" in pod["metadata"] and self._ends_there(node)):
                del self.pods[name]
                self.revision += 1

    def _ends_there(self, node: str) -> bool:
        return node == "" or (self.is_ready(node) and node not in self.wedged)

    def schedule(self) -> None:
        """Bind released pods where they fit, in order of name."""
        for _, pod in sorted(self.pods.items()) if not self.deaf else ():
            free_to_go = not pod["spec"].get("schedulingGates") and not bound_to(pod)
            if free_to_go and "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] == "Pending":
                node = pinned_node(pod)
                if node not in self.refusing and self.takes(node, gpus_of(pod)):
                    self._bind(pod, node)

    def run(self) -> None:
        """Engines of bound pods become ready."""
        for pod in self.pods.values():
            bound = bound_to(pod) and self.is_ready(bound_to(pod)) and "deletionTimestamp" not in pod["metadata"]
            if bound and pod["status"]["phase"] == "Pending":
                pod["status"] = {**pod["status"], "phase": "Running"}
                pod["status"]["conditions"] = [*pod["status"]["conditions"], _condition("Ready", "True")]
                self.revision += 1

    def _bind(self, pod: Json, node: str) -> None:
        pod["spec"]["nodeName"] = node
        scheduled = {**_condition("PodScheduled", "True"), "lastTransitionTime": stamp(self.now)}
        pod["status"] = {"phase": "Pending", "conditions": [scheduled]}
        self.revision += 1

    def takes(self, node: str, gpus: int) -> bool:
        """Whether the scheduler would bind a pod there that tolerates nothing."""
        body = self.nodes.get(node)
        if body is None or not self.is_ready(node) or body["spec"].get("unschedulable") or body["spec"].get("taints"):
            return False
        held = sum(gpus_of(pod) for pod in self.pods.values() if bound_to(pod) == node and _holds(pod))
        return held + gpus <= int(body["status"]["allocatable"][GPU])

    def is_ready(self, node: str) -> bool:
        body = self.nodes.get(node)
        return body is not None and body["status"]["conditions"][0]["status"] == "True"

    def serves(self, pod: Json) -> bool:
        return self.answers(pod) and self.is_ready(bound_to(pod))

    def runs_on(self, node: str) -> bool:
        """Whether a node is gone whose pods nobody collects yet."""
        return node in self.away and self.now < self.collected_at[node]

    def answers(self, pod: Json) -> bool:
        """Whether its engine does, also on a machine that runs on though its Node is gone."""
        ready = any((c["type"], c["status"]) == ("Ready", "True") for c in pod["status"].get("conditions", ()))
        is_there = self.is_ready(bound_to(pod)) or self.runs_on(bound_to(pod))
        return ready and "deletionTimestamp" not in pod["metadata"] and is_there

    # what happens

    def occupy(self, node: str, gpus: int, name: str = "") -> bool:
        """Somebody else's pod, if it fits; says whether it did."""
        name = name or f"job-{node}"
        if name in self.pods or not self.takes(node, gpus):
            return False
        limits = {"limits": {GPU: str(gpus)}}
        self.pods[name] = {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}-{self.revision}", "labels": {}},
            "spec": {"nodeName": node, "containers": [{"name": "job", "resources": limits}]},
            "status": {"phase": "Running", "conditions": [_condition("Ready", "True")]},
        }
        self.revision += 1
        return True

    def vacate(self, name: str) -> None:
        """Somebody's pod is gone; a name that nobody has is nobody's."""
        self.pods.pop(name, None)
        self.revision += 1

    def delete(self, name: str) -> None:
        """`kubectl delete pod`: what is bound to no node is gone at once."""
        pod = self.pods[name]
        if bound_to(pod):
            pod["metadata"]["deletionTimestamp"] = stamp(self.now)
        else:
            del self.pods[name]
        self.revision += 1

    def crash(self, name: str) -> None:
        """The engine ends with an error."""
        ended = {"name": "engine", "state": {"terminated": {"reason": "Error", "exitCode": 1, "message": "no"}}}
        self.pods[name]["status"] = {"phase": "Failed", "conditions": [], "containerStatuses": [ended]}
        self.revision += 1

    def stumble(self, name: str, *, ready: bool = False) -> None:
        """The engine of a running pod does not answer its probe, or answers again."""
        status, told = self.pods[name]["status"], ("Ready", "ContainersReady")
        others = [each for each in status["conditions"] if each["type"] not in told]
        now = [{**_condition(kind, str(ready)), "lastTransitionTime": stamp(self.now)} for kind in told]
        began = {"running": {"startedAt": self.pods[name]["metadata"]["creationTimestamp"]}}
        self.pods[name]["status"] = {**status, "conditions": [*others, *now], "containerStatuses": [{"state": began}]}
        self.revision += 1

    def silence(self, node: str, *, ready: bool = False) -> None:
        """Kubernetes calls a node not ready, or ready again."""
        self.nodes[node]["status"]["conditions"] = [_condition("Ready", "True" if ready else "Unknown")]
        self.revision += 1

    def cordon(self, node: str, *, on: bool = True) -> None:
        self.nodes[node]["spec"]["unschedulable"] = on
        self.revision += 1

    def taint(self, node: str, *keys: str) -> None:
        """Exactly these taints that keep pods off, dated as the API server does."""
        body = self.nodes[node]
        body["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"} for key in keys]
        entry = {"manager": "somebody", "time": stamp(self.now), "fieldsV1": {"f:spec": {"f:taints": {}}}}
        body["metadata"]["managedFields"] = [entry]
        self.revision += 1

    def lose(self, node: str, gpus: int) -> None:
        """So many GPUs of a node fall off; 0 brings all back."""
        status = self.nodes[node]["status"]
        status["allocatable"][GPU] = str(int(status["capacity"][GPU]) - gpus)
        self.revision += 1

    def label(self, node: str, key: str, value: str) -> None:
        self.nodes[node]["metadata"]["labels"][key] = value
        self.revision += 1

    def remove(self, node: str, *, runs_on: bool = False) -> None:
        """The Node object is deleted, and its machine is gone or not.

        Garbage collection takes its pods: where engines answer, not before anybody noticed.
        """
        self.away[node] = self.nodes.pop(node)
        self.collected_at[node] = self.now + (QUARANTINE_SECONDS if runs_on else 0.0)
        self.revision += 1

    def bring_back(self, node: str) -> None:
        """A machine of that name joins again, as a new Node without a fault: the same one with the pods that it has."""
        self.collect()
        old, _ = self.away.pop(node), self.collected_at.pop(node)
        tags = old["metadata"]["labels"]
        gpus = int(old["status"]["capacity"][GPU])
        self.nodes[node] = node_body(node, tags["nvidia.com/gpu.product"], gpus, tags.get(CLIQUE, ""))
        self.nodes[node]["metadata"]["uid"] = f"uid-{node}-{self.revision}"
        self.revision += 1

    def describe(self) -> list[str]:
        """For whoever reads a failure."""
        nodes = [
            f"{name} ready={self.is_ready(name)} {body['spec']} {body['metadata']['labels'].get(CLIQUE, '')} "
            f"{body['status']['allocatable'][GPU]}"
            for name, body in self.nodes.items()
        ]
        pods = [
            f"{name} {bound_to(pod) or '-'} {pod['status']['phase']} {gpus_of(pod)} "
            f"gates={pod['spec'].get('schedulingGates')} leaves={'deletionTimestamp' in pod['metadata']}"
            for name, pod in self.pods.items()
        ]
        return [f"now {self.now}, wedged {sorted(self.wedged)}", *nodes, *pods]


def bound_to(pod: Json) -> str:
    """The node of a pod; empty while it has none."""
    return str(pod["spec"].get("nodeName") or "")


def gpus_of(pod: Json) -> int:
    amounts = (each.get("resources", {}).get("limits", {}) for each in pod["spec"]["containers"])
    return sum(int(amount.get(GPU, 0)) for amount in amounts)


def stamp(seconds: float) -> str:
    """A moment as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _holds(pod: Json) -> bool:
    return pod["status"]["phase"] not in ENDED


def _condition(kind: str, status: str) -> Json:
    return {"type": kind, "status": status}
