"""One simulated pod: what the API server shows of it, and what only its scheduler and its kubelet know."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from weft.catalog import load
from weft.domain.values.changed import changed
from weft.observe.objects.records import read_pod

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord, PodRecord, Taint

Json = dict[str, Any]

EPOCH = 1_800_000_000.0  # second 0 of a trace, as the cluster's clock shows it
# Prefix of Kubernetes' own taints, such as that of a node that does not answer, which pass by themselves.
_PASSING = "node.kubernetes.io/"
_SIZES = frozenset({"cpu", "memory"})


@dataclass(slots=True)
class SimulatedPod:
    """A pod with the node that it is pinned to; times are seconds of the trace.

    It ends at most `grace_seconds` after its deletion, of which `stopping_seconds` (the preStop hook) pass in any case.
    It holds its GPUs from `bound` until `freed`. `serves`: it has an engine that answers; `dead`: nothing in it runs
    any more, whatever the API server shows; `sized`: it asks for CPU or memory.
    """

    record: PodRecord
    pinned: str | None = None
    image: str = ""
    grace_seconds: float = 30.0
    stopping_seconds: float = 0.0
    tolerations: tuple[Json, ...] = field(default=(), repr=False)
    priority_class: str | None = None
    sized: bool = False
    bound: float | None = None
    deleted: float | None = None
    freed: float | None = None
    serves: bool = False
    dead: bool = False

    @classmethod
    def of(cls, body: Json, uid: str, now: float) -> SimulatedPod | None:
        """Read a created pod with the operator's own reader; None for a pod that is not an engine's."""
        record = read_pod({**body, "metadata": {**body["metadata"], "uid": uid}, "status": {"phase": "Pending"}})
        if record is None:
            return None
        spec = body["spec"]
        (container,) = spec["containers"]
        asked = container.get("resources") or {}
        return cls(
            changed(record, created=EPOCH + now, released=None),
            _pinned(spec),
            container["image"],
            float(spec["terminationGracePeriodSeconds"]),
            float(container["lifecycle"]["preStop"]["sleep"]["seconds"]),
            tuple(spec.get("tolerations") or ()),
            spec.get("priorityClassName"),
            not _SIZES.isdisjoint({**asked.get("requests", {}), **asked.get("limits", {})}),
        )

    @property
    def uid(self) -> str:
        """UID of the pod."""
        return self.record.uid

    @property
    def pool(self) -> str:
        """UID of the pod's pool; empty for a pod of others."""
        return self.record.identity.pool_uid if self.record.identity is not None else ""

    @property
    def replica(self) -> tuple[str, int]:
        """The pool's UID and the number of the replica that the pod is part of; -1 for a pod of others."""
        return self.pool, self.record.identity.replica if self.record.identity is not None else -1

    @property
    def leads(self) -> bool:
        """Whether it is the leader, which answers its replica's requests."""
        return self.record.identity is not None and self.record.identity.rank == 0

    @property
    def gpus(self) -> int:
        """Number of GPUs that it requests; network devices do not count."""
        return sum(count for name, count in self.record.requests if name in _accelerators())

    @property
    def waits(self) -> bool:
        """Whether it waits for the scheduler to bind it."""
        return self.record.unscheduled and not self.record.queued

    @property
    def runs(self) -> bool:
        """Whether it is bound to its devices and something in it runs or starts."""
        return self.bound is not None and not self.dead and self.record.holds_devices

    def gpu_seconds(self, begin: float, end: float) -> float:
        """Return the GPU-seconds for which it held GPUs between two times."""
        if self.bound is None:
            return 0.0
        until = end if self.freed is None else min(end, self.freed)
        return self.gpus * max(0.0, until - max(begin, self.bound))

    def change(self, **members: Any) -> None:  # noqa: ANN401 - as `dataclasses.replace`
        """Change members of the record that the API server shows."""
        self.record = changed(self.record, **members)


@functools.cache
def _accelerators() -> frozenset[str]:
    """Return the extended resources of all accelerators in the catalog."""
    return frozenset(accelerator.resource for accelerator in load().accelerators)


def what_keeps_off(pod: SimulatedPod, node: NodeRecord | None, held: dict[str, int]) -> str:
    """Return why the scheduler cannot bind a pod, in its words, or nothing; `held`: devices others hold there."""
    if node is None:
        return "node(s) didn't match Pod's node affinity/selector"
    if not node.ready:
        return "node(s) had untolerated taint {node.kubernetes.io/unreachable: }"
    if node.cordoned:
        return "node(s) were unschedulable"
    for taint in node.taints:
        if taint.effect in {"NoSchedule", "NoExecute"} and not _tolerated(taint, pod.tolerations):
            return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
    offered = dict(node.allocatable)
    for name, count in pod.record.requests:
        if held.get(name, 0) + count > offered.get(name, 0):
            return f"Insufficient {name}"
    return ""


def _tolerated(taint: Taint, tolerations: tuple[Json, ...]) -> bool:
    return taint.key.startswith(_PASSING) or any(_tolerates(each, taint) for each in tolerations)


def _tolerates(toleration: Json, taint: Taint) -> bool:
    if toleration.get("effect", "") not in {"", taint.effect}:
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key", "") in {"", taint.key}
    return toleration.get("key") == taint.key and toleration.get("value", "") == taint.value


def _pinned(spec: Json) -> str | None:
    """Return the node that the pod's affinity names; None where another scheduler picks."""
    affinity = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = affinity["nodeSelectorTerms"] if affinity else ()
    found = [name for term in terms for each in term.get("matchFields", ()) for name in each["values"]]
    return found[0] if found else None
