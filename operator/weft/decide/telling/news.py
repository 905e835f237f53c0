"""Which conditions of a decision deserve an event: what `kubectl describe` shows of a pool that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weft.domain.reasons import Explanation, Reason
from weft.domain.status import FALSE, TRUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.domain.decision import PoolDecision, SplitDecision
    from weft.domain.status import Condition

_TOLD = ("Planned", "Placed")
# These end by themselves, so that nobody has to be warned.
_PASSES = frozenset({Reason.WaitingForQuota, Reason.MovesUnderWay, Reason.Preempting, Reason.BackingOff})


class News(NamedTuple):
    """What changed, and whether somebody should look at it."""

    explanation: Explanation
    warns: bool


def news_of(before: Iterable[Condition], decision: PoolDecision | SplitDecision) -> Iterator[News]:
    """Conditions that are False now, for another reason than before, and those that hold again.

    `before` are those of the status that the decision replaces. What its own events tell is not told again.
    """
    known = {each.kind: each for each in before}
    told = {event.reason for event in decision.events}
    for now in decision.conditions:
        if now.kind not in _TOLD or now.explanation.reason in told:
            continue
        was = known.get(now.kind)
        failed = was.explanation.reason if was is not None and was.status == FALSE else None
        if now.status == FALSE and now.explanation.reason is not failed:
            yield News(now.explanation, now.explanation.reason not in _PASSES)
        elif now.status == TRUE and failed is not None:
            yield News(now.explanation, warns=False)
