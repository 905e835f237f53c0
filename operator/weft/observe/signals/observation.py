"""What a pod and a pool were observed to do, from windows of samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.snapshot import STALE_SECONDS, EngineWord, PodObservation, PoolObservation
from weft.observe.objects.starts import with_weights
from weft.observe.samples.arithmetic import known_of, mean_of, percentiles, total_of
from weft.observe.samples.window import NO_PAGE, STRANGER, Window
from weft.observe.signals.arriving import arrivals
from weft.observe.signals.caveats import caveats, contradicted, missing, unmixed
from weft.observe.signals.contradictions import without_contradicted
from weft.observe.signals.odd_pages import odd_page, old_beside_alive, strangers
from weft.observe.signals.pool_totals import Histograms, Together, add_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weft.domain.start_up import MeasuredStart
    from weft.observe.samples.history import History
    from weft.observe.samples.scrape_target import EngineTarget, Target
    from weft.observe.signals.arriving import Arrived

LEAST_PART = 0.25  # of the longest window: a rate is measured over at least this
NEARLY_AS_LONG = 0.9  # of the longest window: the rest is due to scrape times


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
        hit_rate=mean_of(known_of(window.ratio("hit_rate") for window in windows)),
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


def _rate_of_all(windows: Sequence[Window]) -> float | None:
    """Requests per second of all pods, over the time for which all of them were seen.

    Rates over different windows would count twice what others answered before a pod existed and it answers now: each
    added replica would look like demand for another one.
    """
    spans = [window.seen_seconds for window in windows]
    seconds = common_seconds(spans)
    rates = [window.requests_per_second if seconds is None else window.rate_of_last(seconds) for window in windows]
    return total_of(known_of(rates))


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


def _startup(target: Target, window: Window) -> float | None:
    told = target.startup_seconds
    return _lasted(window, window.series.startup) if told is None else told


def _start(target: Target, window: Window) -> MeasuredStart | None:
    """The pod's measured start, with the engine's own time for loading weights."""
    return target.start and with_weights(target.start, _lasted(window, window.series.loading))


def _lasted(window: Window, name: str | None) -> float | None:
    """The seconds in a gauge; None if it is zero, as SGLang 0.5.15 always shows."""
    return mean_of(tuple([seconds for seconds in window.gauge(name) if seconds > 0.0]))
