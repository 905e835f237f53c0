"""Whom a mistake of ours is about that came up in what pools do together: who makes deciding fail by taking part.

Places, moves and quotas are shared out between all, and a step of that which fails cannot say over whom. So others ask
again with fewer of them: those who get what is scarce before the first one with whom it fails do without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.order import in_order
from weft.domain.reasons import Explanation, Reason
from weft.domain.stumbling import Stumbled, left_as_they_are

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.domain.snapshot import Snapshot

_SET_ASIDE = Explanation(Reason.HoldNotPlanned, "set aside, to see whether others can be decided on")


def whose(error: Exception, snapshot: Snapshot, attempt: Callable[[Snapshot], Exception | None]) -> Stumbled | None:
    """The first in order with whom deciding fails though it goes well with all before; None if it is none of them.

    `attempt` decides on a moment and gives what went wrong: with all of them that is `error`. It is asked once, and
    once for each halving of those who may be meant.
    """
    suspects = _suspects(snapshot)
    if not suspects or attempt(_without([uid for each in suspects for uid in each], snapshot)) is not None:
        return None
    well, fails = 0, len(suspects)
    while fails - well > 1:
        middle = (well + fails) // 2
        found = attempt(_without([uid for each in suspects[middle:] for uid in each], snapshot))
        well, fails, error = (middle, fails, error) if found is None else (well, middle, found)
    return error if isinstance(error, Stumbled) else Stumbled(suspects[fails - 1], error)


def _suspects(snapshot: Snapshot) -> list[tuple[str, ...]]:
    """UIDs of who takes part, both halves of a split as one, in the order in which they get what is scarce."""
    units = in_order(snapshot.pools, snapshot.splits)
    of_pools = [tuple(pool.key.uid for pool in unit) for unit in units if any(pool.spec is not None for pool in unit)]
    halved = {pool.split_uid for pool in snapshot.pools}
    return of_pools + [(each.key.uid,) for each in snapshot.splits if each.key.uid not in halved]


def _without(uids: Iterable[str], snapshot: Snapshot) -> Snapshot:
    return left_as_they_are(snapshot, dict.fromkeys(uids, _SET_ASIDE))
