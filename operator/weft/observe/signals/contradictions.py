"""Impossible figures: percent in a gauge of a ratio, or latencies in milliseconds where seconds are expected."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.observe.samples.window import NO_PAGE, OLD
from weft.observe.signals.odd_counts import odd_counts
from weft.observe.signals.odd_pages import old_beside_alive, old_beside_busy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.engines import EngineSeries
    from weft.observe.samples.window import Window

# A request that is inside for longer than two scrapes of a usual Prometheus are apart is seen by one of them.
LONG_SECONDS = 30.0
# No engine takes that long per token, while a value in another unit is far larger.
LONG_TOKEN_SECONDS = 1.0
# Maxima fall between scrapes, and long requests that end together weigh more than those still running.
MOST_TIMES = 2.0
# The largest value believed of a ratio, which is at most 1.
MOST_RATIO = 1.1
RATIOS = ("kv_usage", "hit_rate")


def without_contradicted(windows: Sequence[Window]) -> Sequence[Window]:
    """The windows of one pool, without impossible figures.

    A figure that one replica contradicts is used of none with the same engine: they run one build, and a new one was
    not seen for long. Odd counts concern only one process.
    """
    contradicted: dict[EngineSeries, frozenset[str]] = {}
    windows = _without_odd_pages([_without_odd_counts(window) for window in windows])
    for window in windows:
        contradicted[window.expected] = contradicted.get(window.expected, frozenset()) | _contradictions(window)
    if not any(contradicted.values()):
        return windows
    return [replace(each, contradicted=each.contradicted | contradicted[each.expected]) for each in windows]


def _without_odd_pages(windows: Sequence[Window]) -> Sequence[Window]:
    old = map(any, zip(old_beside_alive(windows), old_beside_busy(windows), strict=True))
    return [
        replace(window, contradicted=window.contradicted | {OLD}) if is_old else window
        for window, is_old in zip(windows, old, strict=True)
    ]


def _without_odd_counts(window: Window) -> Window:
    odd = odd_counts(window)
    return replace(window, contradicted=window.contradicted | odd) if odd else window


def _contradictions(window: Window) -> frozenset[str]:
    """The impossible figures of a page: some of `ttft`, `tpot`, `kv_usage` and `hit_rate`; none of a rejected page."""
    if not window.contradicted.isdisjoint(NO_PAGE):
        return frozenset()
    return _too_long(window) | {figure for figure in RATIOS if _is_no_ratio(window, figure)}


def _is_no_ratio(window: Window, figure: str) -> bool:
    name = getattr(window.series, figure)
    return name is not None and any(peak > MOST_RATIO for peak in window.history.peaks(name))


def _too_long(window: Window) -> frozenset[str]:
    """Which of `ttft` and `tpot` would need far more requests inside than any scrape of the window showed.

    Little's law: answers per second times the mean stay is the mean number inside. Requests inside at the start of the
    window have been there for some time, at most for their whole stay.
    """
    rate, seconds = window.requests_per_second, window.history.span_seconds
    if not rate or seconds <= 0:
        return frozenset()
    most = MOST_TIMES * (window.most_inside + 1.0)
    stays = {figure: stay for figure, stay in _stays(window).items() if stay > LONG_SECONDS}
    return frozenset(figure for figure, stay in stays.items() if rate * stay > most * (1.0 + stay / seconds))


def _stays(window: Window) -> dict[str, float]:
    """Mean seconds that a request was inside according to each latency."""
    ttft, tpot, tokens = window.ttft_mean, window.tpot_mean, window.output_tokens
    decoding = tpot * tokens if tpot is not None and tokens is not None and tpot >= LONG_TOKEN_SECONDS else 0.0
    return {"ttft": ttft or 0.0, "tpot": decoding}
