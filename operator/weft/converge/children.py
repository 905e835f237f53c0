"""The child pools of a split: kept as rendered, except for the replica count, which others own in External mode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.converge.objects import has_this_rendering
from weft.domain import labels
from weft.domain.action import ApplyObject
from weft.domain.errors import Bug
from weft.domain.reasons import Explanation, Reason
from weft.domain.scaling_spec import ScalingMode
from weft.domain.workload import Role
from weft.render import has_all_of, render_child_seed, surplus

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.converge.census import Census
    from weft.converge.objects import ObjectsAround
    from weft.converge.replicas import Replica
    from weft.domain.action import Action
    from weft.domain.cluster import ObjectRecord
    from weft.domain.snapshot import PoolRecord, SplitRecord
    from weft.domain.spec import PoolSpec
    from weft.render import Json

SIDES = (Role.Prefill, Role.Decode)
COUNT = "/spec/scaling/replicas"
MODE = "/spec/scaling/mode"


@dataclass(frozen=True, slots=True)
class SideState:
    """One side of the pair; `pool` is None until its child exists.

    `apart` is how many of its replicas are ready and of a generation of which the other side has none that is.
    """

    role: Role
    pool: PoolRecord | None
    census: Census | None
    replicas: tuple[Replica, ...] = ()
    apart: int = 0

    @property
    def ready(self) -> int:
        """How many replicas answer requests, as far as the other side has any for them."""
        return self.census.ready - self.apart if self.census is not None else 0

    @property
    def present(self) -> int:
        """How many replicas have pods that nobody deletes."""
        return self.census.present if self.census is not None else 0


def converge_children(
    split: SplitRecord, sides: Sequence[SideState], bodies: Sequence[Json], around: ObjectsAround
) -> tuple[Action, ...]:
    """Actions that make both children as they are rendered, with an event for each that somebody edited."""
    actions: list[Action] = []
    for side, body in zip(sides, bodies, strict=True):
        record = around.at(body)
        if record is None:
            actions += _create(split, side, body)
        elif around.may_touch(record) and (update := _update(split, side, body, record)) is not None:
            edited = has_this_rendering(record, body)
            actions.append(replace(update, told=_reverted(record, split)) if edited else update)
    return tuple(actions)


def follow(sides: Sequence[SideState], bodies: Sequence[Json], around: ObjectsAround) -> bool:
    """Whether both children were applied as they are rendered by now, and decided on since."""
    return all(_follows(side, around.at(body), body) for side, body in zip(sides, bodies, strict=True))


def _follows(side: SideState, record: ObjectRecord | None, body: Json) -> bool:
    applied = record is not None and has_this_rendering(record, body)
    return applied and side.pool is not None and side.pool.decided == side.pool.generation


def _create(split: SplitRecord, side: SideState, body: Json) -> Iterator[Action]:
    """Create the child; a count that others will own is seeded first: the API server refuses External without one."""
    spec = _spec(split, side.role)
    if spec.scaling.mode is ScalingMode.External:
        yield ApplyObject(render_child_seed(split, side.role, _first_count(spec, side)), labels.SEED_MANAGER)
    yield ApplyObject(body)


def _update(split: SplitRecord, side: SideState, body: Json, record: ObjectRecord) -> ApplyObject | None:
    """The action that puts back what differs and removes what was added to the spec; None where neither is so."""
    first = (*_count_changes_hands(split, side, record), *_additions(body, record))
    if not first and has_all_of(record.body, body):
        return None
    return ApplyObject(body, first=first)


def _count_changes_hands(split: SplitRecord, side: SideState, record: ObjectRecord) -> tuple[Json, ...]:
    """The patch that sets mode and count where the mode changes: in one, as the API server refuses each alone."""
    spec = _spec(split, side.role)
    counted = "replicas" in record.body.get("spec", {}).get("scaling", {})
    external = spec.scaling.mode is ScalingMode.External
    if external == counted:
        return ()
    count = (
        {"op": "add", "path": COUNT, "value": _first_count(spec, side)} if external else {"op": "remove", "path": COUNT}
    )
    return ({"op": "add", "path": MODE, "value": spec.scaling.mode.value}, count)


def _additions(body: Json, record: ObjectRecord) -> tuple[Json, ...]:
    """A patch that removes spec fields that Weft never rendered; others may edit the rest of the object, as labels."""
    added = surplus(record.body.get("spec", {}), body["spec"], "/spec")
    return tuple({"op": "remove", "path": pointer} for pointer in added if pointer != COUNT)


def _spec(split: SplitRecord, role: Role) -> PoolSpec:
    if split.spec is None:
        raise Bug(Reason.SpecInvalid, f"{split.key} has no spec")
    return split.spec.prefill if role is Role.Prefill else split.spec.decode


def _first_count(spec: PoolSpec, side: SideState) -> int:
    """The replica count to begin with: what runs now, or the minimum; zero would switch an HPA off."""
    running = side.census.desired if side.census is not None else 0
    return min(max(running, spec.scaling.min_replicas, 1), spec.scaling.max_replicas)


def _reverted(record: ObjectRecord, split: SplitRecord) -> Explanation:
    message = f"InferencePool {record.name} was edited and is put back: edit {split.key} instead"
    return Explanation(Reason.ChildReverted, message)
