"""How many replicas of a pool had a place at once lately, from which the evictions of others are counted.

What is desired may never have had room, and then nobody could drain a node. What has a place now falls with each
replica that was evicted until the next one has one, and the next eviction would come at once. So it is the most of the
last hour: who drains a node and brings it back is done by then, and a node that never comes back is forgotten.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.pool_memory import Places

if TYPE_CHECKING:
    from weft.domain.status import PoolStatus

REMEMBERED_SECONDS = 3600.0


def places_after(before: Places | None, placed: int, now: float) -> Places:
    """What is known after a pass that leaves so many replicas a place; the same value where that is nothing new."""
    if before is None:
        return Places(now, placed)
    if placed == before.replicas and not before.ended:
        return before
    ended = tuple([each for each in before.ended if each[1] > placed and now - each[0] < REMEMBERED_SECONDS])
    if placed < before.replicas:
        ended = (*ended, (now, before.replicas))
    return before if (placed, ended) == (before.replicas, before.ended) else Places(before.since, placed, ended)


def most_placed(places: Places, status: PoolStatus, desired: int, now: float) -> int | None:
    """The most that had a place within the last hour; None where that is what is `desired`.

    A process that has not seen a whole hour counts no fewer than the one before it did.
    """
    most = max([places.replicas, *(replicas for _, replicas in places.ended)])
    if now - places.since < REMEMBERED_SECONDS:
        most = max(most, status.desired_replicas if status.placed_replicas is None else status.placed_replicas)
    return most if most < desired else None
