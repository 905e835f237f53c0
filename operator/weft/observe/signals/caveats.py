"""Deviations from what the engine's version should expose: missing, renamed or absurd series, coarse percentiles.

Sentences contain no live numbers, so that a steady state repeats itself.
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING

from weft.domain.snapshot import Caveat
from weft.domain.texts.figures import seconds
from weft.observe.samples.arithmetic import PERCENTILES, ends
from weft.observe.samples.window import CHANGING, FINISHED, GARBLED, INPUTS, INSIDE, OLD, OUTPUTS, STRANGER, STUCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.domain.snapshot import Buckets
    from weft.observe.samples.window import Window

# Signals and fields of `EngineSeries` that a latency is computed from.
_LATENCIES = {
    "TTFT": "ttft",
    "times per output token": "tpot",
    "ttft": "ttft",
    "tpot": "tpot",
    "inter_token": "tpot",
}
_ODD = {
    FINISHED: "an engine's counter of finished requests jumps back and forth (do several processes answer in turn?) or "
    "grows faster than a replica can serve: it is ignored",
    STUCK: "an engine has requests in progress but its metrics do not change: it hangs, or the page is a cached one",
    OLD: "an engine's metrics no longer change: the page is out of date and ignored",
    CHANGING: "the labels of an engine's series change with every scrape: they are not summed",
    GARBLED: "some of an engine's series are not numbers or appear twice: their sum is ignored",
    STRANGER: "a metrics page is of another model than the pool serves (does another engine use the port?): it is "
    "ignored",
    INSIDE: "an engine reports more requests in progress than a replica can hold, or a crowd in a single scrape: they "
    "are ignored",
    INPUTS: "an engine's mean prompt length is not a number or contradicts its buckets: it is ignored",
    OUTPUTS: "an engine's mean answer length is not a number or contradicts its buckets: it is ignored",
}
_RATIOS = {"kv_usage": "KV use is", "hit_rate": "the hit rate of the prefix cache is"}


def missing(windows: list[Window]) -> tuple[str, ...]:
    """Series that scaling needs and some responding pod does not expose, and signals that no series has."""
    return tuple(dict.fromkeys(name for window in windows for name in _missing(window)))


def caveats(windows: list[Window], ttft: Buckets, tpot: Buckets) -> tuple[Caveat, ...]:
    """Caveats about missing and renamed series and about coarse percentiles, each once."""
    said = (*_untold(windows), *_renamed(windows), *coarse(ttft, tpot))
    return tuple(dict.fromkeys(said))


def unmixed(units: Iterable[str | None]) -> tuple[Caveat, ...]:
    """Why there are no TPOT percentiles if some replicas measure requests and others inter-token gaps."""
    if len(set(units) - {None}) < 2:  # noqa: PLR2004 - requests and gaps
        return ()
    why = "some replicas report TPOT by request and others by token gap: there are no percentiles for the pool"
    return (Caveat(why, "tpot"),)


def coarse(ttft: Buckets, tpot: Buckets) -> tuple[Caveat, ...]:
    """Caveats about percentiles that the buckets cannot resolve."""
    return (*_coarse("ttft", ttft), *_coarse("tpot", tpot))


def _missing(window: Window) -> Iterator[str]:
    for signal, names in window.series.scaling_needs:
        if not names:
            yield signal
        elif not (window.never_asked and not _is_gauge(window, names[0])) and not any(map(window.history.shows, names)):
            yield names[0]


def _is_gauge(window: Window, name: str) -> bool:
    return name in {window.series.running, window.series.waiting, window.series.kv_usage}


def _untold(windows: list[Window]) -> Iterator[Caveat]:
    for window in windows:
        lacking = set(_missing(window))
        hint = f"; it needs {window.series.needs}" if window.series.needs else ""
        for signal, names in (*window.series.scaling_needs, *window.series.also_expected):
            figure = _LATENCIES.get(signal, "")
            if not names:
                yield Caveat(f"this version of the engine does not report {signal}", figure)
            elif any(window.history.has(name) and not window.history.shows(name) for name in names[:1]):
                yield Caveat(f"{names[0]} on the engine's page is not a number or appears twice", figure)
            elif names[0] in lacking or _is_missed(window, names):
                yield Caveat(f"the engine does not show {names[0]}{hint}", figure)


def _is_missed(window: Window, names: tuple[str, ...]) -> bool:
    """Whether an engine lacks these series; only if its series all exist from the start, as else it is unknown."""
    return not window.series.born_late and not any(map(window.history.shows, names))


def _renamed(windows: list[Window]) -> Iterator[Caveat]:
    for window in windows:
        for each in fields(window.series):
            shown, usual = getattr(window.series, each.name), getattr(window.expected, each.name)
            if shown != usual:
                yield Caveat(_other_name(window, shown, usual), _LATENCIES.get(each.name, ""))


def contradicted(windows: Iterable[Window]) -> Iterator[Caveat]:
    """Caveats about impossible figures, which are not used, of all pages, also of pods that thus report no demand."""
    for figure in sorted(frozenset[str]().union(*(window.contradicted for window in windows))):
        if figure in _RATIOS:
            yield Caveat(f"{_RATIOS[figure]} above 1, where a ratio is expected: it is ignored (is it in percent?)")
        elif figure in _ODD:
            yield Caveat(_ODD[figure])
        else:
            why = "is too high for so few requests in progress: it is ignored (is it in another unit?)"
            yield Caveat(f"{figure.upper()} {why}", figure)


def _other_name(window: Window, shown: str | None, usual: str | None) -> str:
    if shown is None:
        return f"{window.series.per_token} is read, since {usual} is missing"
    if usual is None:
        return f"{shown} is read, which this version should not have yet"
    return f"{shown} is read in place of {usual}"


def _coarse(figure: str, buckets: Buckets) -> Iterator[Caveat]:
    found, word = ends(buckets), figure.upper()
    if found is None:
        return
    if not found.finite:
        told = f"{word} percentiles cannot be resolved without a finite bucket: the mean is used instead"
        yield Caveat(told, figure, (0.0, math.inf))
        return
    if any(found.below(percent) for percent in PERCENTILES):
        told = f"{word} percentiles below {seconds(found.first)} are in the first bucket: the mean is used instead"
        yield Caveat(told, figure, (0.0, found.first))
    if any(found.above(percent) for percent in PERCENTILES):
        told = f"{word} percentiles above {seconds(found.last)} are beyond the buckets: they are at least that"
        yield Caveat(told, figure, (found.last, math.inf))
