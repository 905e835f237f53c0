"""What decide remembers of each pool between passes: values that come back with the next snapshot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.reasons import Reason
from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from weft.domain.calibration import Calibrated, CalibrationSubject, ProvenLoad
    from weft.domain.forecast import ForecastState
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Calibration
    from weft.domain.workload import Workload


@made_often
@dataclass(frozen=True, slots=True)
class LoadSample:
    """Load of a pool at one moment: requests waiting, requests inside in all, and how many pods answered.

    `at_front` are requests per second that the front counted at that time, None where it does not report.
    """

    at: float
    waiting: float
    outstanding: float
    answered: int
    at_front: float | None = None


@dataclass(frozen=True, slots=True)
class LoadEvidence:
    """How many requests were in time at one load: the `shares` within each target, over so many `requests`.

    `rate` is requests a second of each of the replicas, with so many tokens on average.
    """

    replicas: int
    rate: float
    requests: float
    shares: tuple[float, ...]
    input_tokens: float
    output_tokens: float


@made_often
@dataclass(frozen=True, slots=True)
class CalibrationMemory:
    """The state of calibration for `subject`: exact factors, of which the status has rounded ones.

    `quiet_since` is when the present unbroken quiet window began, and `pods` are those that were ready then; `last` is
    when the last measurement was taken. `prefill` and `decode` are logarithms of the factors that the latest
    measurements imply. `news` is the event of the pass that took the last one. `evidence` is collected at the present
    load, and `proven` what it has shown so far. Times are epoch seconds.
    """

    subject: CalibrationSubject
    factors: Calibration
    pods: tuple[str, ...] = ()
    quiet_since: float | None = None
    last: float | None = None
    prefill: tuple[float, ...] = ()
    decode: tuple[float, ...] = ()
    news: Explanation | None = None
    evidence: LoadEvidence | None = None
    proven: ProvenLoad | None = None


@dataclass(frozen=True, slots=True)
class Outlier:
    """A replica that underperforms, and its first pod.

    `why` is SlowerThanSiblings, CutOffFromPrefill or CutOffFromDecode, or TransfersFail where its siblings do no
    better. `since` is the first complete look of an unbroken series that found it so, None after a break; `named` is
    when that had lasted long enough, and `told` whether an event reported it. `worse` is, as last seen, its latency
    over the median of its siblings, or the share of its KV transfers that failed; `well_since` is the first look of an
    unbroken series in which hardly any failed.
    """

    replica: int
    pod: str
    since: float | None
    worse: float
    named: float | None = None
    told: bool = False
    why: Reason = Reason.SlowerThanSiblings
    well_since: float | None = None


@dataclass(frozen=True, slots=True)
class Outliers:
    """The underperforming replicas of a pool. Times are epoch seconds.

    `seen` is the last look at all of them; `replaced` is the one that leaves once its successor serves, and `begun`
    when the last replacement was decided. `mended` is when a cut-off replica was last given a successor, and `newer`
    the successor's id: replicas with that id or a higher one were started after that.
    """

    seen: float
    found: tuple[Outlier, ...] = ()
    replaced: Outlier | None = None
    begun: float | None = None
    mended: float | None = None
    newer: int = 0

    @property
    def named(self) -> tuple[Outlier, ...]:
        """Replicas that have underperformed for long enough."""
        return tuple([each for each in self.found if each.named is not None])


@made_often
@dataclass(frozen=True, slots=True)
class LengthSample:
    """Mean and 95th percentile lengths in tokens, None where unknown, of requests of about the minute before `at`."""

    at: float
    requests: float
    inputs: float | None
    outputs: float | None
    inputs_p95: float | None = None
    outputs_p95: float | None = None
    rare_prompts: tuple[float, float] | None = None


@made_often
@dataclass(frozen=True, slots=True)
class WorkUnit:
    """What the work of requests is counted in: requests of the declared lengths, of which a replica serves `declared`.

    That is requests a second under this `calibration`; `work` is that of a request of present lengths.
    """

    declared: float
    calibration: tuple[Calibrated, ...]
    work: float


@made_often
@dataclass(frozen=True, slots=True)
class Saturation:
    """What each replica did at most when all of a `subject` were saturated, which is less than was predicted.

    `work` is a second's, in the unit of the forecast; `at` is when that was last seen (epoch seconds), and `times` how
    often a pool was saturated again once that counted no more.
    """

    subject: CalibrationSubject
    at: float
    work: float
    times: int = 1


@made_often
@dataclass(frozen=True, slots=True)
class RolloutWait:
    """Since when a rollout has been blocked with nothing in progress, and whether an event reported it."""

    since: float
    told: bool = False


@made_often
@dataclass(frozen=True, slots=True)
class Places:
    """How many `replicas` of a pool are placed, as watched without a break since `since` (epoch seconds).

    `ended` are earlier, higher counts of the last hour and when each ended, the latest last: (epoch seconds, replicas).
    """

    since: float
    replicas: int
    ended: tuple[tuple[float, int], ...] = ()


@made_often
@dataclass(frozen=True, slots=True)
class ScaleMemory:
    """What decide remembers of one pool between passes, in the operator's memory only. Times are epoch seconds.

    `wanted` are (time, replicas) samples of the last window, and `with_chance` the same for demand that is as much
    higher as chance may hide. `since` is when an unbroken series of complete metrics began, so that nothing shrinks
    before one whole window was seen; `seen` is the last complete look. `stepped` is when the count last changed, or
    may have: a pool that has one at the first look after a restart. `loads` are the load samples of the last minute,
    `workload` the measured token counts in use, beside what was `declared`, `lengths` those of the last minutes, and
    `nodes_away` the nodes under its replicas that are not ready or gone, each with the time when that was first seen;
    `nodes_gone` are those of them that were gone, and were not ready since.
    `calibration` is the state of learning from metrics, `outliers` are underperforming replicas, and `forecast` is the
    state of the traffic forecast. `answering` are the pods of the last look in order, and `exchanged` is when they last
    changed, None where that was never seen; at `parted` one of them was gone. `lasting` is the arrival rate in requests
    per second, averaged over how long requests stay, None before any were seen.
    `waited_for_lower` is when it last waited for what lower pools give up, and `waits` is set while its rollout waits
    for room or for traffic to fall. `places` is how many replicas were placed lately, and `gave_up_room` when it last
    gave up room in a quota for its own successors. `vanished_since` is since when the GPUs under serving replicas are
    missing from the fabric. `short_since` is since when all placed replicas serve and more are wanted than fit or are
    allowed. `met_slo_lately` is, for a pool at `maxReplicas`, (time of the last look, fraction of the last looks at
    which it met its SLO). `came_lately` are (time, `lasting`) of the last hour, for a pool that has outgrown a shape.
    `unit` is what the work of `forecast` is counted in, None before any was counted, and `saturation` what replicas did
    at most when they were last saturated, None where they did as predicted. It `recreates` while new replicas
    wait for the end of all pods of an earlier revision.
    """

    since: float
    wanted: tuple[tuple[float, int], ...] = ()
    seen: float | None = None
    stepped: float | None = None
    loads: tuple[LoadSample, ...] = ()
    workload: Workload | None = None
    declared: Workload | None = None
    nodes_away: tuple[tuple[str, float], ...] = ()
    nodes_gone: tuple[str, ...] = ()
    calibration: CalibrationMemory | None = None
    outliers: Outliers | None = None
    with_chance: tuple[tuple[float, int], ...] = ()
    forecast: ForecastState | None = None
    answering: tuple[str, ...] = ()
    exchanged: float | None = None
    lengths: tuple[LengthSample, ...] = ()
    lasting: float | None = None
    parted: float | None = None
    waited_for_lower: float | None = None
    waits: RolloutWait | None = None
    places: Places | None = None
    gave_up_room: float | None = None
    vanished_since: float | None = None
    short_since: float | None = None
    met_slo_lately: tuple[float, float] | None = None
    came_lately: tuple[tuple[float, float], ...] = ()
    unit: WorkUnit | None = None
    recreates: bool = False
    saturation: Saturation | None = None
