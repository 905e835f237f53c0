"""Who serves to the last where the nodes of all replicas go away (ADR 0058), and of which pair of a split.

Half a pair serves nobody, so both halves of a split that rolls keep replicas of the same pair: of the one that serves
longest, which is as long as its half that goes first.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING

from weft.decide.counting.worth import ROUNDING
from weft.decide.rollouts.rollout import serving

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.placement import Departure

Pairs = dict[str, list["Departure"]]  # of one half, by the pair that they were rendered for


def pairs_that_last(halves: Sequence[Pairs]) -> list[str]:
    """The pairs of which both halves serve, or may for some seconds: the one that does so longest first."""
    seconds = {
        pair: sorted(max(map(_lasts_seconds, half[pair]), default=0.0) for half in halves)
        for pair in set.intersection(*map(set, halves))
    }
    able = [pair for pair, (shorter, *_) in seconds.items() if shorter > 0.0]
    return sorted(able, key=lambda pair: (seconds[pair], pair), reverse=True)


def keep_the_last(
    replicas: Sequence[Departure], enough: int, noticed: float, places: Mapping[int, int] | None = None
) -> list[Departure]:
    """The replicas; where all were on nodes that go away, as many are marked to last as it takes for `enough` to serve.

    Replicas that came since count too, and those that can serve longest last. `noticed` (epoch seconds) is when the
    first of these nodes was known to go: an older replica that surely serves takes over at once, and none has to last.
    `places` are those of the replicas' pairs among `pairs_that_last`, by the replica's id; None where there is one pair
    or none is left. A replica without a place, or of a pair that goes before others, serves nobody then.
    """
    place = dict.fromkeys((each.assignment.replica for each in replicas), 0) if places is None else places
    able = [each for each in replicas if each.assignment.replica in place and _may_last(each)]
    if not able:
        return list(replicas)
    first = min(place[each.assignment.replica] for each in able)
    surely = [each for each in replicas if serving([each]) > 0.0 and place.get(each.assignment.replica, inf) <= first]
    if any(each.assignment.since < noticed for each in surely):
        return list(replicas)
    last = sorted(able, key=lambda each: _longest_first(each, place))
    lacking = enough - serving(surely) - ROUNDING
    before = accumulate((each.share for each in last), initial=0.0)
    last = [each for each, worth in zip(last, before, strict=False) if worth < lacking]
    return [replace(each, lasts=each in last) for each in replicas]


def _longest_first(each: Departure, place: Mapping[int, int]) -> tuple[int, float, int]:
    return place[each.assignment.replica], -each.serves_seconds, each.assignment.replica


def _lasts_seconds(each: Departure) -> float:
    """How long it serves: for ever, or as long as its node's notice allows."""
    if serving([each]) > 0.0:
        return inf
    return each.serves_seconds if _may_last(each) else 0.0


def _may_last(each: Departure) -> bool:
    return each.urgent and each.ready and not each.alone and each.serves_seconds > 0.0
