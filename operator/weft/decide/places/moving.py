"""Moves that are under way: who leaves its place for whom, and what is kept for them meanwhile.

Only who moves for whom is persisted. Whether that still opens a slot is asked anew in each pass, so a move that helps
nobody any more is called off by itself: its replica stays, and a successor that is there already leaves instead.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.decide.replicas.promises import has_joined, holder_name
from weft.decide.rollouts.drains import displacement
from weft.domain.reasons import Explanation, Reason
from weft.engines.kv.host_memory import pod_needs
from weft.placement import Hold, Movable, Requirements, Slot, repack, still_opens

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from weft.decide.course import Turn
    from weft.domain.cluster import PodIdentity
    from weft.domain.fabric import Fabric
    from weft.domain.moves import Relocation
    from weft.domain.status import Assignment
    from weft.placement import FreeMap, Repacking

NAMED = 2


@dataclass(frozen=True, slots=True)
class Mover:
    """A replica that makes room: it stays until it has a successor, or `drains` already."""

    turn: Turn
    replica: int
    movable: Movable
    drains: bool

    @property
    def key(self) -> tuple[str, int]:
        """The UID of its pool, and the replica's id."""
        return self.turn.planned.pool.key.uid, self.replica


@dataclass(frozen=True, slots=True)
class Moves:
    """What moves bind in one pass.

    `leaving` are replicas by UID of the pool and id, each with the reason; `kept` are GPUs by UID of the only pool that
    may have them; `awaited` says by UID of the pool what it waits for, `opening` at which nodes.
    """

    leaving: dict[tuple[str, int], Explanation] = field(default_factory=dict)
    kept: dict[str, list[Hold]] = field(default_factory=lambda: defaultdict(list))
    awaited: dict[str, Explanation] = field(default_factory=dict)
    opening: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def bind(self, turn: Turn) -> bool:
        """Whether a pool makes room for another, waits for room, or has room kept for it."""
        uid = turn.planned.pool.key.uid
        return bool(turn.planned.pool.status.moves) or uid in self.kept or uid in self.awaited

    def keep(self, turn: Turn, nodes: dict[str, int], free: FreeMap) -> None:
        """Reserve GPUs by node for one pool."""
        pool = turn.planned.pool
        for node, gpus in nodes.items():
            hold = Hold(node, gpus, f"moves for {holder_name(pool)}")
            free.reserve(hold)
            self.kept[pool.key.uid].append(hold)


def moves_under_way(turns: Sequence[Turn], free: FreeMap) -> Moves:
    """The moves that still open a slot for a pool that lacks replicas; what they need is reserved in `free`."""
    moves = Moves()
    movers = _movers(turns, free.fabric)
    for turn in turns:
        leaving = movers.get(turn.name)
        if leaving is None or not _lacks_replicas(turn, free):
            continue
        if (fits := repack(required_of(turn), (), free, 0)) is not None:
            _bind(moves, turn, (), fits, free)
        elif (opened := _still_opened(turn, leaving, free)) is not None:
            _bind(moves, turn, leaving, opened, free)
    return moves


def _still_opened(turn: Turn, leaving: Sequence[Mover], free: FreeMap) -> Repacking | None:
    """What the moves still open for the pool; None where that is no slot, or its nodes are not known.

    In the latter case the move is decided anew.
    """
    replaced = {each.movable.owner for each in leaving if each.drains or _has_successor(each, leaving, free)}
    slot = Slot(turn.planned.pool.status.opening)
    return still_opens((required_of(turn), slot), [each.movable for each in leaving], replaced, free)


def required_of(turn: Turn) -> Requirements:
    """What one more replica of the pool requires of its place."""
    planned = turn.planned
    return Requirements(planned.plan.shape, planned.spec.placement, pod_needs(planned.spec, planned.plan))


def owner_of(turn: Turn, replica: int) -> str:
    """How messages name a replica that moves."""
    return f"replica {replica} of {turn.name}"


def makes_room_for(turn: Turn) -> Explanation:
    """Why a replica moves for the sake of this pool."""
    return Explanation(Reason.MakesRoom, f"it makes room for {holder_name(turn.planned.pool)}")


def waits_until_they_moved(owners: Iterable[str]) -> Explanation:
    """Why a pool is not placed yet."""
    every = sorted(owners)
    more = f" and {len(every) - NAMED} more" if len(every) > NAMED else ""
    named = (", " if more else " and ").join(every[:NAMED])
    return Explanation(Reason.MovesUnderWay, f"waits for {named}{more} to move away")


def _movers(turns: Sequence[Turn], fabric: Fabric) -> dict[str, list[Mover]]:
    """Movers by the name of the pool that gets their place: all that still hold it, none where the last is gone.

    Those for a pool that has had a replica placed since have done what they were for. A replica whose move was called
    off and began again is told twice within the hour, and leaves one place: that for which it was told last.
    """
    placed = {turn.name: max(map(_since, turn.planned.pool.status.assignments), default=0.0) for turn in turns}
    found: dict[str, list[Mover]] = {}
    for turn in turns:
        required = required_of(turn)
        for relocation in {each.replica: each for each in turn.planned.pool.status.moves}.values():
            if relocation.since >= placed.get(relocation.beneficiary, math.inf):
                mover = _mover(turn, relocation, required, fabric)
                found.setdefault(relocation.beneficiary, []).extend([mover] if mover else [])
    return found


def _mover(turn: Turn, relocation: Relocation, required: Requirements, fabric: Fabric) -> Mover | None:
    """The mover of a told move; None once nothing of it is left, or where a rollout replaces it anyway."""
    replica, revision = relocation.replica, turn.planned.revision
    there = [each.assignment for each in turn.survivors.replicas if each.assignment.replica == replica]
    pods = [(pod.node, pod.identity) for pod in turn.left if pod.holds_devices]
    drained = [node for node, identity in pods if node and identity and _is(identity, replica, revision)]
    nodes = (*drained, *(node for each in there if each.revision == revision for node in each.nodes))
    if not nodes:
        return None
    promised = any(each.compute_domain is not None for each in there)
    joins = int(promised or all(has_joined(turn.planned.pool, replica, node, fabric) for node in nodes))
    return Mover(turn, replica, Movable(owner_of(turn, replica), required, nodes, joins), drains=not there)


def _since(assignment: Assignment) -> float:
    return assignment.since


def _is(identity: PodIdentity, replica: int, revision: str) -> bool:
    return (identity.replica, identity.revision) == (replica, revision)


def _lacks_replicas(turn: Turn, free: FreeMap) -> bool:
    return turn.asked is None and len(_staying(turn, free)) < turn.scale.desired


def _staying(turn: Turn, free: FreeMap) -> set[int]:
    """Replicas of the revision that is planned, on nodes that stay."""
    stranded = {each.replica for each in turn.survivors.stranded}
    return {
        number
        for each in turn.survivors.replicas
        if each.assignment.revision == turn.planned.revision
        and displacement(each, free.fabric, waits_for_a_node=(number := each.assignment.replica) in stranded) is None
    }


def _has_successor(mover: Mover, movers: Sequence[Mover], free: FreeMap) -> bool:
    """Whether there is a successor for this one: replicas beyond those that its pool keeps are for its first movers."""
    moving = [each.replica for each in movers if each.turn is mover.turn and not each.drains]
    present = _staying(mover.turn, free)
    kept = mover.turn.scale.desired - len(present & set(moving))
    return moving.index(mover.replica) < len(present - set(moving)) - kept


def _bind(moves: Moves, turn: Turn, movers: Sequence[Mover], opened: Repacking, free: FreeMap) -> None:
    gone: Counter[str] = Counter()
    for each in movers:
        gone.update(dict.fromkeys(each.movable.nodes, each.movable.gpus_per_pod))
    gpus = turn.planned.plan.shape.gpus_per_pod
    by_owner = {each.movable.owner: each for each in movers}
    moves.keep(turn, {node: lack for node in opened.slot.nodes if (lack := gpus - gone[node]) > 0}, free)
    for move in opened.moves:
        moves.keep(by_owner[move.owner].turn, dict.fromkeys(move.target, move.gpus_per_pod), free)
    for mover in movers:
        moves.leaving[mover.key] = makes_room_for(turn)
    if movers:
        moves.awaited[turn.planned.pool.key.uid] = waits_until_they_moved(by_owner)
        moves.opening[turn.planned.pool.key.uid] = opened.slot.nodes


def still_told(turn: Turn, moves: Moves, now: float) -> Iterator[Relocation]:
    """The moves that the status keeps: those of the last hour, and those that are under way."""
    uid = turn.planned.pool.key.uid
    for relocation in turn.planned.pool.status.moves:
        if relocation.is_recent(now) or (uid, relocation.replica) in moves.leaving:
            yield relocation
