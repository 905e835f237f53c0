"""The conditions Ready, Reconciling and Stalled of a split; `conditions` has those of a pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.converge.children import SIDES
from weft.converge.conditions import said_false, stall, suffices
from weft.converge.counterparts import are_strangers
from weft.converge.generations import pair_of_replica
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import Condition

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from weft.converge.children import SideState
    from weft.converge.split_routing import Routing
    from weft.domain.snapshot import SplitRecord


def why_no_requests(sides: Sequence[SideState], routing: Routing | None) -> Explanation | None:
    """What keeps requests from the pairs of a split, or pairs from being whole; None where nothing does."""
    if routing is None:
        return _half(sides)
    return routing.taken or _half(sides) or _never_meet(sides) or _no_front(routing)


def _no_front(routing: Routing) -> Explanation | None:
    """Why no pair has a front that answers; None where one has, or there is no pair."""
    troubles = [routing.trouble[each.pair] for each in routing.pairs]
    return None if None in troubles else next(iter(troubles), None)


def _half(sides: Sequence[SideState]) -> Explanation | None:
    """The half that is missing while the other answers; None where both or neither answer."""
    missing = [side.role.value for side in sides if side.ready == 0]
    if len(missing) != 1:
        return None
    return Explanation(Reason.HalfPair, f"no {missing[0].lower()} replica is ready: nothing is routed to half a pair")


def _never_meet(sides: Sequence[SideState]) -> Explanation | None:
    """That both halves answer, in generations that exchange no KV; None where one has replicas of both."""
    if not are_strangers(sides):
        return None
    paused = any(side.census is not None and side.census.paused for side in sides)
    hint = ", and spec.rollout.paused keeps the earlier ones: unset it" if paused else ""
    told = "no replica that is ready has one of its own generation in the other half"
    return Explanation(Reason.HalfPair, f"{told}: nothing is routed to half a pair{hint}")


@dataclass(frozen=True, slots=True)
class Told:
    """What there is to tell of a split's front: None where there is nothing.

    `refused` is why it cannot be there, `trouble` what keeps requests from pairs, and `awaited` what keeps them from
    those that come, while others serve. `reached` are the pairs that requests reach.
    """

    refused: Explanation | None
    trouble: Explanation | None
    awaited: Explanation | None = None
    reached: frozenset[str] = frozenset()


def split_conditions(
    split: SplitRecord, sides: Sequence[SideState], told: Told, *, paired: bool
) -> tuple[Condition, ...]:
    """Conditions of a split.

    `paired` says that both halves answer behind a front: requests are served then, though perhaps by too few for Ready.
    """
    stalled = stall(split.conditions, split.problem or told.refused)
    counts = _counts(sides, [side.ready for side in sides])
    said = said_false(split.conditions, "Planned") or said_false(split.conditions, "Placed")
    waiting = next((f"; {side.census.waiting}" for side in sides if side.census and side.census.waiting), "")
    starting = said or Explanation(Reason.ReplicasStarting, f"{counts} replicas are ready{waiting}")
    not_ready = told.trouble or (None if paired and _enough_serve(sides, told.reached) else stalled or starting)
    reached = _counts(sides, [min(side.ready, _serving(side, told.reached)) for side in sides])
    serving = Condition("Ready", "True", Explanation(Reason.Serving, f"{reached} replicas serve"))
    found = (Condition("Ready", "False", not_ready) if not_ready is not None else serving,)
    if stalled is not None:
        return (*found, Condition("Stalled", "True", stalled))
    moving = _moving(sides, counts, told.awaited)
    return (*found, Condition("Reconciling", "True", moving)) if moving is not None else found


def _counts(sides: Sequence[SideState], replicas: Sequence[int]) -> str:
    """`2 of 3 prefill, 1 of 1 decode`."""
    return ", ".join(
        f"{count} of {side.census.desired if side.census else 0} {side.role.value.lower()}"
        for side, count in zip(sides, replicas, strict=True)
    )


def _enough_serve(sides: Sequence[SideState], reached: Container[str]) -> bool:
    """Whether each half has as many ready replicas of pairs that are reached as a pool needs to be ready."""
    return all(
        side.pool is not None and side.census is not None and suffices(side.pool, side.census, _serving(side, reached))
        for side in sides
    )


def _serving(side: SideState, reached: Container[str]) -> int:
    return sum(replica.ready and pair_of_replica(replica) in reached for replica in side.replicas)


def _moving(sides: Sequence[SideState], counts: str, awaited: Explanation | None) -> Explanation | None:
    """What is under way in either half; None where nothing is."""
    censuses = [side.census for side in sides if side.census is not None]
    rolling = any((census.outdated or census.undecided) and not census.paused for census in censuses)
    halted = any(census.outdated and census.paused for census in censuses)
    growing = len(censuses) < len(SIDES) or any(census.ready < max(1, census.desired) for census in censuses)
    front = f"; {awaited.message}" if awaited is not None else ""
    claims = (
        (rolling, Reason.RollingOut, f"replicas of an earlier revision are being replaced{front}"),
        (halted, Reason.Paused, "replicas are of an earlier revision, and spec.rollout.paused keeps them: unset it"),
        (growing, Reason.Scaling, f"{counts} replicas are ready"),
        (any(census.leaving for census in censuses), Reason.Draining, "replicas are leaving"),
    )
    return next((Explanation(reason, message) for holds, reason, message in claims if holds), None)
