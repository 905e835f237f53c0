"""Change the shape of a pool that wants more replicas than its shape has places for (ADR 0093).

A pool that is too small at its maximum changes too, to a shape of which as many replicas serve more (ADR 0095).

Only a steady pool changes: all placed replicas serve in the planned revision, and none starts, leaves, was lost or
waits for a move. A lack of less than ten minutes may be a peak, or end with a new node. A pool that had enough places
within the hour, or would have them on nodes that do not work now, waits for these nodes to be repaired.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.decide.course import from_nothing
from weft.decide.places.growth import place
from weft.decide.plans.kept_shapes import left_lately
from weft.decide.replicas.promises import held_by
from weft.decide.rollouts.weighing import PATIENCE_SECONDS
from weft.decide.shapes.at_maximum import is_too_small_at_its_maximum
from weft.decide.shapes.elsewhere import Search, just_wants
from weft.decide.shapes.holes import changes_shape, kept_for_want_of_room
from weft.domain.spec import RolloutStrategy
from weft.domain.stumbling import stumbled
from weft.domain.texts.figures import seconds
from weft.placement import ALONE, LASTING, Slot, is_selected

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from weft.decide.course import Course, Turn
    from weft.decide.shapes.start import Start
    from weft.domain.fabric import FabricNode
    from weft.placement import FreeMap, Hold

    _Turns = Sequence[Turn]

# A node that is drained, repaired or replaced is back by then; `decide/telling/placed_lately.py` assumes the same.
MENDED_SECONDS = 3600.0


def is_short_since(course: Course, now: float) -> float | None:
    """Since when (epoch seconds) the pool is short though all replicas that stay serve; None while it is not.

    It is short while it wants more, and its shape has no place for more or is too small at its maximum. Replicas that
    left in this pass do not matter: a second pass on its result does not know of them.
    """
    growth, turn = course.growth, course.turn
    if not (is_too_small_at_its_maximum(turn, now) or growth.lacks_a_slot):
        return None
    if growth.added or course.leaving.moving or course.moves.awaited or course.moves.opening:
        return None
    if growth.have < 1 or not _all_serve(course) or just_wants(turn, now) <= growth.have:
        return None
    since = turn.memory.short_since
    return now if since is None or since > now else since


def _all_serve(course: Course) -> bool:
    """Whether all replicas that stay are ready and of the planned revision."""
    stay, revision = {each.replica for each in course.growth.kept}, course.turn.planned.revision
    there = (each for each in course.turn.survivors.replicas if each.assignment.replica in stay)
    return all(each.ready and each.assignment.revision == revision for each in there)


def looks_for_others_in_seconds(turn: Turn, since: float, free: FreeMap, now: float) -> float | None:
    """Seconds until another shape is looked for; None once that time has come."""
    left = since + _patience_seconds(turn, free, now) - now
    return left if left > 0 else None


def where_more_have_a_place(
    units: Sequence[Sequence[Turn]], short: Iterable[Sequence[Turn]], start: Start
) -> Sequence[Sequence[Turn]]:
    """The units, the first of the `short` ones that has better shapes planned in these.

    Only one unit changes in each pass: the next pass sees which places are left.
    """
    soon = _left_soon(units, start)
    for turns in short:
        try:
            found = _elsewhere(turns, units, start, soon)
        except Exception as error:
            raise stumbled(error, *(turn.planned.pool for turn in turns)) from error
        if found is not None:
            return [found if each is turns else each for each in units]
    return units


def _elsewhere(turns: _Turns, units: Sequence[_Turns], start: Start, soon: list[Hold]) -> _Turns | None:
    """The same pools in the shapes that serve most; None where that is not clearly more than now.

    `soon` is what pools in other shapes are about to leave, less what the units before this one wait for.
    """
    running = kept_for_want_of_room(turns, start, start.replan) if changes_shape(turns) else turns
    if changes_shape(running) or not all(_may_change(turn, start) for turn in running):
        return None
    if not any(_has_outgrown(turn, start, soon) for turn in running):
        return None
    lasted = max(_patience_seconds(turn, start.free, start.now) for turn in running)
    return Search(running, start, units, seconds(lasted)).best()


# whether a pool may change its shape at all


def _may_change(turn: Turn, start: Start) -> bool:
    """Whether the pool is steady, takes part in no move, and every claim in `_MAY_CHANGE` holds."""
    return _stands(turn) and not start.moves.bind(turn) and all(claim(turn, start) for claim in _MAY_CHANGE)


def _stands(turn: Turn) -> bool:
    """Whether all replicas serve in the planned revision, and none was lost."""
    standing = turn.survivors.standing
    return standing is not None and standing.ready and standing.revisions <= {turn.planned.revision}


def _rolls_without_a_gap(turn: Turn, _: Start) -> bool:
    """Recreate would end all replicas just when most are wanted, and a paused rollout replaces none."""
    rollout = turn.planned.spec.rollout
    return not rollout.paused and rollout.strategy is not RolloutStrategy.Recreate


def _is_not_frozen(turn: Turn, start: Start) -> bool:
    return turn.planned.spec.scaling.frozen_until(start.now) is None


def _is_bound_by_no_budget(turn: Turn, _: Start) -> bool:
    """A steady pool is never barred or frozen either: its replicas are of the planned revision, and paid for."""
    return turn.share is None


def _looks_for_places_itself(turn: Turn, _: Start) -> bool:
    """No other scheduler places it, and it has no NVLink domain that was chosen for the shapes of both halves."""
    return turn.asked is None and not turn.planned.spec.placement.nvlink_domain


def _has_kept_its_shape_for_an_hour(turn: Turn, start: Start) -> bool:
    return left_lately(turn.planned.pool.status.left_shape, start.now) is None


_MAY_CHANGE = (
    _rolls_without_a_gap,
    _is_not_frozen,
    _is_bound_by_no_budget,
    _looks_for_places_itself,
    _has_kept_its_shape_for_an_hour,
)


def _has_outgrown(turn: Turn, start: Start, soon: list[Hold]) -> bool:
    """Whether it has been short for longer than a peak or a fault lasts, and places it had or gets soon are too few.

    For a pool that is too small at its maximum the former is enough.
    """
    since, most = turn.memory.short_since, turn.planned.pool.status.placed_replicas
    if since is None or start.heard - since < _patience_seconds(turn, start.free, start.now):
        return False
    if is_too_small_at_its_maximum(turn, start.now):
        return True
    if most is None or max(most, len(turn.survivors.replicas)) >= just_wants(turn, start.now):
        return False
    return not _waits_for_one_of(soon, turn, start.free)


def _waits_for_one_of(soon: list[Hold], turn: Turn, free: FreeMap) -> bool:
    """Whether the pool has a place in what others leave soon; what it takes is removed from `soon`."""
    with free.supposing():
        free.suppose_gone(soon)
        found = place(from_nothing(turn, 1), free, ALONE, tells=False)
    if not isinstance(found, Slot):
        return False
    for node in found.nodes:
        needed = turn.planned.plan.shape.gpus_per_pod
        for hold in [each for each in soon if each.node == node]:
            if needed > 0:
                soon.remove(hold)
                needed -= hold.gpus
    return True


def _left_soon(units: Iterable[_Turns], start: Start) -> list[Hold]:
    """What replicas of earlier revisions still hold in pools that changed their shape within the hour."""
    leaving = (
        (turn.planned.pool, replica.pods)
        for turns in units
        for turn in turns
        if left_lately(turn.planned.pool.status.left_shape, start.now) is not None
        for replica in turn.survivors.replicas
        if replica.assignment.revision != turn.planned.revision
    )
    return [hold for pool, pods in leaving for hold in held_by(pool, pods, start.free.fabric)]


def _patience_seconds(turn: Turn, free: FreeMap, now: float) -> float:
    """How long a pool waits for load to fall, or for nodes with its accelerator to join or to work again."""
    waits_for_nodes = not is_too_small_at_its_maximum(turn, now) and _some_of_its_kind_are_away(turn, free)
    least = MENDED_SECONDS if waits_for_nodes else PATIENCE_SECONDS
    return max(least, turn.planned.spec.scaling.scale_down_delay_seconds)


def _some_of_its_kind_are_away(turn: Turn, free: FreeMap) -> bool:
    """Whether a node with its accelerator that it may use takes no pods now, or shows fewer devices than it should."""
    kind, placement = turn.planned.plan.shape.accelerator, turn.planned.spec.placement
    return any(node.accelerator == kind and is_selected(node, placement) is None for node in _away(free))


def _away(free: FreeMap) -> tuple[FabricNode, ...]:
    """Nodes that take no pods now, or show fewer devices than they should; found once in a pass and kept in `free`."""
    if "away" not in free.eligible:
        free.eligible["away"] = tuple(filter(_is_away, free.fabric.nodes().values()))
    found: tuple[FabricNode, ...] = free.eligible["away"]
    return found


def _is_away(node: FabricNode) -> bool:
    return node.impaired is not None or (node.unusable is not None and node.unusable.reason not in LASTING)
