"""Which replicas of a new pair serve while a split rolls: as many as the other half has for them.

Generations of a split never talk to each other, so a prefill replica of the new one serves nobody before a decode
replica of it does. As the earlier ones leave only while enough others serve, both halves roll in step. Of an earlier
pair nobody comes any more: what is left of it in one half alone never serves again, and goes.

Nor does a pair serve before its front answers: routers of its own or, behind a Gateway, the endpoint picker, which is
shown one generation at a time, the next one once it is whole. Between the two, whichever answers first is the front.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.course import Turn
    from weft.decide.replicas.health import AssignedReplica


def alone_in(turns: Sequence[Turn]) -> frozenset[tuple[str, int]]:
    """(Pool UID, replica id) of ready replicas that have no counterpart, or not yet; nothing but in a rollout.

    Of a half with n desired replicas floor(n m / M) serve while the other has m of M: rounded up, the earlier pair
    would lose a half while the new one is not able to take its load.
    """
    unmatched = unmatched_in(turns)
    if not _are_matched(turns):
        return unmatched
    return unmatched | _beyond_counterparts(turns) | (_beyond_fronts(turns) or frozenset())


def unmatched_in(turns: Sequence[Turn]) -> frozenset[tuple[str, int]]:
    """Those of them whose pair has nobody at all in the other half, who could answer: no request reaches them."""
    if _are_matched(turns):
        return _bereft(turns)
    if not any(map(rolls_as_a_pair, turns)):
        return frozenset()
    beyond = _beyond_fronts(turns)
    return _not_shown(turns) if beyond is None else beyond


def _are_matched(turns: Sequence[Turn]) -> bool:
    """Whether generations roll side by side; a picker is shown one at a time instead."""
    shown_whole = all(turn.planned.spec.has_sidecar for turn in turns)
    return not shown_whole and any(map(rolls_as_a_pair, turns))


def _beyond_counterparts(turns: Sequence[Turn]) -> frozenset[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for turn, other in zip(turns, reversed(turns), strict=True):
        new, matched = _new(turn), len(_new(other))
        most = len(new) if matched >= other.scale.desired else turn.scale.desired * matched // other.scale.desired
        found.update((turn.planned.pool.key.uid, each.assignment.replica) for each in new[most:])
    return frozenset(found)


def _beyond_fronts(turns: Sequence[Turn]) -> frozenset[tuple[str, int]] | None:
    """Ready replicas of pairs that no front takes requests to, where one does to a pair that is left.

    While routers are there and none answers, those of the pair that comes: the earlier ones were reached before. None
    where nothing is known of fronts.
    """
    ready = [(turn, each) for turn in turns for each in turn.survivors.replicas if each.ready]
    fronted = frozenset[str]().union(*(fronted_by(turn) for turn in turns))
    if any(pair_of_replica(each, turn) in fronted for turn, each in ready):
        beyond = ((turn, each) for turn, each in ready if pair_of_replica(each, turn) not in fronted)
    elif any(turn.routers.are_there for turn in turns):
        beyond = ((turn, each) for turn, each in ready if not is_earlier(each, turn))
    else:
        return None
    return frozenset((turn.planned.pool.key.uid, each.assignment.replica) for turn, each in beyond)


def fronted_by(turn: Turn) -> frozenset[str]:
    """The pairs that a front takes requests to in a rollout: by a router that answers, or by a route that is taken."""
    pool = turn.planned.pool
    return turn.routers.answering | (frozenset({pool.shown}) if pool.shown and pool.route_taken else frozenset())


def waits_for_its_front(turn: Turn) -> bool:
    """Whether replicas of the planned pair answer, and a front takes requests to an earlier pair alone, or may."""
    pair, is_known = turn.planned.spec.pair, turn.routers.are_there or bool(fronted_by(turn))
    return is_known and rolls_as_a_pair(turn) and pair not in fronted_by(turn) and bool(_new(turn))


def _bereft(turns: Sequence[Turn]) -> frozenset[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    for turn, other in zip(turns, reversed(turns), strict=True):
        earlier = {pair_of_replica(each, other) for each in other.survivors.replicas if is_earlier(each, other)}
        met = earlier | ({other.planned.spec.pair} if _new(other) else set())
        ready = (each for each in turn.survivors.replicas if each.ready and pair_of_replica(each, turn) not in met)
        found.update((turn.planned.pool.key.uid, each.assignment.replica) for each in ready)
    return frozenset(found)


def rolls_as_a_pair(turn: Turn) -> bool:
    """Whether replicas of an earlier pair are left, without a call for each: every pass asks it of every half."""
    pair = turn.planned.spec.pair
    return bool([each for each in turn.survivors.replicas if each.pods and each.pods[0].pair != pair])


def _not_shown(turns: Sequence[Turn]) -> frozenset[tuple[str, int]]:
    """Ready replicas of every generation but the one that an endpoint picker is shown.

    Those of the current one where nobody knows which that is, or none of it is left.
    """
    shown = turns[0].planned.pool.shown
    ready = [(turn, each) for turn in turns for each in turn.survivors.replicas if each.ready]
    known = any(pair_of_replica(each, turn) == shown for turn, each in ready)
    return frozenset(
        (turn.planned.pool.key.uid, each.assignment.replica)
        for turn, each in ready
        if (pair_of_replica(each, turn) != shown if known else not is_earlier(each, turn))
    )


def pair_of_replica(replica: AssignedReplica, turn: Turn) -> str:
    """The pair that a replica was rendered for, or will be."""
    return replica.pods[0].pair if replica.pods else turn.planned.spec.pair


def _new(turn: Turn) -> list[AssignedReplica]:
    return [each for each in turn.survivors.replicas if each.ready and not is_earlier(each, turn)]


def is_earlier(replica: AssignedReplica, turn: Turn) -> bool:
    """Whether it was rendered for another pair; one without pods will be for this one."""
    return bool(replica.pods) and replica.pods[0].pair != turn.planned.spec.pair
