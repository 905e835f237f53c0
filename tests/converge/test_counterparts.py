"""Replicas of a split that are ready and find no counterpart of their own generation do not count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.converge.test_split import DUO, child, serve
from tests.converge.world import World
from weft.domain import labels
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import RolloutSpec
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord
    from weft.domain.status import SplitProgress


def running(*halves: PoolRecord, earlier: set[Role]) -> World:
    """All replicas of both halves, of which the first one is of an earlier generation in the halves of `earlier`."""
    world = World()
    serve(world, *halves)
    for half in halves:
        if half.spec is not None and half.spec.role in earlier:
            first = min(name for name in world.pods if name.startswith(half.key.name))
            world.pods[first]["metadata"]["labels"][labels.PAIR] = "earlier"
    return world


def looks(world: World, *halves: PoolRecord) -> tuple[SplitProgress, Explanation]:
    """What a split shows, and why it is ready or not."""
    progress = world.look_at(DUO, *halves).progress
    return progress, next(each.explanation for each in progress.conditions if each.kind == "Ready")


@pytest.mark.parametrize(("decode", "ready"), [(1, (1, 1)), (2, (2, 2))])
def test_a_new_one_counts_once_the_other_half_has_one(decode: int, ready: tuple[int, int]) -> None:
    halves = child(Role.Prefill, 2), child(Role.Decode, decode)
    progress, _ = looks(running(*halves, earlier={Role.Prefill, Role.Decode}), *halves)
    assert (progress.prefill_ready, progress.decode_ready) == ready
    assert (progress.prefill_replicas, progress.decode_replicas) == (2, decode)


@pytest.mark.parametrize("paused", [False, True])
def test_halves_of_different_generations_are_half_a_pair_each(*, paused: bool) -> None:
    half = child(Role.Decode)
    assert half.spec is not None
    halves = child(Role.Prefill), replace(half, spec=replace(half.spec, rollout=RolloutSpec(paused=paused)))
    _, why = looks(running(*halves, earlier={Role.Decode}), *halves)
    assert why.reason is Reason.HalfPair
    assert why.message.startswith("no replica that is ready has one of its own generation in the other half")
    assert why.message.endswith(": unset it") is paused


def test_while_one_half_starts_all_of_the_other_one_count() -> None:
    halves = child(Role.Prefill, 2), child(Role.Decode)
    progress, why = looks(running(halves[0], earlier={Role.Prefill}), *halves)
    assert (progress.prefill_ready, progress.decode_ready) == (2, 0)
    assert why.message == "no decode replica is ready: nothing is routed to half a pair"
