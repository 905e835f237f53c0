"""Which nodes come last for the next replicas of a pool: those that did not take or start one of its last.

Why that was is often nothing that Weft can see, and a replica that fits best may fit best there again. It is a wish:
where nothing else has room they are taken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.status import MOST_AVOIDED, Avoided
from weft.domain.texts.figures import some_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.course import Turn
    from weft.decide.replicas.health import Loss

AVOIDED_SECONDS = 3600.0
_NAMED = 2


def avoided_by(turn: Turn, now: float) -> tuple[Avoided, ...]:
    """The nodes that a pool avoids after this pass, the latest first; none where another scheduler picks them."""
    if turn.asked is not None:
        return ()
    return avoided_after(turn.planned.pool.status.avoided, turn.survivors.losses, now)


def avoided_after(before: tuple[Avoided, ...], losses: Sequence[Loss], now: float) -> tuple[Avoided, ...]:
    """The avoided nodes of the last hour, with those of replicas that are lost now, which crowd out the oldest.

    A time in the future (the clock was set back) counts as now.
    """
    if not before and not losses:
        return before
    new = {node: Avoided(node, now, loss.explanation.reason) for loss in losses for node in loss.suspects}
    known = [each if each.since <= now else replace(each, since=now) for each in before if each.node not in new]
    recent = [each for each in known if now - each.since < AVOIDED_SECONDS]
    most = sorted(new.values(), key=_latest_first)[:MOST_AVOIDED]
    kept = sorted(recent, key=_latest_first)[: MOST_AVOIDED - len(most)]
    return tuple(sorted((*most, *kept), key=_latest_first))


def _latest_first(each: Avoided) -> tuple[float, str]:
    return -each.since, each.node


def come_last(avoided: Sequence[Avoided]) -> str:
    """The words to add to a failure, such as `; other nodes than b-0 come first`; empty where no node is avoided."""
    if not avoided:
        return ""
    return f"; other nodes than {some_of([each.node for each in avoided], _NAMED)} come first"
