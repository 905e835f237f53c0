"""A pool of higher priority comes while a split has everything: step by step, until all that was decided is done."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from tests.holding.cluster import boards, gpus_of
from tests.holding.operation import TEAM, Json, pool_body
from tests.holding.pairs import HALVES, Pair, split_body
from weft.domain.quotas import QuotaRecord

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord, Snapshot

REQUESTS = "requests.nvidia.com/gpu"
TP8 = {"tensorParallel": 8, "pipelineParallel": 1, "dataParallel": 1}
GPUS, TURNS = 32, 60


@dataclass
class Contended(Pair):
    """A split, pools with priorities, and a quota of so many GPUs, counted as the API server counts it."""

    priorities: dict[str, int] = field(default_factory=dict)
    hard: int | None = None
    told: list[str] = field(default_factory=list)

    def pools(self) -> tuple[PoolRecord, ...]:
        return tuple(replace(each, priority=self.priorities.get(each.key.name, 0)) for each in super().pools())

    def snapshot(self) -> Snapshot:
        if self.hard is None:
            return super().snapshot()
        quota = QuotaRecord(TEAM, "gpus", ((REQUESTS, self.hard),), ((REQUESTS, self.used()),))
        return replace(super().snapshot(), quotas=(quota,))

    def decide(self) -> None:
        super().decide()
        self.told += [event for name in self.bodies for event in self.events(name)]

    def used(self) -> int:
        """GPUs of all pods."""
        return sum(gpus_of(pod) for pod in self.cluster.pods.values())

    def comes(self, body: Json, priority: int) -> None:
        """Somebody applies a pool."""
        name = body["metadata"]["name"]
        self.bodies[name], self.priorities[name] = body, priority

    def counts(self) -> tuple[int, ...]:
        """Replicas of both halves that serve."""
        return tuple(len(self.serving(f"duo-{half}")) for half in HALVES)


def full(nodes: int, hard: int | None) -> Contended:
    """Two replicas of eight GPUs in each half, of which either may lose one."""
    world = Contended.on(boards(nodes), split_body(2, 2, shape=TP8))
    assert isinstance(world, Contended)
    world.hard = hard
    world.turn(12)
    assert (2, 2) == world.counts()
    one_or_two = {"scaling": {"minReplicas": 1, "maxReplicas": 2}}
    world.split["spec"] |= {"prefill": one_or_two, "decode": one_or_two}
    world.split["metadata"]["generation"] += 1
    world.turn(2)
    return world


CONTENDED = [pytest.param(4, None, id="places"), pytest.param(7, GPUS, id="quota")]


@pytest.mark.parametrize(("nodes", "hard"), CONTENDED)
def test_a_split_gives_one_replica_for_good_and_serves_all_the_time(nodes: int, hard: int | None) -> None:
    world = full(nodes, hard)
    world.comes(pool_body("high", "H200", 8, 1), 100)
    seen = []
    for _ in range(TURNS):
        world.turn()
        seen.append(world.counts())
        assert world.used() <= GPUS
    world.rest()
    assert [1, 2] == sorted(world.counts())
    assert set(seen) <= {(2, 2), world.counts()}
    assert 1 == len(world.serving("high"))
    assert 1 == world.told.count("Preempted")
    before = world.writes
    world.turn(20)
    assert before == world.writes


@pytest.mark.parametrize(("nodes", "hard"), CONTENDED)
def test_an_operator_that_dies_again_and_again_takes_no_more(nodes: int, hard: int | None) -> None:
    """What was taken is in the cluster alone, and a new process finds it there."""
    world = full(nodes, hard)
    world.comes(pool_body("high", "H200", 8, 1), 100)
    for _ in range(TURNS):
        world.outlives_a_turn(3)
        assert min(world.counts()) >= 1
        assert world.used() <= GPUS
    world.restart()
    world.rest()
    assert (3, 1) == (sum(world.counts()), len(world.serving("high")))


def test_the_split_has_its_replica_again_when_the_other_one_goes() -> None:
    world = full(4, None)
    world.comes(pool_body("high", "H200", 8, 1), 100)
    world.turn(TURNS)
    for pod in world.pods_of("high"):
        world.cluster.delete(pod["metadata"]["name"])
    del world.bodies["high"]
    world.turn(TURNS)
    assert (2, 2) == world.counts()
