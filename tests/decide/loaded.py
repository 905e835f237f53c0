"""Pools under traffic that is told in replicas: how many of them it keeps busy, headroom and all."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.decide.test_splits import split_world
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from tests.scaling.cases import seen
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.reasons import Reason
    from weft.domain.scaling_spec import ScalingSpec
    from weft.domain.spec import RolloutSpec

STEP = 10.0
HEADROOM = 1.1  # what a pool has by default
# Traffic that needs n replicas needs a little less than n of them, so that no rounding asks for one more.
A_LITTLE_LESS = 0.3


@dataclass
class Loaded:
    """A world, the demand of its pools in replicas, and what its decisions told."""

    world: World
    demand: dict[str, float]
    told: list[Reason] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)

    def turn(self, turns: int = 1) -> None:
        for _ in range(turns):
            self.look()
            self.world.turn(1, STEP)
            for name in self.demand:
                self.told += [event.reason for event in self.world.decision(name).events]
                self.messages += [event.message for event in self.world.decision(name).events]

    def look(self) -> None:
        """What engines tell before a pass: all of what arrives is answered."""
        for name, replicas in self.demand.items():
            plan, ready = self.world.status(name).plan, self.world.serving(name)
            if plan is not None and ready:
                rate = max(0.0, replicas - A_LITTLE_LESS) * plan.prediction.capacity / HEADROOM
                self.world.observations[self.world.pools[name].key.uid] = seen(rate, ready)

    def change(self, value: str = "2") -> None:
        """Every pool gets another revision."""
        for name in self.demand:
            spec = self.world.pools[name].spec
            assert spec is not None
            pair = value if spec.pair else ""
            self.world.edit(name, replace(spec, engine=replace(spec.engine, env=(("VERSION", value),)), pair=pair))

    def outdated(self, name: str) -> int:
        status = self.world.status(name)
        return sum(each.revision != status.revision for each in status.assignments)

    def is_through(self) -> bool:
        """Whether all serve in the revision that is planned."""
        names = self.demand
        return all(
            self.outdated(name) == 0 and self.world.serving(name) >= self.world.status(name).desired_replicas
            for name in names
        )

    def roll(self, turns: int) -> dict[str, int]:
        """The fewest that served at any time until all are of the revision that is planned."""
        fewest = {name: self.world.serving(name) for name in self.demand}
        for _ in range(turns):
            self.turn()
            fewest = {name: min(least, self.world.serving(name)) for name, least in fewest.items()}
            if self.is_through():
                break
        return fewest


def loaded(scaling: ScalingSpec, boards: int, rollout: RolloutSpec, demand: float, *, settled: int = 14) -> Loaded:
    """A pool of replicas of one board each, after some minutes of such traffic."""
    nodes = [board(f"b-{index}") for index in range(boards)]
    found = Loaded(World.of(nodes, pool("chat", pool_spec(8, scaling, rollout=rollout))), {"chat": demand})
    found.turn(settled)
    found.told.clear()
    return found


def loaded_split(counts: tuple[int, int], boards: int, rollout: RolloutSpec, demand: tuple[float, float]) -> Loaded:
    """A pair of replicas of one board each, whose halves roll as generations."""
    roles = (Role.Prefill, Role.Decode)
    sides = [
        replace(pool_spec(8, external(count), rollout=rollout, role=role), pair="1")
        for role, count in zip(roles, counts, strict=True)
    ]
    world = split_world(sides[0], sides[1], boards)
    found = Loaded(world, dict(zip(("pd-prefill", "pd-decode"), demand, strict=True)))
    found.turn(14)
    found.told.clear()
    return found
