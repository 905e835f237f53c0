"""What `converge` wants done, in order. `apply` carries each out; every one is safe to repeat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create one gated pod; already existing is success."""

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
    """Take the routing label off a pod, so that fronts and Services stop choosing it; tests its UID.

    `at` is noted on the pod: epoch seconds.
    """

    namespace: str
    name: str
    uid: str
    at: float


@dataclass(frozen=True, slots=True)
class LabelPod:
    """Put labels back that somebody edited or took off a pod of ours; tests its UID.

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
    """Server-side apply of a Service, Deployment, PodDisruptionBudget, ComputeDomain or child pool, of the resource.

    Our own manager takes every field it names; a seed yields to a field's owner. `first` is a JSON patch for an object
    that is there already, sent before: it takes away what others added, which an apply cannot do.
    """

    body: dict[str, Any] = field(hash=False)
    manager: str = "weft-converge"
    first: tuple[dict[str, Any], ...] = field(default=(), hash=False)


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete an object of ours that is no longer wanted, with a UID precondition."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


Action = CreatePod | ReleasePods | UnroutePod | LabelPod | DeletePod | ApplyObject | DeleteObject
