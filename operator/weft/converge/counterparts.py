"""Which replicas of a split are ready and have no counterpart: generations exchange no KV with each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.converge.generations import pair_of_replica

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.converge.children import SideState


def known_apart(sides: Sequence[SideState]) -> tuple[SideState, ...]:
    """Both sides, each with how many of its ready replicas serve nobody while others serve."""
    shared = frozenset.intersection(*map(_ready_pairs, sides))
    return tuple(replace(side, apart=_ready_beside(side, shared)) for side in sides) if shared else tuple(sides)


def are_strangers(sides: Sequence[SideState]) -> bool:
    """Whether replicas of both sides are ready, and none of a generation that the other side has too."""
    pairs = [_ready_pairs(side) for side in sides]
    return all(pairs) and not frozenset.intersection(*pairs)


def _ready_pairs(side: SideState) -> frozenset[str]:
    return frozenset(pair_of_replica(replica) for replica in side.replicas if replica.ready)


def _ready_beside(side: SideState, shared: frozenset[str]) -> int:
    return sum(replica.ready and pair_of_replica(replica) not in shared for replica in side.replicas)
