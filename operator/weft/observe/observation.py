"""From windows of samples to what a pod and a pool were observed to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.snapshot import PodObservation, PoolObservation
from weft.observe.arithmetic import merged, percentiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from weft.domain.snapshot import Buckets
    from weft.engines.series import EngineSeries
    from weft.observe.history import History, Target

STALE_SECONDS = 45.0  # three intervals of a usual Prometheus: older windows count as no answer
CAPACITY = (("reason", "capacity"),)
# Arrivals are counted over at least this: a few scrapes, and short against the start of an engine.
ARRIVAL_SECONDS = 10.0


def wanted_names(series: EngineSeries) -> tuple[str, ...]:
    """The families that observation reads, and no others."""
    names = (
        *(series.running, series.waiting, series.waiting_by_reason, series.kv_usage, series.finished),
        *(series.prefix_queries, series.prefix_hits, series.ttft, series.tpot or series.inter_token),
        *(series.request_input_tokens, series.request_output_tokens, series.request_computed_tokens, series.transfer),
    )
    return tuple(sorted({name for name in names if name is not None}))


def observe_pod(pod: str, history: History, series: EngineSeries) -> PodObservation:
    """One pod's figures over the window."""
    waiting = history.gauge(series.waiting_by_reason, CAPACITY) if series.waiting_by_reason else ()
    computed = series.request_computed_tokens
    return PodObservation(
        pod=pod,
        age_seconds=history.age_seconds,
        requests_per_second=history.rate(series.finished),
        input_tokens=history.mean(series.request_input_tokens),
        output_tokens=history.mean(series.request_output_tokens),
        computed_input_tokens=history.mean(computed) if computed else None,
        waiting=_total(waiting or history.gauge(series.waiting)),
        running=_total(history.gauge(series.running)),
        kv_usage=_mean(history.gauge(series.kv_usage)),
        ttft=percentiles(history.buckets(series.ttft)),
        tpot=percentiles(history.buckets(series.tpot or series.inter_token)),
        ttft_mean=history.mean(series.ttft),
        tpot_mean=history.mean(series.tpot or series.inter_token),
        transfer_seconds=history.mean(series.transfer) if series.transfer else None,
    )


def observe_pool(targets: Iterable[Target], histories: Mapping[str, History], series: EngineSeries) -> PoolObservation:
    """A pool's figures: sums over the pods that answered, means weighted by their requests, percentiles of all buckets.

    A pod counts as answered once its window is fresh and long enough for a rate.
    """
    expected = list(targets)
    fresh = [(t, histories[t.uid]) for t in expected if t.uid in histories]
    fresh = [(target, history) for target, history in fresh if history.age_seconds <= STALE_SECONDS]
    seen = [(observe_pod(target.pod, history, series), history) for target, history in fresh]
    answered = [(pod, history) for pod, history in seen if pod.requests_per_second is not None]
    pods = tuple(pod for pod, _ in answered)
    windows = [history for _, history in answered]
    arrivals, arrival_seconds = _arrivals(windows, series)
    ttft, tpot = _buckets(windows, series.ttft), _buckets(windows, series.tpot or series.inter_token)
    return PoolObservation(
        expected=len(expected),
        answered=len(pods),
        age_seconds=max((pod.age_seconds for pod in pods), default=0.0),
        requests_per_second=_total(_known(pods, lambda pod: pod.requests_per_second)),
        input_tokens=_weighted(pods, lambda pod: pod.input_tokens),
        output_tokens=_weighted(pods, lambda pod: pod.output_tokens),
        prefix_hit=_prefix_hit(windows, series, pods),
        waiting=_total(_known(pods, lambda pod: pod.waiting)),
        running=_total(_known(pods, lambda pod: pod.running)),
        kv_usage=_mean(_known(pods, lambda pod: pod.kv_usage)),
        ttft=percentiles(ttft),
        tpot=percentiles(tpot),
        ttft_buckets=ttft,
        tpot_buckets=tpot,
        transfer_seconds=_weighted(pods, lambda pod: pod.transfer_seconds),
        arrivals=arrivals,
        arrival_seconds=arrival_seconds,
        ttft_mean=_of_all(pods, lambda pod: pod.ttft_mean),
        tpot_mean=_of_all(pods, lambda pod: pod.tpot_mean),
        missing=_missing(windows or [history for _, history in seen], series),
        pods=pods,
    )


def _arrivals(windows: list[History], series: EngineSeries) -> tuple[float | None, float | None]:
    """Requests that came in lately and the seconds that means: answered, plus the growth of what is inside."""
    recent = [window.recent(ARRIVAL_SECONDS) for window in windows]
    answered = _all(window.increase(series.finished) for window in recent)
    seconds = max((window.span_seconds for window in recent), default=0.0)
    if not answered or seconds < ARRIVAL_SECONDS / 2:
        return None, None
    inside = sum(window.change(series.running) + window.change(series.waiting) for window in recent)
    return max(0.0, sum(answered) + inside), seconds


def _missing(windows: list[History], series: EngineSeries) -> tuple[str, ...]:
    """Series that scaling needs and that some pod which answers does not expose."""

    def absent(name: str) -> bool:
        return any(not (window.has(name) or window.has(f"{name}_count")) for window in windows)

    return tuple(name for name in series.scaling_needs if absent(name))


def _prefix_hit(windows: list[History], series: EngineSeries, pods: tuple[PodObservation, ...]) -> float | None:
    """Fraction of prompt tokens found in the prefix cache: by its own counters, else by what was left to compute."""
    queries = _total(_all(window.increase(series.prefix_queries) for window in windows))
    hits = _total(_all(window.increase(series.prefix_hits) for window in windows))
    if queries and hits is not None:
        return min(1.0, hits / queries)
    prompt = _weighted(pods, lambda pod: pod.input_tokens)
    computed = _weighted(pods, lambda pod: pod.computed_input_tokens)
    return None if not prompt or computed is None else max(0.0, 1.0 - computed / prompt)


def _buckets(windows: list[History], name: str) -> Buckets:
    return merged(window.buckets(name) for window in windows)


def _known(pods: Iterable[PodObservation], value: Callable[[PodObservation], float | None]) -> tuple[float, ...]:
    return _all(value(pod) for pod in pods)


def _all(values: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(value for value in values if value is not None)


def _total(values: tuple[float, ...]) -> float | None:
    return sum(values) if values else None


def _mean(values: tuple[float, ...]) -> float | None:
    return sum(values) / len(values) if values else None


def _of_all(pods: Iterable[PodObservation], value: Callable[[PodObservation], float | None]) -> float | None:
    """The weighted mean, or None where a pod that answered requests does not tell."""
    busy = tuple(pod for pod in pods if pod.requests_per_second)
    return None if any(value(pod) is None for pod in busy) else _weighted(busy, value)


def _weighted(pods: Iterable[PodObservation], value: Callable[[PodObservation], float | None]) -> float | None:
    """Mean over pods, weighted by requests per second; pods without the value are left out."""
    pairs = [(value(pod), pod.requests_per_second or 0.0) for pod in pods]
    known = [(number, weight) for number, weight in pairs if number is not None]
    total = sum(weight for _, weight in known)
    return sum(number * weight for number, weight in known) / total if total > 0 else None
