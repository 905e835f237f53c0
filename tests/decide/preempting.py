"""A pool `high` comes while a pool `low`, of lower priority, has what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.decide.world import World, external, pool, pool_spec
from tests.scaling.cases import seen

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord

HIGH = pool("high", pool_spec(8, external(1)), priority=100)


def comes(world: World, record: PoolRecord) -> None:
    world.pools[record.key.name] = record


def asked(world: World, part: float, pods: int = 1, answered: int | None = None) -> None:
    """Requests for `high` come at such a part of what one of its replicas can take, as so many pods tell."""
    plan = world.status("high").plan
    assert plan is not None
    world.observations["uid-high"] = seen(part * plan.prediction.capacity, pods, answered=answered)


def draining_goes_on(world: World, left: int) -> None:
    """Pods of the one that goes never end, and nobody else of `low` is asked to go."""
    for _ in range(5):
        world.now += 5
        world.decide()
        assert left == len(world.status("low").assignments)
