"""What deciding remembers of each pool between passes: values that the next snapshot hands to it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.made_often import made_often
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from weft.domain.calibration import Subject
    from weft.domain.forecast import ForecastState
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Calibration
    from weft.domain.workload import Workload


@made_often
@dataclass(frozen=True, slots=True)
class LoadSample:
    """Load of a pool at one moment: requests waiting, requests inside in all, and how many pods answered.

    `at_front` are requests per second that the front counted just then, None where it does not tell.
    """

    at: float
    waiting: float
    outstanding: float
    answered: int
    at_front: float | None = None


@made_often
@dataclass(frozen=True, slots=True)
class CalibrationMemory:
    """How far learning about `subject` has come: the exact factors, of which the status has rounded ones.

    `quiet_since` is when nothing was in the way of a measurement for the first time without a break, and `pods` are
    those that were ready then; `last` is when the last one was taken. `prefill` and `decode` are logarithms of the
    factors that the latest measurements imply. `news` is what the pass that took it tells. Times are epoch seconds.
    """

    subject: Subject
    factors: Calibration
    pods: tuple[str, ...] = ()
    quiet_since: float | None = None
    last: float | None = None
    prefill: tuple[float, ...] = ()
    decode: tuple[float, ...] = ()
    news: Explanation | None = None


@dataclass(frozen=True, slots=True)
class Outlier:
    """A replica that does worse than it should, and its first pod.

    `why` is SlowerThanSiblings, CutOffFromPrefill or CutOffFromDecode, or TransfersFail where its siblings do no
    better. `since` is the first whole look that found it so without a break, None after a break; `named` is when that
    had lasted, and `told` whether an event said so. `worse` is, as last seen, its latency over the median of its
    siblings, or the part of its KV transfers that failed; `well_since` is the first look without a break in which
    hardly any failed any more.
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
    """Which replicas of a pool do worse than they should. Times are epoch seconds.

    `seen` is the last look at all of them; `replaced` is the one that goes once its successor serves, and `begun` when
    the last such was decided. `mended` is when the last one that was cut off was, and `newer` its successor: those with
    its id or a later one came after that.
    """

    seen: float
    found: tuple[Outlier, ...] = ()
    replaced: Outlier | None = None
    begun: float | None = None
    mended: float | None = None
    newer: int = 0

    @property
    def named(self) -> tuple[Outlier, ...]:
        """Those that have done worse for long enough."""
        return tuple([each for each in self.found if each.named is not None])


@made_often
@dataclass(frozen=True, slots=True)
class LengthSample:
    """Means and 95th percentiles in tokens, None where unknown, of about the requests of the minute before `at`."""

    at: float
    requests: float
    inputs: float | None
    outputs: float | None
    inputs_p95: float | None = None
    outputs_p95: float | None = None
    rare_prompts: tuple[float, float] | None = None


@made_often
@dataclass(frozen=True, slots=True)
class RolloutWait:
    """Since when a rollout has waited for nothing that is under way, and whether an event said so."""

    since: float
    told: bool = False


@made_often
@dataclass(frozen=True, slots=True)
class Places:
    """How many `replicas` of a pool have a place, seen without a break `since` then (epoch seconds).

    `ended` is until when it had more, the latest last: (epoch seconds, replicas), of the last hour.
    """

    since: float
    replicas: int
    ended: tuple[tuple[float, int], ...] = ()


@made_often
@dataclass(frozen=True, slots=True)
class ScaleMemory:
    """What deciding remembers of one pool between passes; it lives in the operator's memory only.

    `wanted` are (epoch seconds, replicas) samples of the last window, and `kept` those of what demand would need if it
    were as much more as chance may hide. `since` is when unbroken sight of the pool's complete metrics began, so that
    nothing shrinks before one whole window was seen; `seen` is the last complete look. `stepped` is when
    the count last changed, `loads` the last minute of load, `workload` the live token counts in force beside what
    was `declared`, `lengths` those of the last minutes, and `lost` the nodes that do not answer or are gone, each with
    the time when that was first seen; `gone` are those of them that were gone, and were not ready since.
    `calibration` is how far learning from the metrics has come. `outliers` are replicas that do worse than they should,
    and `forecast` is what its traffic foretells. `answering` are the pods of the last look in order, and `exchanged` is
    when they were others for the last time, None where that was never seen; at `parted` one of them was gone.
    `lasting` are the requests per second that came, averaged over the time that they stay, None before any were seen.
    `took` is when it last waited for what lower pools give up, and `waits` is set while its rollout waits for room
    or for traffic to fall. `places` is how many replicas had a place lately, and `left` when it last gave up room in a
    quota for successors of its own. `vanished` is since when the GPUs under replicas that serve are out of sight.
    `short` is since when all that have a place serve, and more are wanted than its shape has places for,
    or than are allowed. `met` is, of a pool that `maxReplicas` holds, when it looked last (epoch seconds) and the part
    of the last looks at which it met its SLO. `came` are (epoch seconds, requests per second as `lasting`) of the last
    hour, of a pool that has outgrown a shape.
    """

    since: float
    wanted: tuple[tuple[float, int], ...] = ()
    seen: float | None = None
    stepped: float | None = None
    loads: tuple[LoadSample, ...] = ()
    workload: Workload | None = None
    declared: Workload | None = None
    lost: tuple[tuple[str, float], ...] = ()
    gone: tuple[str, ...] = ()
    calibration: CalibrationMemory | None = None
    outliers: Outliers | None = None
    kept: tuple[tuple[float, int], ...] = ()
    forecast: ForecastState | None = None
    answering: tuple[str, ...] = ()
    exchanged: float | None = None
    lengths: tuple[LengthSample, ...] = ()
    lasting: float | None = None
    parted: float | None = None
    took: float | None = None
    waits: RolloutWait | None = None
    places: Places | None = None
    left: float | None = None
    vanished: float | None = None
    short: float | None = None
    met: tuple[float, float] | None = None
    came: tuple[tuple[float, float], ...] = ()
