"""Status written by Weft itself: the persisted part that decide and converge read back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.domain.calibration import Calibrated, ProvenLoad
    from weft.domain.cluster import PodRecord
    from weft.domain.forecast import KeptForecast
    from weft.domain.moves import Relocation
    from weft.domain.reasons import Explanation, Reason
    from weft.domain.shape import EngineRelease, Plan
    from weft.domain.spec import SchedulerName
    from weft.domain.start_up import StartUp

MOST_AVOIDED = 64  # nodes of one pool


@dataclass(frozen=True, slots=True)
class Handover:
    """What a replica of `pods` pods requires of an external scheduler; decided once, as its pods never change.

    `level` is the node label of the topology level that each `group` of its pods must share, empty if there is none;
    `product` is a node label and its values that identify nodes with the accelerator.
    """

    scheduler: SchedulerName
    queue: str
    pods: int
    level: str = ""
    group: int = 0
    product: tuple[str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class ComputeDomain:
    """The ComputeDomain of a replica, through which its pods share memory over NVLink across nodes.

    `cliques[rank]` is the NVLink clique of the node of pod `rank` at the time of the decision, empty without such a
    label. `name` is that of one shared by all replicas of a generation of a split; empty: it is the replica's own.
    """

    cliques: tuple[str, ...]
    name: str = ""


@made_often
@dataclass(frozen=True, slots=True)
class Assignment:
    """Replica -> nodes, persisted before any pod exists. `nodes[rank]` is the node of pod `rank`.

    With a `handover` there are no nodes: another scheduler picks them, and only bound pods tell which.

    `revision` is the hash of everything that the replica's pods are rendered from; a replica whose revision differs
    from the pool's is outdated. `since` is epoch seconds.

    `complete` says that all its pods were seen at once, and its ComputeDomain where it has one. Pods are released only
    afterwards, so a pod missing after that may have run and was deleted; one missing before was never created.
    """

    replica: int
    revision: str
    nodes: tuple[str, ...]
    gpus_per_pod: int
    since: float
    complete: bool = False
    handover: Handover | None = None
    compute_domain: ComputeDomain | None = None

    @property
    def pods(self) -> int:
        """The number of pods of the replica."""
        return len(self.nodes) if self.handover is None else self.handover.pods

    @property
    def shared_domain(self) -> str:
        """The ComputeDomain that it shares with its generation of a split; empty where it has its own, or none."""
        return self.compute_domain.name if self.compute_domain is not None else ""

    def bound(self, pods: Iterable[PodRecord]) -> frozenset[int]:
        """Ranks whose pod is bound to its node, so that the fabric counts its devices as used.

        Matched by node, each of which has at most one, as anybody may edit a rank label. Empty with a `handover`.
        """
        taken = {pod.node for pod in pods}
        return frozenset([rank for rank, node in enumerate(self.nodes) if node in taken])

    def is_served_by(self, pods: Sequence[PodRecord]) -> bool:
        """Whether the replica answers requests, given its existing pods: all are there, and each serves."""
        return len(pods) == self.pods and all(pod.serves for pod in pods)


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failure of a replica of this revision, for back-off and for the reader; `count` is in a row."""

    revision: str
    count: int
    last: float
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class Avoided:
    """A node to use last for new replicas of a pool: at `since` it failed to accept or start one."""

    node: str
    since: float
    reason: Reason


@dataclass(frozen=True, slots=True)
class LeftShape:
    """The last shape, as text, that a pool changed from, when (epoch seconds), and what its spec asked for by then.

    `wish` is a hash of all parts of the spec that a shape depends on. `outgrown` says that it was too small for the
    traffic. `revision` is that of its replicas, and `capacity` what one of them is expected to serve in requests per
    second; empty and 0 where that is not known.
    """

    shape: str
    at: float
    wish: str
    outgrown: bool = False
    revision: str = ""
    capacity: float = 0.0


TRUE, FALSE, UNKNOWN = "True", "False", "Unknown"  # what `Condition.status` may be


@made_often
@dataclass(frozen=True, slots=True)
class Condition:
    """One of our Kubernetes conditions; `status` is True, False or Unknown as text; its time is kept by the writer."""

    kind: str
    status: str
    explanation: Explanation


@made_often
@dataclass(frozen=True, slots=True)
class Observed:
    """Live figures of a pool for people; the writer rounds them, the exact ones are on `/metrics`.

    `ttft` and `tpot` are (percentile, seconds); `attainment` is the fraction of requests within the SLO (of a
    split, in the half that does worse); `live` names
    the workload values that metrics replace at present (`requestsPerSecond`, `inputTokens`, ...). `caveats` are
    sentences to know before the figures are believed; a split has none of its own. `transfer` is the mean time of a KV
    transfer in seconds, and `transfer_expected` what it should be for such prompts; of a split alone.
    """

    requests_per_second: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    prefix_hit: float | None = None
    ttft: tuple[tuple[int, float], ...] = ()
    tpot: tuple[tuple[int, float], ...] = ()
    attainment: float | None = None
    live: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    transfer: float | None = None
    transfer_expected: float | None = None


@made_often
@dataclass(frozen=True, slots=True)
class PoolStatus:
    """The persisted state of a pool. `next_replica` is the next unused replica id: ids are never reused.

    `calibration` are the factors in use, the latest first: of the running shape, and of earlier ones.
    `proven` is the load at which its replicas were last seen to meet their targets.
    `moves` are replicas that make room for other pools, and those that did so in the last hour; `opening` are the nodes
    that others are vacating for this pool's next replica, and `avoided` those to use last for it, the latest first.
    `forecast` is what a new process resumes from, and `start_up` the duration of a start of the planned shape.
    `placed_replicas` is the most replicas placed at once within the last hour; None where that equals the desired
    count. `left_shape` is the shape before the planned one, None if there was none.
    """

    desired_replicas: int = 0
    next_replica: int = 0
    revision: str = ""
    engine: EngineRelease | None = None
    plan: Plan | None = None
    assignments: tuple[Assignment, ...] = ()
    failure: Failure | None = None
    scale: Explanation | None = None
    observed: Observed | None = None
    calibration: tuple[Calibrated, ...] = ()
    proven: ProvenLoad | None = None
    moves: tuple[Relocation, ...] = ()
    opening: tuple[str, ...] = ()
    avoided: tuple[Avoided, ...] = ()
    forecast: KeptForecast | None = None
    start_up: StartUp | None = None
    placed_replicas: int | None = None
    left_shape: LeftShape | None = None


@dataclass(frozen=True, slots=True)
class PoolProgress:
    """What converge observed of one pool, for its part of the status. `url` is None while nothing is served.

    `generation` is the last one decided on, which all of this is about, whatever the spec is by now.
    `selector` finds the first pod of each replica; `conditions` are Ready, Reconciling and Stalled, absent ones left
    out.
    """

    generation: int
    replicas: int
    ready_replicas: int
    selector: str
    url: str | None = None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class SplitProgress:
    """What converge observed of one split, for the last generation that was decided on and that its halves follow.

    `serving_generation` says which pair serves; None while none does. `decided` is the last generation that was decided
    on, which a stall is about, as the halves may never follow it then.
    """

    generation: int
    prefill_replicas: int = 0
    prefill_ready: int = 0
    decode_replicas: int = 0
    decode_ready: int = 0
    serving_generation: int | None = None
    url: str | None = None
    conditions: tuple[Condition, ...] = ()
    decided: int = 0


@dataclass(frozen=True, slots=True)
class SplitStatus:
    """The persisted state of a split: which engine release both sides run.

    `kv_layouts` is how often plans changed so that engines of the next ones exchange no KV with those before.
    """

    engine: EngineRelease | None = None
    kv_layouts: int = 0
