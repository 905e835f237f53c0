"""The condition NetworkBound: KV transfers, and not engines, are what requests of a split wait for.

More GPUs would not help then. It takes engines that have room, a target for the first token that is missed, and
transfers that make up most of it: on average, in the tail that is missed, or in the line before them. Without such a
target, KV under way that fills the memory tells, and in decode more requests in that line than run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.status import FALSE, TRUE, UNKNOWN, Condition
from weft.domain.workload import Role
from weft.scaling import is_backlog, is_sane, kv_in_use, read_percentile

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.snapshot import PoolObservation
    from weft.domain.workload import Slo

# Below this an engine has room, so latency that grows all the same has another reason.
UNSATURATED_KV = 0.8
# Transfers dominate when they make up this part of what is looked at.
DOMINANT = 0.5
# A percentile this many times the median shows that some requests wait for something that others do not.
WIDE = 2.0
_MEDIAN = 50

Missed = tuple[int, float, float]  # percentile, target and what was reached, in seconds


def network_bound(role: Role, slo: Slo, observation: PoolObservation | None) -> Condition:
    """Whether KV transfer is what makes TTFT miss its target, or requests wait, while the engines have room."""
    if not role.is_half:
        return _MOVES_NOTHING
    if observation is None or observation.answered <= 0:
        return _NOT_MEASURED
    if observation.transfer_seconds is None:
        return _NOT_TIMED
    missed = _missed(slo, observation)
    if (slo.ttft and not missed) or _is_saturated(role, observation):
        return _not_bound("KV transfer is not what TTFT waits for")
    for claim, message in _CLAIMS if slo.ttft else _CLAIMS_WITHOUT_TARGET[role]:
        if claim(observation, missed):
            return Condition("NetworkBound", TRUE, Explanation(Reason.TransferDominates, message))
    return _not_bound("KV transfer is not what TTFT waits for")


def _missed(slo: Slo, observation: PoolObservation) -> list[Missed]:
    """The TTFT targets that are missed."""
    measured = ((percentile, target, read_percentile(observation.ttft, percentile)) for percentile, target in slo.ttft)
    return [(each, target, seconds) for each, target, seconds in measured if seconds is not None and seconds > target]


def _is_saturated(role: Role, observation: PoolObservation) -> bool:
    """Whether engines have no room: running requests fill KV memory, or decode has more waiting to run than for KV.

    KV in transfer does not count: where it fills the memory (in decode, or unfetched in prefill) requests wait for it.
    """
    if kv_in_use(observation) >= UNSATURATED_KV:
        return True
    waiting, for_kv = observation.waiting, observation.waiting_for_kv
    has_memory = (observation.kv_usage or 0.0) < UNSATURATED_KV
    if role is not Role.Decode or not has_memory or not is_sane(waiting) or not is_sane(for_kv):
        return False
    return waiting > max(for_kv, observation.answered)


def kv_under_way_fills_the_memory(observation: PoolObservation, _: list[Missed]) -> bool:
    """Whether KV in transfer fills the memory, while running requests do not."""
    fills_memory = (observation.waiting_for_kv or 0.0) > (observation.running or 0.0)
    return fills_memory and (observation.kv_usage or 0.0) >= UNSATURATED_KV


def transfers_take_most_of_it(observation: PoolObservation, missed: list[Missed]) -> bool:
    """Whether the mean transfer takes most of the excess of TTFT over its target, or of the mean TTFT if that is less.

    The mean is a bound because a percentile of a growing queue is far above its mean.
    """
    excess = max(reached - target for _, target, reached in missed)
    late = excess if observation.ttft_mean is None else min(excess, observation.ttft_mean)
    return (observation.transfer_seconds or 0.0) >= DOMINANT * late


def slow_transfers_are_its_tail(observation: PoolObservation, missed: list[Missed]) -> bool:
    """Whether a missed percentile of TTFT is far above the median, and slow transfers explain most of that.

    Long prompts widen TTFT, too, but the spread of transfers by far less.
    """
    median, usual = (read_percentile(each, _MEDIAN) for each in (observation.ttft, observation.transfers))
    if median is None or usual is None:
        return False
    for percentile, target, reached in missed:
        slow = read_percentile(observation.transfers, percentile)
        most = max(reached - median, reached - target)
        if slow is not None and reached >= WIDE * median and slow - usual >= DOMINANT * most:
            return True
    return False


def requests_line_up_before_them(observation: PoolObservation, missed: list[Missed]) -> bool:
    """Whether waiting for KV, also in the queue before the transfer, takes most of the excess of TTFT over its target.

    By Little's law the wait is waiting requests / requests per second. False where memory is full: they may await that.
    """
    for_kv, rate = observation.waiting_for_kv, observation.requests_per_second
    if not is_sane(for_kv) or not rate or (observation.kv_usage or 0.0) >= UNSATURATED_KV:
        return False
    excess = max(reached - target for _, target, reached in missed)
    in_line = for_kv > (observation.running or 0.0)  # else a few are on their way, as always
    return in_line and for_kv / rate >= DOMINANT * excess


def more_wait_in_line_than_run(observation: PoolObservation, _: list[Missed]) -> bool:
    """Whether requests spend more time in line for KV than running, by Little's law: more of them, and no few."""
    for_kv = observation.waiting_for_kv
    if not is_sane(for_kv):
        return False
    return is_backlog(for_kv, observation.answered) and for_kv > (observation.running or 0.0)


def _unknown(message: str) -> Condition:
    return Condition("NetworkBound", UNKNOWN, Explanation(Reason.MetricsMissing, message))


def _not_bound(message: str) -> Condition:
    return Condition("NetworkBound", FALSE, Explanation(Reason.NotNetworkBound, message))


_MOVES_NOTHING = _not_bound("an aggregated replica moves no KV to others")
_NOT_MEASURED = _unknown("no replica reports metrics")
_NOT_TIMED = _unknown("no replica times KV transfers; the other half may")
_Claim = tuple["Callable[[PoolObservation, list[Missed]], bool]", str]
_MEMORY: _Claim = (
    kv_under_way_fills_the_memory,
    "KV in transfer fills most of the engines' memory, while running requests need little of it",
)
_CLAIMS: tuple[_Claim, ...] = (
    _MEMORY,
    (
        transfers_take_most_of_it,
        "KV transfer takes most of the TTFT above target, while engines have capacity",
    ),
    (
        slow_transfers_are_its_tail,
        "slow KV transfers explain most of the slowest TTFT, while engines have capacity",
    ),
    (
        requests_line_up_before_them,
        "requests wait in line for KV for most of the TTFT above target, while engines have capacity",
    ),
)
_LINE: _Claim = (
    more_wait_in_line_than_run,
    "more requests wait in line for KV than run, while engines have capacity",
)
# KV on its way out of prefill holds nobody up who runs there: prompts run for moments only.
_CLAIMS_WITHOUT_TARGET = {Role.Prefill: (_MEMORY,), Role.Decode: (_MEMORY, _LINE)}
