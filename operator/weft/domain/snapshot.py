"""One frozen snapshot of the cluster. `decide` and `converge` see nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.domain.reports import Reports
from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.domain.forecast import Past
    from weft.domain.moves import MoveBudget
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.queueing import Queueing
    from weft.domain.quotas import QuotaRecord
    from weft.domain.reasons import Explanation
    from weft.domain.spec import PoolSpec, RouterKind, SplitSpec
    from weft.domain.start_up import MeasuredStart
    from weft.domain.status import Condition, PoolStatus, SplitStatus
    from weft.domain.workload import Role


STALE_SECONDS = 45.0  # three usual scrape intervals: what an engine told before says nothing of now


@dataclass(frozen=True, slots=True)
class ResourceKey:
    """Identity of one of our resources. `uid` distinguishes a re-created one from its predecessor."""

    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """`InferencePool/chat`, as `weft explain` takes it."""
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """One InferencePool as read. `spec` is None if it cannot be parsed, and `problem` then says why.

    `deleting` says that it or its namespace is being deleted; nothing is decided or done for it any more.
    `split_uid` is the owning PDSplit's UID for a child pool. `priority` is the value of its PriorityClass, or 0,
    and `preempts` whether its `preemptionPolicy` lets it preempt lower pools.
    `lacks` is what its front needs and the cluster does not have; `shown` is, for a half of a split that has or had a
    Gateway, the pair that the endpoint picker chooses from, and `route_taken` whether
    a Gateway leads to that.
    `decided` is the generation that decide last handled, as noted in status; 0 before any.
    """

    key: ResourceKey
    generation: int
    spec: PoolSpec | None
    status: PoolStatus
    problem: Explanation | None = None
    deleting: bool = False
    split_uid: str | None = None
    priority: int = 0
    created: float = 0.0
    conditions: tuple[Condition, ...] = ()  # of both writers, as last written
    preempts: bool = True
    lacks: Explanation | None = None
    shown: str = ""
    route_taken: bool = False
    decided: int = 0

    @property
    def router_kind(self) -> RouterKind | None:
        """What stands in front of its replicas; None while its spec cannot be understood."""
        return self.spec.router.kind if self.spec is not None else None


@dataclass(frozen=True, slots=True)
class SplitRecord:
    """One PDSplit as read; fields as in `PoolRecord`."""

    key: ResourceKey
    generation: int
    spec: SplitSpec | None
    status: SplitStatus
    problem: Explanation | None = None
    deleting: bool = False
    priority: int = 0
    created: float = 0.0
    conditions: tuple[Condition, ...] = ()  # of both writers, as last written
    decided: int = 0
    reached: int = 0  # the generation that `Ready` was last about: the one that its halves match
    serving: int | None = None  # the generation of the pair that served then

    @property
    def router_kind(self) -> RouterKind | None:
        """What stands in front of its pairs; None while its spec cannot be understood."""
        return self.spec.router.kind if self.spec is not None else None

    def child_name(self, role: Role) -> str:
        """Name of the child pool of one role."""
        return f"{self.key.name}-{role.value.lower()}"


Buckets = tuple[tuple[float, float], ...]  # (upper bound, cumulative count), ascending, the last bound infinite


@dataclass(frozen=True, slots=True)
class Caveat:
    """A sentence about metrics that differ from what the engine's version should report, without live numbers.

    `figure` is `ttft` or `tpot` where it concerns that latency, else empty. `blurred` is the range in seconds (from,
    to) within which buckets are too coarse for percentiles; None where the caveat holds for any value.
    """

    says: str
    figure: str = ""
    blurred: tuple[float, float] | None = None

    def blurs(self, seconds: float) -> bool:
        """Whether this value lies where buckets are too coarse to compare with it."""
        return self.blurred is not None and self.blurred[0] < seconds < self.blurred[1]


@dataclass(frozen=True, slots=True)
class EngineWord:
    """Whether an engine was idle, without requests and without KV that others were to pull, so many seconds ago."""

    idle: bool
    age_seconds: float


@dataclass(frozen=True, slots=True)
class PodObservation:
    """One pod's engine metrics over the last window. None means that the series is missing, never zero.

    Rates are per second, times seconds, `kv_usage` a fraction, `age_seconds` the age of the newest sample.
    `computed_input_tokens` are the computed tokens of a prompt, the rest was cached. `waiting` is for capacity,
    `waiting_for_kv` for KV to arrive or to leave. `startup_seconds` is the time from the pod's binding until it was
    ready. `transfers_done` and `transfers_failed` count KV transfers to this engine that ended in the window, once for
    each rank that takes part. `requests_done` are requests that ended in the window, and `kv_expired` prompts whose KV
    nobody fetched from this engine in time, once for each of its ranks.
    """

    pod: str
    age_seconds: float
    requests_per_second: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    computed_input_tokens: float | None = None
    waiting: float | None = None
    running: float | None = None
    kv_usage: float | None = None
    ttft: tuple[tuple[int, float], ...] = ()
    tpot: tuple[tuple[int, float], ...] = ()
    ttft_mean: float | None = None
    tpot_mean: float | None = None
    transfer_seconds: float | None = None
    waiting_for_kv: float | None = None
    startup_seconds: float | None = None
    start: MeasuredStart | None = None
    transfers_done: float | None = None
    transfers_failed: float | None = None
    requests_done: float | None = None
    kv_expired: float | None = None


@made_often
@dataclass(frozen=True, slots=True)
class PoolObservation:
    """A pool's metrics: sums, token means, merged percentiles and histograms over the pods that answered.

    `arrivals` requests arrived during the last `arrival_seconds`, a much shorter time than the window of the rest: the
    front's count where it reports one, else what was answered plus the growth of requests inside; `arrivals_at_front`
    says which. `answered` of `expected` ready leader pods gave fresh samples; `missing` names series that the engine
    should have but lacks, and signals for which its version has no series; `complete` is False when the values may not
    be trusted for scaling down. `ttft_mean` and `tpot_mean` come from sums and counts, so that coarse buckets do not
    affect them. `transfers` are percentiles of KV transfers, where the engine has buckets for them; `starts` are those
    of the last replicas that answer, by replica id.
    `unresolved` are percentiles ((`ttft`, 95), ...) replaced by the mean, since the buckets are too coarse.
    `caveats` say all that differs from what the engine's version should report. `heard` are the engines that answered
    recently, even if their samples give no rate yet: (first pod, seconds since then).
    """

    expected: int
    answered: int
    age_seconds: float
    requests_per_second: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    prefix_hit: float | None = None
    waiting: float | None = None
    running: float | None = None
    kv_usage: float | None = None
    ttft: tuple[tuple[int, float], ...] = ()
    tpot: tuple[tuple[int, float], ...] = ()
    transfer_seconds: float | None = None
    ttft_buckets: Buckets = ()
    tpot_buckets: Buckets = ()
    arrivals: float | None = None
    arrival_seconds: float | None = None
    ttft_mean: float | None = None
    tpot_mean: float | None = None
    missing: tuple[str, ...] = ()
    pods: tuple[PodObservation, ...] = ()
    computed_input_tokens: float | None = None
    input_tokens_p95: float | None = None
    output_tokens_p95: float | None = None
    rare_prompts: tuple[float, float] | None = None  # as `Workload.rare_prompts`
    waiting_for_kv: float | None = None
    startup_seconds: float | None = None
    arrivals_at_front: bool = False
    unresolved: tuple[tuple[str, int], ...] = ()
    caveats: tuple[Caveat, ...] = ()
    transfers: tuple[tuple[int, float], ...] = ()
    starts: tuple[MeasuredStart, ...] = ()
    heard: tuple[tuple[str, float], ...] = ()

    def silent_seconds(self, pod: str) -> float:
        """Seconds since an engine, named by its first pod, last answered a scrape; infinite if it never did.

        All ages have grown by the same time since the metrics were read.
        """
        since_read = self.age_seconds - max((each.age_seconds for each in self.pods), default=0.0)
        return dict(self.heard).get(pod, math.inf) + since_read

    @property
    def complete(self) -> bool:
        """Whether every expected pod answered with everything that scaling needs."""
        return self.expected > 0 and self.answered == self.expected and self.requests_per_second is not None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a decision may look at. `now` is epoch seconds; maps are keyed by resource UID.

    `queueing` is what is known of Kueue, None if it was not read; `budget` limits moves, where it is known. `quotas`
    are the ResourceQuotas of the served namespaces, as far as Weft may read them. `pasts` are for pools whose forecast
    has no daily pattern yet, where their earlier traffic was recorded. `nodes` and `pods` are known to have been true
    `blind_seconds` ago, and may have changed since then.
    """

    now: float
    pools: tuple[PoolRecord, ...]
    splits: tuple[SplitRecord, ...]
    nodes: tuple[NodeRecord, ...]
    pods: tuple[PodRecord, ...]
    observations: dict[str, PoolObservation] = field(default_factory=dict)
    memory: dict[str, ScaleMemory] = field(default_factory=dict)
    reports: Reports = field(default_factory=Reports)
    queueing: Queueing | None = None
    budget: MoveBudget | None = None
    quotas: tuple[QuotaRecord, ...] = ()
    pasts: dict[str, Past] = field(default_factory=dict)
    blind_seconds: float = 0.0

    @property
    def heard(self) -> float:
        """Until when nodes and pods are known (epoch seconds): waits that take something away are counted up to it."""
        return self.now - max(0.0, self.blind_seconds)
