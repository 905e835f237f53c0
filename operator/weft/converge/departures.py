"""Which replicas of a pool leave now, and which are kept a moment longer for a front that may still choose them."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

from weft.converge.draining import retire, stuck_in_seconds
from weft.converge.engine_fronts import engine_of
from weft.converge.generations import kept_for_their_front, pair_of_replica, router_overdue_in_seconds
from weft.converge.leaving import Leaver, WayToLeave
from weft.domain.action import ForgetWorker
from weft.domain.crews import routers_before
from weft.domain.spec import RouterKind
from weft.engines import LeavesBy, adapter_for, engine_label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.converge.engine_fronts import EngineFronts
    from weft.converge.observed_pool import ObservedPool
    from weft.converge.replicas import Replica
    from weft.domain.action import Action
    from weft.domain.shape import EngineName
    from weft.domain.snapshot import PoolRecord

    _Front = tuple[EngineName | None, str]


@dataclass(frozen=True, slots=True)
class Departures:
    """Which replicas leave: `free_to_go` are all but those kept for a front.

    Assigned replicas are among them: nothing is done to these while they are whole. `finishing` is how many leave and
    have requests left. After `changes_after_seconds` the answer changes by itself; infinite where it does not.
    """

    free_to_go: tuple[Leaver, ...]
    finishing: int
    changes_after_seconds: float

    @classmethod
    def of(cls, observed: ObservedPool, fronts: EngineFronts | None) -> Departures:
        """Departures by replicas, routers and nodes now; none is kept that could not finish before its node goes."""
        pool, replicas, now = observed.pool, observed.replicas, observed.heard.now
        kept = kept_for_their_front(pool, replicas, observed.pods, now)
        kept += fronts.kept(pool, replicas, observed.pods, now) if fronts is not None else ()
        ways = _ways_to_leave(observed)
        may_stay = {each.number for each in kept}
        leavers = [Leaver(each, observed.fabric, ways[_front_of(pool, each)]) for each in replicas]
        spare = {each.replica.number: each.spare_seconds for each in leavers if each.replica.number in may_stay}
        lasting = {number: seconds for number, seconds in spare.items() if seconds > 0.0}
        free = tuple(each for each in leavers if each.replica.number not in lasting)
        finishing = [each for each in free if each.finishes]
        ends = [each.ends_in_seconds for each in finishing]
        ends += [stuck_in_seconds(each, now) for each in replicas]
        if lasting:
            ends += [router_overdue_in_seconds(pool, observed.pods, now), *lasting.values()]
        return cls(free, len(finishing), min(ends, default=inf))

    def actions(self) -> tuple[Action, ...]:
        """Actions that take leaving replicas out of their front, and then delete their pods.

        The first are those that have no time for routers, all of them before any router is asked: one that is slow to
        answer may take seconds for each.
        """
        hurried: list[Action] = []
        others: list[Action] = []
        for each in self.free_to_go:
            found = hurried if each.hurries_from_routers else others
            found.extend(retire(each))
        return (*sorted(hurried, key=lambda each: isinstance(each, ForgetWorker)), *others)


def _ways_to_leave(observed: ObservedPool) -> dict[_Front, WayToLeave]:
    """The way in which replicas leave, by the engine that they run (None where it is not known) and their pair."""
    fronts = {_front_of(observed.pool, replica) for replica in observed.replicas}
    return {front: _way_to_leave(observed, front) for front in fronts}


def _way_to_leave(observed: ObservedPool, front: _Front) -> WayToLeave:
    engine, pair = front
    way = WayToLeave.of(observed.pool.spec, _heeded(observed, engine), observed.heard)
    if engine is None or way.leaves_by is not LeavesBy.Asking:
        return way
    port = adapter_for(engine).port  # that of its router, too
    return way.asking(tuple(_routers_to_ask(observed, engine, pair, port)), port)


def _routers_to_ask(observed: ObservedPool, engine: EngineName, pair: str, port: int) -> Iterator[tuple[str, str]]:
    """(UID, address) of the routers of an engine and a pair that get requests: no Service leads to others."""
    for pod in routers_before(observed.pool, observed.pods):
        gets_requests = pod.ready and pod.ip and not (pod.ended or pod.terminating)
        if gets_requests and pod.engine in {"", engine_label(engine)} and pod.pair in {"", pair}:
            yield pod.uid, f"{pod.ip}:{port}"


def _front_of(pool: PoolRecord, replica: Replica) -> _Front:
    """What tells the front of a replica from others before the pool: its engine, and in a split its pair."""
    release = pool.status.engine
    return engine_of(replica, release.name) if release is not None else None, pair_of_replica(replica)


def _heeded(observed: ObservedPool, engine: EngineName | None) -> LeavesBy | None:
    """What the front reacts to; None where no front is known that sees a label go, and clients may keep connections."""
    leaves_by = _leaves_by(observed.pool, engine)
    at_a_gateway = observed.pool.router_kind is RouterKind.Gateway
    heeded = at_a_gateway or any(not pod.ended for pod in routers_before(observed.pool, observed.pods))
    return leaves_by if heeded or leaves_by is LeavesBy.Asking else None


def _leaves_by(pool: PoolRecord, engine: EngineName | None) -> LeavesBy:
    """What the front of an engine reacts to, the removal of a label or being asked.

    Endpoint pickers drop a pod that their InferencePool does not select any more, whatever it runs.
    """
    at_a_gateway = pool.router_kind is RouterKind.Gateway
    return LeavesBy.Label if engine is None or at_a_gateway else adapter_for(engine).leaves_front_by
