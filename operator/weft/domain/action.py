"""The actions that `converge` asks for, in order. `apply` carries each out; every one is safe to repeat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.domain.reasons import Explanation


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create one gated pod; that it already exists counts as success."""

    body: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class ReleasePods:
    """Remove our scheduling gate from all pods of a replica, each by a patch that names the gate and its UID.

    `pods` are (name, UID).
    """

    namespace: str
    pods: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class UnroutePod:
    """Remove the routing label from a pod, so that fronts and Services stop choosing it; with a UID precondition.

    `at` is noted on the pod: epoch seconds.
    """

    namespace: str
    name: str
    uid: str
    at: float


@dataclass(frozen=True, slots=True)
class ForgetWorker:
    """Ask routers that heed no label to stop choosing the engine in a pod.

    `worker` is its address (`host:port`), `routers` are (UID, address) of theirs. `hurries` says that its machine goes:
    the deletion of the pod waits for no router.
    """

    namespace: str
    name: str
    uid: str
    worker: str
    routers: tuple[tuple[str, str], ...]
    hurries: bool = False


@dataclass(frozen=True, slots=True)
class LabelPod:
    """Restore labels of our pods that somebody edited or removed; with a UID precondition.

    `at` is noted on the pod: epoch seconds.
    """

    namespace: str
    name: str
    uid: str
    labels: tuple[tuple[str, str], ...]
    at: float


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete one pod with a UID precondition. `grace_seconds` None keeps the pod's own grace period."""

    namespace: str
    name: str
    uid: str
    grace_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class ApplyObject:
    """Server-side apply of a Service, Deployment, PodDisruptionBudget, ComputeDomain or child pool of a resource.

    Our own manager takes over every field that it names; the seed manager yields to a field's owner. `first` is a JSON
    patch for an existing object, sent before: it removes what others added, which an apply cannot do. `told` is the
    event of the resource once this changed something.
    """

    body: dict[str, Any] = field(hash=False)
    manager: str = "weft-converge"
    first: tuple[dict[str, Any], ...] = field(default=(), hash=False)
    told: Explanation | None = None


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete an object of ours that is no longer wanted, with a UID precondition."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


Action = CreatePod | ReleasePods | UnroutePod | ForgetWorker | LabelPod | DeletePod | ApplyObject | DeleteObject
