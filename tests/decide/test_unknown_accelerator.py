"""A plan on an accelerator that the catalog does not have: another release chose it."""

from __future__ import annotations

from dataclasses import replace

from tests.decide.test_splits import half, split, split_world
from tests.decide.world import external
from weft.domain.workload import Role

UNKNOWN = "R200"


def test_halves_whose_plans_name_it_are_decided_on_and_keep_their_replicas() -> None:
    prefill, decode = (half(role, scaling=external(1)) for role in (Role.Prefill, Role.Decode))
    world = split_world(prefill, decode)
    world.splits["pd"] = split(prefill, decode)
    world.turn(8)
    before = {name: world.status(name).assignments for name in ("pd-prefill", "pd-decode")}
    for name in before:
        pool, plan = world.pools[name], world.status(name).plan
        assert plan is not None
        there = replace(plan, shape=replace(plan.shape, accelerator=UNKNOWN))
        world.pools[name] = replace(pool, status=replace(pool.status, plan=there))
    world.turn()
    assert {name: world.status(name).assignments[:1] for name in before} == before
