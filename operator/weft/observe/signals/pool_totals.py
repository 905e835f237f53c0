"""A pool's figures from those of its pods: sums, means and percentiles over all that answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING

from weft.domain.snapshot import PoolObservation
from weft.domain.start_up import KEPT_STARTS
from weft.observe.samples.arithmetic import (
    few_far_longer,
    known_of,
    log_normal_quantile,
    mean_of,
    merged,
    percentiles,
    total_of,
    unresolved,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.domain.snapshot import Buckets, Caveat, PodObservation
    from weft.domain.start_up import MeasuredStart
    from weft.observe.samples.window import Window
    from weft.observe.signals.arriving import Arrived

LONG_PROMPT = 95  # the percentile of prompt and answer lengths in a declared workload


@dataclass(frozen=True, slots=True)
class Histograms:
    """Bucket counts over the window, of one pod or all together."""

    ttft: Buckets
    tpot: Buckets
    inputs: Buckets
    outputs: Buckets
    transfers: Buckets
    by_request: bool = field(default=True, kw_only=True)  # `tpot` counts requests, and not each of their gaps

    @classmethod
    def of(cls, window: Window) -> Histograms:
        """The histograms of one pod."""
        latencies, lengths = (window.ttft_buckets, window.tpot_buckets), (window.input_buckets, window.output_buckets)
        return cls(*latencies, *lengths, window.transfer_buckets, by_request=window.series.tpot is not None)

    @classmethod
    def merged(cls, pods: Iterable[Histograms]) -> Histograms:
        """The histograms of all pods; without TPOT if some count requests and others gaps.

        A request of a thousand tokens would count as one there and a thousand here.
        """
        every = list(pods)
        units = {each.tpot_unit for each in every} - {None}
        return cls(
            merged(each.ttft for each in every),
            merged(each.tpot for each in every if len(units) < 2),  # noqa: PLR2004 - requests and gaps
            merged(each.inputs for each in every),
            merged(each.outputs for each in every),
            merged(each.transfers for each in every),
            by_request="gap" not in units,
        )

    @property
    def tpot_unit(self) -> str | None:
        """What one TPOT observation is of, `request` or `gap`; None without observations."""
        unit = "request" if self.by_request else "gap"
        return unit if any(count for _, count in self.tpot) else None

    @property
    def unresolved(self) -> tuple[tuple[str, int], ...]:
        """Latency percentiles that the buckets cannot resolve, as (latency, percent)."""
        kinds = (("ttft", self.ttft), ("tpot", self.tpot))
        return tuple((kind, percent) for kind, buckets in kinds for percent in unresolved(buckets))


@dataclass(frozen=True, slots=True)
class Together:
    """Figures over all pods that answered; `prefix_tokens` is (looked up in the prefix cache, found).

    `rate` is requests per second.
    """

    histograms: Histograms
    arrived: Arrived
    prefix_tokens: tuple[float, float]
    rate: float | None = None
    hit_rate: float | None = None
    missing: tuple[str, ...] = ()
    caveats: tuple[Caveat, ...] = ()


def add_up(expected: int, pods: tuple[PodObservation, ...], together: Together) -> PoolObservation:
    """A pool's figures: sums over the pods that answered, means weighted by requests, percentiles over all buckets.

    `expected` is how many pods should have answered.
    """
    found, arrived = together.histograms, together.arrived
    input_tokens = _weighted(pods, lambda pod: pod.input_tokens)
    output_tokens = _weighted(pods, lambda pod: pod.output_tokens)
    computed = _weighted(pods, lambda pod: pod.computed_input_tokens)
    ttft_mean, tpot_mean = _of_all(pods, lambda pod: pod.ttft_mean), _of_all(pods, lambda pod: pod.tpot_mean)
    transfer_seconds = _weighted(pods, lambda pod: pod.transfer_seconds)
    return PoolObservation(
        expected=expected,
        answered=len(pods),
        age_seconds=max((pod.age_seconds for pod in pods), default=0.0),
        requests_per_second=together.rate,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        prefix_hit=_prefix_hit(together, input_tokens, None if transfer_seconds else computed),
        waiting=total_of(_known(pods, lambda pod: pod.waiting)),
        running=total_of(_known(pods, lambda pod: pod.running)),
        kv_usage=mean_of(_known(pods, lambda pod: pod.kv_usage)),
        ttft=percentiles(found.ttft, ttft_mean),
        tpot=percentiles(found.tpot, tpot_mean),
        ttft_buckets=found.ttft,
        tpot_buckets=found.tpot,
        transfer_seconds=transfer_seconds,
        arrivals=arrived.requests,
        arrival_seconds=arrived.seconds,
        ttft_mean=ttft_mean,
        tpot_mean=tpot_mean,
        missing=together.missing,
        pods=pods,
        computed_input_tokens=computed,
        input_tokens_p95=log_normal_quantile(found.inputs, LONG_PROMPT / 100),
        output_tokens_p95=log_normal_quantile(found.outputs, LONG_PROMPT / 100),
        rare_prompts=few_far_longer(found.inputs, input_tokens),
        waiting_for_kv=total_of(_known(pods, lambda pod: pod.waiting_for_kv)),
        startup_seconds=_median(_known(pods, lambda pod: pod.startup_seconds)),
        arrivals_at_front=arrived.at_front,
        unresolved=found.unresolved,
        caveats=together.caveats,
        transfers=percentiles(found.transfers, transfer_seconds),
        starts=_last_starts(pods),
    )


def _prefix_hit(together: Together, prompt: float | None, computed: float | None) -> float | None:
    """Fraction of prompt tokens found in the prefix cache: by its counters, else the tokens computed, else its gauge.

    Tokens from another engine were not computed here, and not found either.
    """
    queries, hits = together.prefix_tokens
    if queries > 0:
        return min(1.0, hits / queries)
    if prompt and computed is not None:
        return max(0.0, 1.0 - computed / prompt)
    return together.hit_rate


def _last_starts(pods: Iterable[PodObservation]) -> tuple[MeasuredStart, ...]:
    known = [pod.start for pod in pods if pod.start is not None]
    return tuple(sorted(known, key=attrgetter("replica"))[-KEPT_STARTS:])


def _known(pods: Iterable[PodObservation], value: Callable[[PodObservation], float | None]) -> tuple[float, ...]:
    return known_of(map(value, pods))


def _median(values: tuple[float, ...]) -> float | None:
    return median(values) if values else None


def _of_all(pods: Iterable[PodObservation], value: Callable[[PodObservation], float | None]) -> float | None:
    """The weighted mean, or None if a pod that answered requests lacks the value."""
    busy = tuple(pod for pod in pods if pod.requests_per_second)
    return None if any(value(pod) is None for pod in busy) else _weighted(busy, value)


def _weighted(pods: Iterable[PodObservation], value: Callable[[PodObservation], float | None]) -> float | None:
    """The mean over pods, weighted by requests per second; pods without the value are left out."""
    pairs = [(value(pod), pod.requests_per_second or 0.0) for pod in pods]
    known = [(number, weight) for number, weight in pairs if number is not None]
    total = sum(weight for _, weight in known)
    return sum(number * weight for number, weight in known) / total if total > 0 else None
