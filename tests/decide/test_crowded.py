"""Pools with open shapes that crash while all want the same few holes: nothing changes without news (L1, L3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.decide.histories import SINGLE, act, held_gpus, left_open
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board, busy
from weft.domain.cluster import ContainerFailure, PodPhase
from weft.domain.scaling_spec import ScalingSpec

if TYPE_CHECKING:
    from tests.decide.histories import Action
    from weft.domain.spec import PoolSpec

BOARDS = ("b-0", "b-1", "b-2")
GPUS = 8
AUTO = ScalingSpec(max_replicas=2, headroom=0.0)


def open_pool(scaling: ScalingSpec, rate: float = 100.0) -> PoolSpec:
    return left_open(pool_spec(1, scaling), rate)


specs = st.one_of(
    st.builds(open_pool, st.one_of(st.just(AUTO), st.integers(1, 3).map(external)), st.sampled_from([1.0, 100.0])),
    st.builds(pool_spec, st.sampled_from([1, 2, 4]), st.integers(1, 4).map(external)),
)
actions = st.one_of(
    st.tuples(st.just("crash"), st.sampled_from(SINGLE), st.none()),
    st.tuples(st.just("foreign"), st.sampled_from(BOARDS), st.integers(0, GPUS)),
    st.tuples(st.just("node"), st.sampled_from(BOARDS), st.booleans()),
    st.tuples(st.just("wait"), st.integers(1, 4), st.sampled_from([5.0, 70.0])),
)


def happen(world: World, action: Action) -> None:
    what, first, second = action
    acts: dict[str, Any] = {"crash": crash, "foreign": jobs_change}
    if what in acts:
        acts[what](world, first, second)
    else:
        act(world, action)


def crash(world: World, name: str, _: None) -> None:
    """Every engine of a pool ends at once."""
    world.now += 1.0
    for pod in list(world.pods.values()):
        if pod.identity and pod.identity.pool_uid == f"uid-{name}" and pod.phase is PodPhase.Running:
            world.end(pod.name, ContainerFailure("Error", "RuntimeError: no", 1))


def jobs_change(world: World, name: str, gpus: int) -> None:
    """Somebody's job gets as many GPUs of a board as it asks for and pods leave it, or goes."""
    world.pods.pop(f"job-{name}", None)
    granted = min(gpus, GPUS - held_gpus(world.pods.values())[name])
    if granted > 0:
        world.pods[f"job-{name}"] = busy(f"job-{name}", name, granted)


@settings(max_examples=30, deadline=None)
@given(
    first=st.lists(specs, min_size=3, max_size=3),
    taken=st.lists(st.integers(0, GPUS), min_size=3, max_size=3),
    history=st.lists(actions, min_size=3, max_size=12),
)
@example(
    first=[open_pool(AUTO), pool_spec(2, external(3)), pool_spec(2, external(3))],
    taken=[6, 6, 6],
    history=[("crash", "chat", None)],
)
def test_a_second_pass_changes_nothing_where_pools_crash_and_want_the_same_holes(
    first: list[PoolSpec], taken: list[int], history: list[Action]
) -> None:
    jobs = [busy(f"job-{name}", name, gpus) for name, gpus in zip(BOARDS, taken, strict=True) if gpus]
    pools = [pool(name, spec) for name, spec in zip(SINGLE, first, strict=True)]
    world = World.of([board(name) for name in BOARDS], *pools, pods=jobs)
    for action in (("wait", 4, 5.0), *history):
        happen(world, action)
        first_pass = world.decide()
        told_once = tuple(replace(each, events=()) for each in first_pass.pools)
        assert world.decide() == replace(first_pass, pools=told_once)
