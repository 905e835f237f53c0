"""HeteroScale's rule: one signal, decode tokens per second of an instance, drives both pools at a fixed ratio.

Source: ByteDance, arXiv 2508.19559v1 (27 August 2025), as its abstract and summaries by others tell it. The bands, the
guard and the pauses are those of a re-implementation by others after its algorithm 2; what constants the paper itself
gives was not checked.

Rule: decode tokens per second of the pool over its count, over the target, is r. Outside 1 +- 10 % the decode pool
wants `ceil(tokens per second / target)`. Latency is a guard alone: with a TBT above 1.2 times the SLO the pool wants
20 % more instances than serve, and does not shrink. The prefill pool has always the ratio times the decode pool. The
re-implementation pauses for 180 s after it grew and for 600 s after it shrank, each in its own direction.

What is chosen here: a look every 30 s over the tokens of the last 60 s; the target is a part (`load`) of what the
performance model says that one replica makes within the SLO; the ratio, unless given, is that of the two capacities
at the declared workload and rate, once and for all. An aggregated pool follows the same signal without a partner. The
guard counts from what serves, so that it does not repeat itself while replicas start, and nothing pauses unless tuned
to: without it the rule follows bursts sooner.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.workload import Role
from weft.scaling import is_sane
from weft.twin.policies.signals import strictest, token_seconds
from weft.twin.policies.windows import Recent, Timer, replicas_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.twin.policies.policy import PoolView

WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class HeteroScaleOptions:
    """`load` is the part of a replica's capacity that is aimed at; `ratio` prefill replicas for each of decode.

    `pause_up` and `pause_down` are the least seconds from one change to the next in the same direction.
    """

    load: float = 0.8
    band: float = 0.1
    guard: float = 1.2
    more: float = 0.2
    ratio: float | None = None
    pause_up: float = 0.0
    pause_down: float = 0.0

    def policy(self) -> HeteroScale:
        """A controller that remembers nothing yet."""
        return HeteroScale(self)


class HeteroScale:
    """Decode pools follow their tokens, prefill pools follow decode pools in the order of both."""

    name = "heteroscale"
    every_seconds = 30.0

    def __init__(self, options: HeteroScaleOptions) -> None:
        """Nothing is remembered yet."""
        self.options = options
        self._tokens: dict[str, Recent] = {}
        self._ratios: dict[str, float] = {}
        self._pauses: dict[tuple[str, bool], Timer] = {}

    def counts(self, now: float, pools: tuple[PoolView, ...]) -> Mapping[str, int]:
        found = {}
        for view in pools:
            if view.role is not Role.Prefill and (wanted := self._wanted(now, view)) is not None:
                found[view.name] = self._paused(now, view, view.clamp(wanted))
        prefill = (view for view in pools if view.role is Role.Prefill)
        decode = (view for view in pools if view.role is Role.Decode)
        for follower, leader in zip(prefill, decode, strict=False):
            ratio = self._ratios.setdefault(follower.name, self._ratio(follower, leader))
            if leader.name in found:
                found[follower.name] = follower.clamp(replicas_for(found[leader.name] * ratio, 1.0))
        return found

    def _wanted(self, now: float, view: PoolView) -> int | None:
        """Replicas of a pool that makes tokens; None where it is not known how many it makes, or should."""
        made, target = _tokens_per_second(view), self._target(view)
        if made is None or not 0 < target < math.inf:
            return None
        kept = self._tokens.setdefault(view.name, Recent(WINDOW_SECONDS))
        kept.add(now, made)
        ratio = kept.mean / max(1, view.count) / target
        inside = abs(ratio - 1.0) <= self.options.band
        wanted = view.count if inside else replicas_for(kept.mean, target)
        if not self._is_late(view):
            return wanted
        return max(wanted, view.count, replicas_for(view.ready * (1.0 + self.options.more), 1.0))

    def _paused(self, now: float, view: PoolView, wanted: int) -> int:
        """The count, unless the pool has changed in this direction too lately."""
        if wanted == view.count:
            return wanted
        grows = wanted > view.count
        pause = Timer(self.options.pause_up if grows else self.options.pause_down)
        return wanted if self._pauses.setdefault((view.name, grows), pause).due(now) else view.count

    def _target(self, view: PoolView) -> float:
        """Tokens a second that one replica is to make."""
        return self.options.load * view.capacity.each(max(1, view.count)) * view.workload.output_tokens

    def _is_late(self, view: PoolView) -> bool:
        measured, allowed = token_seconds(view), strictest(view.slo.tpot)
        return measured is not None and allowed is not None and measured > self.options.guard * allowed

    def _ratio(self, prefill: PoolView, decode: PoolView) -> float:
        if self.options.ratio is not None:
            return self.options.ratio
        if not (prefill.capacity.is_known and decode.capacity.is_known):
            return 1.0
        return self._at_the_declared_rate(decode) / self._at_the_declared_rate(prefill)

    def _at_the_declared_rate(self, view: PoolView) -> float:
        """Requests a second of one of the replicas that serve the declared rate at the load that is aimed at."""
        aimed_at = view.workload.requests_per_second / self.options.load
        return view.capacity.each(view.capacity.needed(aimed_at))


def _tokens_per_second(view: PoolView) -> float | None:
    """Of all answers together; None where it was not measured."""
    seen = view.observation
    if seen is None or not is_sane(seen.requests_per_second):
        return None
    if not seen.requests_per_second:
        return 0.0
    return seen.requests_per_second * seen.output_tokens if is_sane(seen.output_tokens) else None
