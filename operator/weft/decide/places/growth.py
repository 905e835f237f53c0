"""Place the new replicas of one unit: a pool, or both halves of a split kept in step."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.counting.accounts import has_no_room
from weft.decide.replicas.promises import holds_of
from weft.decide.replicas.slots import NOTHING, slot_with, suppose_taken
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import Assignment, ComputeDomain
from weft.engines.kv.host_memory import pod_memory
from weft.engines.kv.nvlink import over_nvlink
from weft.placement import ALONE, Hold, Neighbours, PlacementRefusal, Slot, cliques_of, compute_domain_of
from weft.render import shared_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.decide.course import Growth
    from weft.decide.plans.planning import Planned
    from weft.domain.fabric import Fabric
    from weft.domain.spec import PlacementSpec
    from weft.domain.status import Handover
    from weft.placement import FreeMap


def behind(growths: Sequence[Growth]) -> Growth | None:
    """The half that is further behind, among those that want more; None where none does."""
    return min((growth for growth in growths if growth.wants_more), key=lambda growth: growth.fill, default=None)


def grow(growths: Sequence[Growth], free: FreeMap, now: float) -> bool:
    """Place one replica, for the half that is further behind; whether another one is wanted.

    When one half has no slot left, the other stops where it would get ahead: GPUs of half a pair serve nobody. Where
    both have to be in one rack neither comes without the other, as the first would be bound to a rack without room. Nor
    does the first of a pair for which the other half has no room, as a pause or the limits of the rollout make none.
    """
    first = _goes_first(growths)
    if first is None:
        return False
    refused = [other for other in growths if other.refusal is not None]
    stuck = [other for other in refused if other.fill <= first.fill or other.needs_both]
    if (why := _serves_nobody(first, growths)) is not None:
        first.refusal = why
    elif stuck:
        other = stuck[0].waits_for or stuck[0]
        first.refuse(_held_back(other), other)
    elif (left_out := _left_out(first, growths, free)) is not None:
        first.refuse(_held_back(left_out), left_out)
    else:
        _place_one(first, growths, free, now)
    return any(growth.wants_more for growth in growths)


def _goes_first(growths: Sequence[Growth]) -> Growth | None:
    """The half that is further behind; before that, one that lacks what the other half has of a new pair."""
    first = behind(growths)
    if first is None or first.starts_a_pair:
        return first
    return next((each for each in growths if each.starts_a_pair and each.wants_more), first)


def _serves_nobody(first: Growth, growths: Sequence[Growth]) -> Explanation | None:
    """Why the next replica of a half that has some would find no counterpart; None where it does.

    One that has none is given one all the same: the earlier pair serves no more, and unsetting the pause is quick then.
    """
    if not first.kept:
        return None
    if first.hidden:
        told = "a new replica would serve nobody, as the Gateway sends requests to the earlier ones"
        return Explanation(Reason.Paused, f"{told}, which spec.rollout.paused keeps: unset it")
    other = next((each for each in growths if each is not first and each.starts_a_pair), None)
    if other is None or other.wants_more or other.refusal is not None:
        return None
    role = other.planned.spec.role.value
    told = f"a new replica is of the changed spec and would serve nobody, as spec.rollout.paused keeps the {role} half"
    return Explanation(Reason.Paused, f"{told} as it is: unset it")


def _left_out(first: Growth, growths: Sequence[Growth], free: FreeMap) -> Growth | None:
    """The half without a replica that has no place, in its NVLink domain, once the first of the other half is there.

    A half counts as without one where those that it has are of an earlier pair, which does not leave before.
    """
    begins = _begins(first) and (first.needs_both or first.planned.spec.placement.nvlink_domain)
    other = next((each for each in growths if begins and each is not first and _begins(each)), None)
    found = place(first, free, ALONE) if other is not None else None
    if other is None or not isinstance(found, Slot):
        return None
    with free.supposing():
        suppose_placed(first, found, free)
        beside = place(other, free, ALONE)
    if not isinstance(beside, PlacementRefusal):
        return None
    told = beside.explanation.message
    if first.needs_both:
        told = f"{told}, beside the first {first.planned.spec.role.value} replica of the changed spec"
    other.refusal = replace(beside.explanation, message=told)
    return other


def _begins(growth: Growth) -> bool:
    """Whether its next replica is the first of its pair."""
    return growth.is_empty or (growth.needs_both and growth.wants_more)


def add_one(growth: Growth, unit: Sequence[Growth], free: FreeMap, now: float, *, avoiding: tuple[str, ...]) -> bool:
    """Place one replica more than is desired, on other nodes than these where it can be; whether there is room."""
    growth.avoided = (*growth.avoided, *avoiding)
    _place_one(growth, unit, free, now)
    placed = growth.refusal is None
    growth.refusal = None
    return placed


def explain_again(growths: Sequence[Growth], free: FreeMap) -> None:
    """Restate the refusals once everybody is placed: the next pass will see the fabric as it is then."""
    for growth in growths:
        if growth.lacks_room and growth.waits_for is None and growth.asked is None:
            found = _try(growth, growth.planned.spec.placement, free, ALONE)
            growth.refusal = found.explanation if isinstance(found, PlacementRefusal) else growth.refusal
    for growth in growths:
        if growth.waits_for is not None:
            growth.refusal = _held_back(growth.waits_for)


def _held_back(other: Growth) -> Explanation:
    refusal = other.refusal or Explanation(Reason.NoSlot, "")
    reason, lacks = (refusal.reason, "budget") if refusal.reason is Reason.BudgetExhausted else (Reason.NoSlot, "place")
    half = other.planned.spec.role.value
    return Explanation(reason, f"waits because the {half} half has no {lacks}: {refusal.message}")


def _place_one(growth: Growth, unit: Sequence[Growth], free: FreeMap, now: float) -> None:
    planned = growth.planned
    if (short := growth.accounts.short(_paid_together(growth, unit))) is not None:
        growth.refusal = has_no_room(short)
        return
    if growth.asked is not None:
        _hand_over_one(growth, growth.asked, free, now)
        return
    near = planned.spec.kv.locality != "Any"
    partners = tuple(node for other in unit if near and other is not growth for node in other.nodes)
    found = place(growth, free, Neighbours(growth.nodes, partners))
    if isinstance(found, PlacementRefusal):
        growth.refusal = found.explanation
        return
    assignment = assign(growth, found.nodes, free.fabric, now)
    growth.add(assignment)
    for kept in (growth.spares, growth.opened):
        for hold in [hold for hold in kept if hold.node in found.nodes]:
            kept.remove(hold)
            free.release(hold)
    for hold in holds_of(planned.pool, assignment, free.fabric, pod_memory(planned.spec, planned.plan)):
        free.reserve(hold)


def _hand_over_one(growth: Growth, asked: Handover | Explanation, free: FreeMap, now: float) -> None:
    """Add a replica without promising it GPUs: what its pods hold counts once they are bound, as for anyone's pods."""
    if isinstance(asked, Explanation):
        growth.refusal = asked
    else:
        growth.add(replace(assign(growth, (), free.fabric, now), handover=asked))


def _paid_together(growth: Growth, unit: Sequence[Growth]) -> list[Planned]:
    """The pools that pay for a replica together: this one; for its first replica, every half that has none."""
    if not _begins(growth):
        return [growth.planned]
    return [each.planned for each in unit if _begins(each)]


def place(growth: Growth, free: FreeMap, neighbours: Neighbours, *, tells: bool = True) -> Slot | PlacementRefusal:
    """A slot for one replica: on free GPUs; else on what the pool's leaving pods hold, and for a replacement on spares.

    Pods in a place that is still held wait behind their gates until it is free. `tells` is as in `find_slot`.
    """
    without = [Hold(node, -free.on(node), "") for node in growth.avoided]
    if without and isinstance(slot := _try(growth, growth.planned.spec.placement, free, neighbours, without), Slot):
        return slot
    placement, is_replacement = growth.planned.spec.placement, len(growth.added) < len(growth.replaced)
    refused = found = _try(growth, placement, free, neighbours, tells=tells)
    for wish in (placement, *([replace(placement, spare_nodes_per_domain=0)] if is_replacement else [])):
        if isinstance(found, PlacementRefusal) and wish is not placement:
            found = _try(growth, wish, free, neighbours, tells=tells)
        if isinstance(found, PlacementRefusal) and growth.vacated(free):
            found = _try(growth, wish, free, neighbours, growth.vacated(free), tells=tells)
    return refused if isinstance(found, PlacementRefusal) else found


def lacks_room_for(replicas: int, growth: Growth, free: FreeMap) -> Explanation | None:
    """Why so many more have no place at once; None where they have."""
    with free.supposing():
        for _ in range(replicas):
            found = place(growth, free, ALONE)
            if isinstance(found, PlacementRefusal):
                return found.explanation
            suppose_placed(growth, found, free)
    return None


def _try(  # noqa: PLR0913 - who looks, for what, where and how
    growth: Growth,
    placement: PlacementSpec,
    free: FreeMap,
    neighbours: Neighbours,
    more: Sequence[Hold] = NOTHING,
    *,
    tells: bool = True,
) -> Slot | PlacementRefusal:
    """Look for a slot as if what is kept for the pool were free, and `more` were too.

    Spares among that are left alone as far as `placement` says.
    """
    holds = (*growth.spares, *growth.opened, *more)
    return slot_with(holds, growth.planned, placement, free, neighbours, tells=tells)


def suppose_placed(growth: Growth, slot: Slot, free: FreeMap) -> None:
    """Count as taken what the pool's next replica takes there, its place in a ComputeDomain with it."""
    suppose_taken(slot, growth.planned, free)


def assign(growth: Growth, nodes: tuple[str, ...], fabric: Fabric, now: float) -> Assignment:
    """The pool's next replica, on these nodes, with a ComputeDomain where its pods share memory over NVLink.

    The ComputeDomain is its own, or the one of all replicas of its pair where these hand each other KV over NVLink.
    """
    replica, gpus, spec = growth.next_replica, growth.planned.plan.shape.gpus_per_pod, growth.planned.spec
    growth.next_replica += 1
    name = shared_by(growth.planned.pool, spec.pair) if over_nvlink(spec) else None
    shared = ComputeDomain(cliques_of(nodes, fabric), name) if name else compute_domain_of(nodes, fabric)
    return Assignment(replica, growth.planned.revision, nodes, gpus, now, compute_domain=shared)
