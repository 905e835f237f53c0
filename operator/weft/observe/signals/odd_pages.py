"""Pages that are not believed: outdated ones, those of foreign engines, and those that cannot be added up.

Their replica reports no demand, while others are believed: the pool neither shrinks nor grows by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.observe.samples.window import CHANGING, GARBLED, STUCK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.observe.samples.scrape_target import EngineTarget
    from weft.observe.samples.window import Window

# A busy engine changes something on its page within this: a token, a KV block, a chunk of a prompt.
STILL_SECONDS = 45.0
# Answers of each other replica meanwhile, of which a live one would get some.
MANY_ANSWERS = 30.0
MODEL_LABEL = "model_name"


def odd_page(window: Window) -> Iterator[str]:
    """Why a page is not believed, by its own content."""
    if _stands_still(window) and window.series.settles_when_idle and _stays_inside(window):
        yield STUCK
    names = _of_its_load(window)
    if any(2 * window.history.gone(name) > window.history.count(name) for name in names):
        yield CHANGING
    if any(_is_garbled(window, name) for name in names):
        yield GARBLED


def old_beside_alive(windows: Sequence[Window]) -> list[bool]:
    """Which pages are outdated: not even the processor time of their server changes, while that of others does.

    If nobody's changes, it may not be counted here.
    """
    if not any(map(_beats, windows)):
        return [False] * len(windows)
    return [_stands_still(window) and _has_no_beat(window) for window in windows]


def old_beside_busy(windows: Sequence[Window]) -> list[bool]:
    """Which pages of a pool are outdated: nothing on them changes, while each of the others answers many requests.

    Only for pages that nothing else distinguishes from an engine without requests.
    """
    still = [_stands_still(window) and not _is_alive(window) for window in windows]
    answered = [window.requests_done or 0.0 for window, is_still in zip(windows, still, strict=True) if not is_still]
    busy = bool(answered) and min(answered) >= MANY_ANSWERS
    return [busy and is_still for is_still in still]


def strangers(targets: Iterable[EngineTarget], windows: Iterable[Window]) -> list[bool]:
    """Which pages report only other models, while a replica of the same revision reports one that the pool serves.

    If none does, the engine may have its own name for it, or they serve under an earlier name.
    """
    pairs = [(target, window.history.values(MODEL_LABEL)) for target, window in zip(targets, windows, strict=True)]
    alike = {target.revision for target, told in pairs if not told.isdisjoint(target.models)}
    return [bool(told) and told.isdisjoint(each.models) and each.revision in alike for each, told in pairs]


def _stands_still(window: Window) -> bool:
    history, series = window.history, window.series
    likely = (series.finished, f"{series.ttft}_count", f"{series.per_token}_count")
    return history.span_seconds >= STILL_SECONDS and not history.moves(likely, but=series.heartbeat)


def _is_alive(window: Window) -> bool:
    """Whether the server of the page is alive, or the engine reliably reports that it is idle."""
    return window.series.tells_when_idle or _beats(window)


def _beats(window: Window) -> bool:
    beat = window.series.heartbeat
    return beat is not None and (window.increase(beat) or 0.0) > 0


def _has_no_beat(window: Window) -> bool:
    beat = window.series.heartbeat
    return beat is not None and window.history.stands_still(beat, STILL_SECONDS)


def _stays_inside(window: Window) -> bool:
    """Whether the same series have shown running requests for long enough.

    For engines whose gauge is current, or soon is: others may show the last batch until the next one. Waiting requests
    do not count, as they may wait for KV that nobody sends any more.
    """
    lines = window.lines(window.series.running)
    return any(line[-1][1] > 0 and line[-1][0] - line[0][0] >= STILL_SECONDS for line in lines if line)


def _of_its_load(window: Window) -> tuple[str, ...]:
    series = window.series
    return tuple(name for name in (series.running, series.waiting, series.finished) if name is not None)


def _is_garbled(window: Window, name: str) -> bool:
    """Whether some series of a name have usable numbers, and others do not: their sum would lack those."""
    lines = window.lines(name)
    return any(lines) and not all(lines)
