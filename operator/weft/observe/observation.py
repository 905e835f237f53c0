"""What a pod and a pool were observed to do, from windows of samples."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from operator import attrgetter
from statistics import median
from typing import TYPE_CHECKING

from weft.domain.snapshot import EngineWord, PodObservation, PoolObservation
from weft.domain.start_up import KEPT_STARTS
from weft.observe.arithmetic import few_far_longer, log_normal_quantile, merged, percentiles, unresolved
from weft.observe.arriving import arrivals
from weft.observe.caveats import caveats, contradicted, missing, unmixed
from weft.observe.contradictions import without_contradicted
from weft.observe.history import STALE_SECONDS
from weft.observe.odd_pages import odd_page, old_beside_alive, strangers
from weft.observe.starts import with_weights
from weft.observe.window import NO_PAGE, STRANGER, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from weft.domain.snapshot import Buckets, Caveat
    from weft.domain.start_up import MeasuredStart
    from weft.observe.arriving import Arrived
    from weft.observe.history import EngineTarget, History, Target

LEAST_PART = 0.25  # of the longest window: a rate is measured over at least this
NEARLY_AS_LONG = 0.9  # of the longest window: the rest is due to scrape times
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
class _Seen:
    """One pod's figures and what they were read from."""

    pod: PodObservation
    window: Window
    histograms: Histograms

    @classmethod
    def of(cls, target: Target, window: Window) -> _Seen:
        histograms = Histograms.of(window)
        return cls(observe_pod(target, window, histograms), window, histograms)

    @property
    def answered(self) -> bool:
        """Whether its window is long enough for a rate."""
        return self.pod.requests_per_second is not None


def observe_pod(target: Target, window: Window, found: Histograms) -> PodObservation:
    """One pod's figures over the window; its start-up time is from its conditions, else the engine's."""
    ttft_mean, tpot_mean = window.ttft_mean, window.tpot_mean
    return PodObservation(
        pod=target.pod,
        age_seconds=window.history.age_seconds,
        requests_per_second=window.requests_per_second,
        input_tokens=window.input_tokens,
        output_tokens=window.output_tokens,
        computed_input_tokens=window.computed_input_tokens,
        waiting=window.waiting,
        running=window.running,
        kv_usage=window.ratio("kv_usage"),
        ttft=percentiles(found.ttft, ttft_mean),
        tpot=percentiles(found.tpot, tpot_mean),
        ttft_mean=ttft_mean,
        tpot_mean=tpot_mean,
        transfer_seconds=window.transfer_seconds,
        waiting_for_kv=window.waiting_for_kv,
        startup_seconds=_startup(target, window),
        start=_start(target, window),
        transfers_done=window.transfers_done,
        transfers_failed=window.transfers_failed,
        requests_done=window.requests_done,
        kv_expired=window.kv_expired,
    )


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


def observe_pool(
    targets: Iterable[EngineTarget],
    histories: Mapping[str, History],
    fronts: Iterable[Target] = (),
) -> PoolObservation:
    """What a pool was observed to do, from the windows of its pods, each read by its own engine's series.

    A pod counts as answered once its window is fresh and long enough for a rate.
    """
    expected = list(targets)
    fresh = [(target, histories[target.uid]) for target in expected if target.uid in histories]
    fresh = [(target, history) for target, history in fresh if history.age_seconds <= STALE_SECONDS]
    read = without_contradicted(_windows(fresh))
    seen = [_Seen.of(target, window) for (target, _), window in zip(fresh, read, strict=True)]
    answered = [each for each in seen if each.answered]
    together = _together(seen, arrivals([each.window for each in answered], list(fronts), histories))
    added_up = add_up(len(expected), tuple(each.pod for each in answered), together)
    return replace(added_up, heard=tuple((target.pod, history.silent_seconds) for target, history in fresh))


def _together(seen: Sequence[_Seen], arrived: Arrived) -> Together:
    """Figures over the pods that answered, and caveats about what is missing on their pages."""
    answered = [each for each in seen if each.answered]
    windows, histograms = [each.window for each in answered], [each.histograms for each in answered]
    found, pages = Histograms.merged(histograms), _pages_to_judge(seen)
    return Together(
        histograms=found,
        arrived=arrived,
        rate=_rate_of_all(windows),
        prefix_tokens=_prefix_tokens(windows),
        hit_rate=_mean(_all(window.ratio("hit_rate") for window in windows)),
        missing=missing(pages),
        caveats=(
            *caveats(pages, found.ttft, found.tpot),
            *contradicted(each.window for each in seen),
            *unmixed(each.tpot_unit for each in histograms),
        ),
    )


def _pages_to_judge(seen: Sequence[_Seen]) -> list[Window]:
    """The pages to report missing series of: those seen for long enough; until there is one, all but strangers'."""
    lasting = [each.window for each in seen if each.answered or _tells_no_rate_for_good(each.window)]
    return lasting or [each.window for each in seen if STRANGER not in each.window.contradicted]


def _windows(fresh: Sequence[tuple[EngineTarget, History]]) -> list[Window]:
    """The windows of pages of the pool's engines, and of pages of other models, which are marked."""
    windows = [Window.of(history, target.series) for target, history in fresh]
    odd = strangers([target for target, _ in fresh], windows)
    return [
        replace(window, contradicted=frozenset((STRANGER,))) if is_odd else window
        for window, is_odd in zip(windows, odd, strict=True)
    ]


def _tells_no_rate_for_good(window: Window) -> bool:
    """Whether a page of one of the pool's engines, with all series from the start, was seen twice."""
    is_page = STRANGER not in window.contradicted
    return is_page and window.history.span_seconds > 0 and not window.series.born_late


def words_of(targets: Iterable[EngineTarget], histories: Mapping[str, History]) -> dict[str, EngineWord]:
    """Which engines are idle, by pod name, from the first sample on.

    Engines that do not report it are left out. A leaving pod needs no rate, for which `observe_pool` waits.
    """
    known = [(target, histories[target.uid]) for target in targets if target.uid in histories]
    windows = [Window.of(history, each.series) for each, history in known]
    return {
        each.pod: EngineWord(idle, history.age_seconds)
        for (each, history), window, is_old in zip(known, windows, old_beside_alive(windows), strict=True)
        if not is_old and (idle := _idle(window)) is not None
    }


def _idle(window: Window) -> bool | None:
    """Whether an engine is idle; None if its page cannot be believed or does not say."""
    return window.idle if NO_PAGE.isdisjoint(odd_page(window)) else None


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
        waiting=_total(_known(pods, lambda pod: pod.waiting)),
        running=_total(_known(pods, lambda pod: pod.running)),
        kv_usage=_mean(_known(pods, lambda pod: pod.kv_usage)),
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
        waiting_for_kv=_total(_known(pods, lambda pod: pod.waiting_for_kv)),
        startup_seconds=_median(_known(pods, lambda pod: pod.startup_seconds)),
        arrivals_at_front=arrived.at_front,
        unresolved=found.unresolved,
        caveats=together.caveats,
        transfers=percentiles(found.transfers, transfer_seconds),
        starts=_last_starts(pods),
    )


def _rate_of_all(windows: Sequence[Window]) -> float | None:
    """Requests per second of all pods, over the time for which all of them were seen.

    Rates over different windows would count twice what others answered before a pod existed and it answers now: each
    added replica would look like demand for another one.
    """
    spans = [window.counted_seconds or 0.0 for window in windows]
    seconds = common_seconds(spans)
    rates = [window.requests_per_second if seconds is None else window.rate_of_last(seconds) for window in windows]
    return _total(_all(rates))


def common_seconds(spans: Sequence[float]) -> float | None:
    """The last seconds over which to count on all pods, given the seconds counted on each; None: the whole windows.

    No less than a rate needs: a pod that did not exist for all of them answered nothing before.
    """
    shortest, longest = min(spans, default=0.0), max(spans, default=0.0)
    return None if shortest >= NEARLY_AS_LONG * longest else max(shortest, LEAST_PART * longest)


def _prefix_tokens(windows: list[Window]) -> tuple[float, float]:
    """Prompt tokens looked up in all prefix caches, and found."""
    found = [tokens for tokens in (window.prefix_tokens for window in windows) if tokens is not None]
    return sum(tokens[0] for tokens in found), sum(tokens[1] for tokens in found)


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


def _startup(target: Target, window: Window) -> float | None:
    told = target.startup_seconds
    return _lasted(window, window.series.startup) if told is None else told


def _start(target: Target, window: Window) -> MeasuredStart | None:
    """The pod's measured start, with the engine's own time for loading weights."""
    return target.start and with_weights(target.start, _lasted(window, window.series.loading))


def _lasted(window: Window, name: str | None) -> float | None:
    """The seconds in a gauge; None if it is zero, as SGLang 0.5.15 always shows."""
    return _mean(tuple([seconds for seconds in window.gauge(name) if seconds > 0.0]))


def _last_starts(pods: Iterable[PodObservation]) -> tuple[MeasuredStart, ...]:
    known = [pod.start for pod in pods if pod.start is not None]
    return tuple(sorted(known, key=attrgetter("replica"))[-KEPT_STARTS:])


def _known(pods: Iterable[PodObservation], value: Callable[[PodObservation], float | None]) -> tuple[float, ...]:
    return _all(map(value, pods))


def _all(values: Iterable[float | None]) -> tuple[float, ...]:
    return tuple([value for value in values if value is not None])


def _total(values: tuple[float, ...]) -> float | None:
    return sum(values) if values else None


def _mean(values: tuple[float, ...]) -> float | None:
    return sum(values) / len(values) if values else None


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
