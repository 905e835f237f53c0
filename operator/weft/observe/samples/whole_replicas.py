"""Replicas with several pods or ports, read as one: the counts of all pages add up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.snapshot import STALE_SECONDS
from weft.observe.samples.history import PAGE_LABEL, History

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.observe.samples.arithmetic import Sample
    from weft.observe.samples.scrape_target import Target


def of_whole_replicas(targets: Iterable[Target], histories: Mapping[str, History]) -> dict[str, History]:
    """The windows, merged into one per replica with several pages, under its first; none while a page is stale.

    A part would look like a replica with less load.
    """
    whole = dict(histories)
    for target in targets:
        if not target.pages:
            continue
        pages = [whole.pop(each.uid, None) for each in (target, *target.pages)]
        known = [page for page in pages if page is not None and page.age_seconds <= STALE_SECONDS]
        if len(known) == len(pages):
            whole[target.uid] = _added_up(known)
    return whole


def _added_up(pages: list[History]) -> History:
    """All series of all pages on the first one's clock, as sources have different clocks. As old as the oldest."""
    first, ages = pages[0], [page.age_seconds for page in pages]
    series = {
        (name, tuple(sorted((*tags, (PAGE_LABEL, str(number)))))): _later(samples, first.now - page.now)
        for number, page in enumerate(pages)
        for (name, tags), samples in page.series.items()
    }
    silent = max(page.silent_seconds for page in pages)
    return History(first.now + max(ages) - min(ages), series, first.origin, asked_seconds=silent)


def _later(samples: tuple[Sample, ...], seconds: float) -> tuple[Sample, ...]:
    return tuple((at + seconds, value) for at, value in samples) if seconds else samples
