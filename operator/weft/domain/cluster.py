"""What was observed of the cluster: nodes and pods as slim frozen records (never typed client models)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.domain.spec import Pairs
    from weft.domain.start_up import MeasuredStart


@dataclass(frozen=True, slots=True)
class Taint:
    """A node taint."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One Node. `capacity` and `allocatable` hold only accelerator-like extended resources, as whole devices.

    `offers` is everything allocatable, as plain numbers; None where unknown (a hypothetical node). `faults` are the
    types of its conditions that report a broken GPU; other conditions are not kept. `deleting` says that the Node
    object is being deleted. `tainted` is when its taints were last written, in epoch seconds of the API server's clock;
    None where unknown.
    """

    name: str
    uid: str
    labels: Pairs
    capacity: tuple[tuple[str, int], ...]
    allocatable: tuple[tuple[str, int], ...]
    taints: tuple[Taint, ...] = ()
    cordoned: bool = False
    ready: bool = True
    offers: tuple[tuple[str, float], ...] | None = None
    faults: tuple[str, ...] = ()
    deleting: bool = False
    tainted: float | None = None

    def label(self, key: str) -> str | None:
        """The value of one label, or None."""
        return dict(self.labels).get(key)


class PodPhase(StrEnum):
    """Kubernetes pod phases."""

    Pending = "Pending"
    Running = "Running"
    Succeeded = "Succeeded"
    Failed = "Failed"
    Unknown = "Unknown"


@dataclass(frozen=True, slots=True)
class ContainerFailure:
    """How a container of a pod ended or cannot start. `message` is its termination or waiting message, maybe empty.

    `log_tail` holds the last lines of its log where they were needed and readable; `log_forbidden` says that RBAC
    denied access to them. `unanswered_seconds` is for how long it ran without an answer to its startup probe, where
    that is why the kubelet ended it. `memory_limit` is what it was allowed, as written in the pod; empty without limit.
    `beside` is the name of a sidecar, which the kubelet starts again; no container of the pod itself has failed then.
    `of_node` says that the kubelet ended or refused the whole pod, and not for what that used beyond its own limits.
    """

    reason: str
    message: str
    exit_code: int | None = None
    log_tail: str | None = None
    log_forbidden: bool = False
    unanswered_seconds: float | None = None
    memory_limit: str = ""
    beside: str = ""
    of_node: bool = False


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """Which replica a pod of ours belongs to, from its labels and owner reference."""

    pool_uid: str
    replica: int
    rank: int
    revision: str


@dataclass(frozen=True, slots=True)
class Download:
    """Weights that an init container fetches, or has fetched, since `begun` (epoch seconds).

    `here` are the bytes reported last, of `total`; both are 0 before the first report.
    """

    begun: float
    done: bool = False
    here: float = 0.0
    total: float = 0.0


@dataclass(frozen=True, slots=True)
class PodRecord:
    """One pod that asks for accelerators (anyone's) or is ours. Times are epoch seconds, of the API server's clock.

    `node` is the node it is bound to or nominated for; `requests` holds accelerator-like resources as whole devices.
    `routed` says whether it still has the label that fronts and Services select on. `gated` is about our own scheduling
    gate, `queued` about those of others; `stopped` is (reason, message) of a scheduler that removes it. `loading` is
    when its engine began to run, until it first answers; `download` is the phase before. `unready` is when containers
    that run, and had all been ready, ceased to be.
    """

    namespace: str
    name: str
    uid: str
    phase: PodPhase
    node: str | None
    requests: tuple[tuple[str, int], ...]
    identity: PodIdentity | None = None
    gated: bool = False
    queued: bool = False
    ready: bool = False
    routed: bool = False
    terminating: bool = False
    created: float = 0.0
    released: float | None = None  # when its last scheduling gate was removed, as far as conditions tell
    ip: str | None = None
    message: str = ""  # the scheduler's message on a pending pod that it may bind
    failure: ContainerFailure | None = None
    priority: int = 0
    stopped: tuple[str, str] | None = None
    startup_seconds: float | None = None  # from its binding until it was ready
    front_of: str | None = None  # UID of the pool or split that it is a router of
    pair: str = ""  # of halves of a split and their front: only equal ones work together
    image: str = ""  # of the engine itself, in a pod of a replica
    engine: str = ""  # that it runs or, of a front, serves alone; lower case
    unrouted: float | None = None  # when we removed the routing label
    mislabelled: tuple[tuple[str, str], ...] = ()  # identity labels that somebody edited, with their correct values
    relabelled: float | None = None  # when we last restored labels
    gone_by: float | None = None  # of our terminating pods: when the grace period ends
    loading: float | None = None
    download: Download | None = None
    servers: int | None = None  # number of API servers, on consecutive ports, if it is labelled
    start: MeasuredStart | None = None  # the phases of `startup_seconds`, where containers report them
    foreign_gate: str = ""  # a scheduling gate of somebody else that it has
    split_uid: str = ""  # as labelled: by it an endpoint picker finds halves of a split
    unprepared: bool = False  # its node lacks its volumes, devices or network, so that no container can start
    unready: float | None = None

    @property
    def rank(self) -> int:
        """Its rank among the pods of a replica; 0 if it belongs to none."""
        return self.identity.rank if self.identity is not None else 0

    @property
    def api_servers(self) -> int:
        """The number of ports that serve requests: by default one in a replica's first pod and none in the others."""
        if self.identity is None:
            return 0
        return int(self.identity.rank == 0) if self.servers is None else self.servers

    @property
    def ended(self) -> bool:
        """Whether its containers have ended, failed or not: it holds nothing, and no quota counts it."""
        return self.phase is PodPhase.Succeeded or self.phase is PodPhase.Failed

    @property
    def serves(self) -> bool:
        """Whether it does its part of serving: ready, and neither ended, failed nor terminating."""
        return self.ready and not self.terminating and self.failure is None and not self.ended

    @property
    def unscheduled(self) -> bool:
        """Whether we released it, but it is not bound to a node yet; it may be nominated for one."""
        return self.phase is PodPhase.Pending and not self.gated and (self.node is None or self.message != "")

    @property
    def bound(self) -> bool:
        """Whether it is bound to its node, and not only nominated for it."""
        return self.node is not None and not (self.gated or self.queued or self.message)

    @property
    def finishing(self) -> bool:
        """Whether its routing label was removed while it still serves, and nobody has deleted it yet."""
        return self.unrouted is not None and self.serves

    @property
    def waiting(self) -> str | None:
        """What it waits for, in the scheduler's words; None where there are none."""
        return f"pod {self.name} waits for the scheduler: {self.message}" if self.unscheduled and self.message else None

    @property
    def held(self) -> str | None:
        """Which gate keeps it from the scheduler, though it was released; None where none does."""
        if self.gated or self.terminating or not self.foreign_gate:
            return None
        return f"pod {self.name} has the scheduling gate {self.foreign_gate}, which whoever sets it has to remove"

    def asks_for(self, resource: str) -> int:
        """Devices of one resource that it requests: accelerators or network devices."""
        return dict(self.requests).get(resource, 0)

    @property
    def holds_devices(self) -> bool:
        """Whether it occupies the devices that it requests: bound and not ended. Routers request none.

        Terminating pods occupy theirs until they are gone.
        """
        return self.node is not None and not self.ended and self.front_of is None


@dataclass(frozen=True, slots=True)
class ObjectRecord:
    """One Service, Deployment, PodDisruptionBudget, ComputeDomain or child pool of ours; `body` is plain JSON.

    The body of a ComputeDomain is not kept.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    owner_uid: str | None
    terminating: bool = False
    body: dict[str, Any] = field(default_factory=dict, hash=False)
