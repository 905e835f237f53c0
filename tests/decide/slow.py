"""A pool of equal replicas of which some are slower than the others, as its metrics tell it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.domain.snapshot import PodObservation, PoolObservation

if TYPE_CHECKING:
    from weft.domain.spec import PoolSpec

STEP = 10.0
PATIENCE = 19  # passes: three minutes, and one to begin with


def serving(replicas: int = 4, boards: int = 6, spec: PoolSpec | None = None) -> World:
    """Replicas of a whole board each."""
    world = World.of([board(f"b-{index}") for index in range(boards)], pool("chat", spec or spec_of(replicas)))
    world.turn(6)
    assert world.serving("chat") == replicas
    return world


def assert_a_second_pass_says_the_same(world: World) -> None:
    """Of one and the same moment: but for events, which were told, it decides as the pass before it."""
    world.decide()
    first = world.decide()
    second = world.decide()
    assert second == replace(first, pools=tuple(replace(each, events=()) for each in first.pools))


def spec_of(replicas: int, **rollout: object) -> PoolSpec:
    spec = pool_spec(8, external(replicas))
    return replace(spec, rollout=replace(spec.rollout, **rollout))  # type: ignore[arg-type]


def tell(world: World, slow: dict[int, float], silent: frozenset[int] = frozenset(), **figures: float) -> None:
    """Metrics of all replicas that serve: those of `slow` take so many times as long, `silent` ones do not answer."""
    pods = [
        pod(name, slow.get(replica, 1.0), **figures) for replica, name in ready_ones(world) if replica not in silent
    ]
    rate = sum(each.requests_per_second or 0.0 for each in pods)
    world.observations["uid-chat"] = PoolObservation(
        expected=len(ready_ones(world)),
        answered=len(pods),
        age_seconds=2.0,
        requests_per_second=rate if pods else None,
        input_tokens=1000.0,
        output_tokens=200.0,
        prefix_hit=0.0,
        waiting=0.0,
        running=8.0 * len(pods),
        kv_usage=0.2,
        ttft_mean=0.2,
        tpot_mean=sum(each.tpot_mean or 0.0 for each in pods) / len(pods) if pods else None,
        pods=tuple(pods),
    )


def pod(name: str, times: float = 1.0, rate: float = 2.0, prompt: float = 1000.0) -> PodObservation:
    """One replica; each token takes `times` 20 ms."""
    return PodObservation(
        name,
        2.0,
        requests_per_second=rate,
        input_tokens=prompt,
        output_tokens=200.0,
        waiting=0.0,
        running=8.0 * times,
        kv_usage=0.2,
        ttft_mean=0.2,
        tpot_mean=0.02 * times,
    )


def ready_ones(world: World, pool: str = "chat") -> list[tuple[int, str]]:
    """First pods of ready replicas that are assigned, by id."""
    assigned = {each.replica for each in world.status(pool).assignments}
    pods = (each for each in world.pods.values() if each.ready and not each.terminating)
    known = ((each.identity, each.name) for each in pods if each.identity is not None)
    found = ((identity.replica, name) for identity, name in known if identity.pool_uid == f"uid-{pool}")
    return sorted((replica, name) for replica, name in found if replica in assigned)


def run(world: World, slow: dict[int, float], passes: int) -> None:
    for _ in range(passes):
        tell(world, slow)
        world.turn(1, STEP)
