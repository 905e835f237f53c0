"""What keeps a pool from shrinking: claims in order, of which the first that holds is the reason; and how far it may.

A count and its explanation ask the same claims, so that a pool which stays says what kept it. What holds a count in
both directions (the bounds, `freezeUntil`, `maxStep`) is in `settle`.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import counted
from weft.scaling.sight import GAP_SECONDS

if TYPE_CHECKING:
    from weft.scaling.demand import Want
    from weft.scaling.sight import Sight

Held = tuple[Explanation, float | None]  # why a count stays, and after how many seconds time alone may change it


def fewest_now(sight: Sight, want: Want) -> int:
    """How far a pool may shrink now: not at all while anything keeps it, else to the highest want of the last window.

    Nor does it go below what serves the requests that come now: a burst that is over before a start is a reason to
    order nothing, and none to let go of what runs.
    """
    current = sight.request.current
    if what_keeps_it(sight, want) is not None:
        return current
    return min(current, max([want.serving, *[wanted for _, wanted in sight.memory.wanted]]))


def what_keeps_it(sight: Sight, want: Want) -> Held | None:
    """Why a pool that needs fewer replicas keeps all that it has, or None."""
    return next((held for claim in _CLAIMS if (held := claim(sight, want)) is not None), None)


def some_metrics_are_missing(sight: Sight, want: Want) -> Held | None:
    """No metrics, no scale-down (rule S5): what is seen is then a lower bound of what comes."""
    return None if want.may_shrink else (missing(sight, "some replicas or metrics are missing"), None)


def no_whole_window_was_seen(sight: Sight, _: Want) -> Held | None:
    """Metrics were not complete for `scaleDownDelay` without a gap: since a start, a restart of ours, or a fault."""
    now, since, delay = sight.request.now, sight.memory.since, sight.request.spec.scale_down_delay_seconds
    if now - since >= delay:
        return None
    message = f"no scale-down until metrics were seen for {delay:g} s without a gap"
    return Explanation(Reason.HoldAfterStart, message), since + delay - now


def as_many_were_needed_lately(sight: Sight, want: Want) -> Held | None:
    """Within the last window, or now, traffic needed as many replicas as there are, or would have by chance alone.

    Demand that rises beyond chance counts as needing all of them: how much comes is not known yet.
    """
    request, delay = sight.request, sight.request.spec.scale_down_delay_seconds
    needed = [at for at, count in sight.memory.with_chance if count >= request.current]
    if want.rises or want.serving >= request.current:
        needed.append(request.now)
    if not needed:
        return None
    expires = max(needed) + delay - request.now
    if expires > delay / 2:  # demand that hovers between two counts needs the larger one: that is steady
        return steady(request.current), expires
    fell = f"{want.limited}: need" if want.limited else "demand"
    message = f"{fell} fell below {counted(request.current, 'replica')}, but not yet for {delay:g} s"
    return Explanation(Reason.HoldStabilizing, message), expires


_CLAIMS = (some_metrics_are_missing, no_whole_window_was_seen, as_many_were_needed_lately)


def missing(sight: Sight, what: str) -> Explanation:
    """The explanation while metrics are missing; for a gap of seconds the previous one stands."""
    request, seen = sight.request, sight.memory.seen
    if request.previous is not None and seen is not None and request.now - seen <= GAP_SECONDS:
        return request.previous
    return Explanation(Reason.HoldMetricsMissing, f"{what}: holding {counted(request.current, 'replica')}")


@functools.lru_cache(maxsize=1024)  # counts
def steady(replicas: int) -> Explanation:
    """The explanation of a count that is what demand needs."""
    return Explanation(Reason.Steady, f"demand needs {counted(replicas, 'replica')}")
