"""Splits whose KV goes over NVLink: both halves in one NVLink domain, with one ComputeDomain for a generation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decide.nvlink import FIRST, SECOND, SETTLED, half, over_trays, racks, serving, shared, with_split, world_of
from tests.decide.test_compute_domains import somebodys
from tests.decide.world import World, external
from tests.fabric.cluster import busy, rack, tray
from weft.catalog import load
from weft.cli.drain.following import follow
from weft.domain.reasons import Reason
from weft.domain.spec import PoolSpec, RolloutSpec
from weft.domain.workload import Role
from weft.render import shared_by


def test_both_halves_are_in_one_rack_and_share_one_compute_domain() -> None:
    world = world_of([*rack("a.1", 2), *rack("b.1", 6)], half(Role.Prefill), half(Role.Decode, 3))
    world.turn(SETTLED)
    assert (1, 3) == serving(world)
    assert {"b.1"} == racks(world)
    name = shared_by(world.pools["pd-prefill"], FIRST)
    assert {name} == shared(world)
    assert [name] == list(world.domains)
    (domain,) = world.domains.values()
    assert "uid-pd" == domain.owner_uid
    assert 4 == len(domain.members)


def test_the_status_has_what_nvlink_should_do() -> None:
    """Of the 900 GB/s that NVLink 5 does in one direction."""
    world = world_of(rack("a.1", 4), half(Role.Prefill), half(Role.Decode))
    world.decide()
    assert world.last is not None
    wire = world.last.splits[0].transport
    assert wire is not None
    assert wire.name == "NVLink"
    assert wire.bytes_per_second == pytest.approx(0.88 * 900e9)
    assert str(wire).startswith("NVLink, 792 GB/s of each prefill GPU")


def test_a_second_decision_changes_nothing() -> None:
    world = world_of(rack("a.1", 6), half(Role.Prefill), half(Role.Decode, 3))
    world.turn(SETTLED)
    before = [world.status(name) for name in ("pd-prefill", "pd-decode")]
    world.decide()
    assert before == [world.status(name) for name in ("pd-prefill", "pd-decode")]


def test_of_racks_that_hold_all_of_it_the_tightest_is_taken() -> None:
    nodes = [*rack("a.1", 3), *rack("b.1", 6), *rack("c.1", 4)]
    world = world_of(nodes, half(Role.Prefill, 2), half(Role.Decode, 2))
    world.turn(SETTLED)
    assert ({"c.1"}, (2, 2)) == (racks(world), serving(world))


def test_a_rack_without_another_compute_domain_comes_before_a_tighter_one() -> None:
    """Two in one clique disturb each other now and then (issue 892 of the driver)."""
    world = world_of([*rack("a.1", 3), *rack("b.1", 6)], half(Role.Prefill), half(Role.Decode))
    world.theirs = (somebodys("a.1-t0"),)
    world.turn(SETTLED)
    assert ({"b.1"}, (1, 1)) == (racks(world), serving(world))


def test_two_splits_that_come_at_once_do_not_choose_the_same_rack() -> None:
    """The first would have a place there, and the rest of one of them none."""
    world = world_of([*rack("a.1", 4), *rack("b.1", 4)], half(Role.Prefill), half(Role.Decode, 2))
    with_split(world, half(Role.Prefill), half(Role.Decode, 2), "other")
    world.turn(SETTLED)
    assert ((1, 2), (1, 2)) == (serving(world), serving(world, "other"))
    assert racks(world).isdisjoint(racks(world, "other"))


def test_it_grows_and_shrinks_within_its_compute_domain() -> None:
    world = world_of([*rack("a.1", 6), *rack("b.1", 6)], half(Role.Prefill), half(Role.Decode))
    world.turn(SETTLED)
    (before,) = world.domains.values()
    for wanted in (4, 1):
        world.now += 600.0
        world.edit("pd-decode", half(Role.Decode, wanted))
        world.turn(SETTLED)
        (now,) = world.domains.values()
        assert (1, wanted) == serving(world)
        assert (before.uid, 1 + wanted) == (now.uid, len(now.members))
        assert 1 == len(racks(world))


def test_replicas_over_several_nodes_have_none_of_their_own() -> None:
    world = world_of(rack("a.1", 8), over_trays(Role.Prefill), over_trays(Role.Decode, 2))
    world.turn(SETTLED)
    assert (1, 2) == serving(world)
    assert {shared_by(world.pools["pd-decode"], FIRST)} == shared(world) == set(world.domains)


def test_nodes_in_a_compute_domain_of_somebody_else_are_left_alone() -> None:
    """Also where pods of one node have room there: a node is in one of them."""
    world = world_of(rack("a.1", 4), half(Role.Prefill), half(Role.Decode))
    world.theirs = (somebodys("a.1-t0", "a.1-t1"),)
    world.turn(SETTLED)
    assert (1, 1) == serving(world)
    assert {"a.1-t2", "a.1-t3"} == {*world.nodes_of("pd-prefill")[0], *world.nodes_of("pd-decode")[0]}


@pytest.mark.parametrize("terminating", [True, False])
def test_somebody_who_deletes_it_ends_all_replicas_of_both_halves(terminating: bool) -> None:  # noqa: FBT001 - the case
    """No claim of theirs fits another; they come again with a new one."""
    world = world_of(rack("a.1", 8), half(Role.Prefill), half(Role.Decode, 2))
    world.turn(SETTLED)
    world.now += 120.0
    (name,) = world.domains
    world.domains = {name: replace(world.domains[name], terminating=True)} if terminating else {}
    world.decide()
    events = [each for pool in ("pd-prefill", "pd-decode") for each in world.decision(pool).events]
    assert 3 == sum(f"somebody deleted ComputeDomain team/{name}" in each.message for each in events)
    world.domains = {}
    world.turn(2 * SETTLED)
    assert ((1, 2), [name]) == (serving(world), list(world.domains))


def test_pods_that_were_not_complete_yet_are_ended_with_it_too() -> None:
    """Pods of a split are made once it is there: one that is made anew under them fits none of their claims."""
    world = world_of(rack("a.1", 4), half(Role.Prefill), half(Role.Decode))
    world.turn()
    (before,) = world.status("pd-prefill").assignments
    assert not before.complete
    assert any(pod.gated for pod in world.pods.values())
    (name,) = world.domains
    world.domains = {}
    world.decide()
    assert before.replica not in {each.replica for each in world.status("pd-prefill").assignments}
    world.turn(2 * SETTLED)
    assert ((1, 1), [name]) == (serving(world), list(world.domains))


def test_halves_that_would_take_racks_of_different_accelerators_take_one_that_both_may_use() -> None:
    """Prefill alone would take the cheaper GB200."""
    newer = {"nvidia.com/gpu.product": "NVIDIA-GB300", "nvidia.com/gpu.memory": "284208"}
    trays = [*rack("a.1", 4), *(tray(f"b.1-t{at}", "b.1", newer) for at in range(4))]
    prefill, decode = half(Role.Prefill), half(Role.Decode, 2, name="GB300")
    either = replace(prefill.placement, accelerators=("GB200", "GB300"))
    world = world_of(trays, replace(prefill, placement=either), decode)
    world.turn(SETTLED)
    assert ({"b.1"}, (1, 2)) == (racks(world), serving(world))


def test_generations_have_one_each_and_the_earlier_ones_goes_with_its_last_replica() -> None:
    rolling = RolloutSpec(max_surge=1, max_unavailable=0)
    world = world_of(rack("a.1", 8), *(replace(half(role), rollout=rolling) for role in (Role.Prefill, Role.Decode)))
    world.turn(SETTLED)
    (before,) = world.domains
    for role in (Role.Prefill, Role.Decode):
        spec = replace(half(role, pair=SECOND), rollout=rolling)
        world.edit(f"pd-{role.value.lower()}", replace(spec, engine=replace(spec.engine, env=(("VERSION", "2"),))))
    world.turn(2)
    assert {before, shared_by(world.pools["pd-decode"], SECOND)} == set(world.domains)
    world.turn(2 * SETTLED)
    assert (1, 1) == serving(world)
    assert {shared_by(world.pools["pd-decode"], SECOND)} == set(world.domains)


def test_a_full_rack_rolls_by_what_its_own_replicas_leave() -> None:
    rolling = RolloutSpec(max_surge=0, max_unavailable=1)
    world = world_of(rack("a.1", 2), *(replace(half(role), rollout=rolling) for role in (Role.Prefill, Role.Decode)))
    world.turn(SETTLED)
    for role in (Role.Prefill, Role.Decode):
        spec = replace(half(role, pair=SECOND), rollout=rolling)
        world.edit(f"pd-{role.value.lower()}", replace(spec, engine=replace(spec.engine, env=(("VERSION", "2"),))))
    for _ in range(4 * SETTLED):
        world.turn()
        events = [each.reason for name in ("pd-prefill", "pd-decode") for each in world.decision(name).events]
        assert Reason.SlotTaken not in events
    assert ((1, 1), {shared_by(world.pools["pd-decode"], SECOND)}) == (serving(world), shared(world))


def test_a_driver_that_goes_away_ends_nothing_that_runs() -> None:
    world = world_of(rack("a.1", 4), half(Role.Prefill), half(Role.Decode))
    world.turn(SETTLED)
    world.driver = False
    world.turn(2)
    assert (1, 1) == serving(world)


def test_a_busy_node_of_the_rack_takes_none_of_it() -> None:
    world = world_of([*rack("a.1", 3)], half(Role.Prefill), half(Role.Decode))
    world.pods["job"] = busy("job", "a.1-t0", 1)
    world.turn(SETTLED)
    assert {"a.1-t1", "a.1-t2"} == {*world.nodes_of("pd-prefill")[0], *world.nodes_of("pd-decode")[0]}


def test_what_is_planned_without_a_cluster_comes_to_rest() -> None:
    world = world_of([*rack("a.1", 3), *rack("b.1", 5)], half(Role.Prefill, 2), half(Role.Decode, 2))
    found = follow(world.snapshot(), load())
    assert found.rests
    nodes = {node for each in found.snapshot.pools for at in each.status.assignments for node in at.nodes}
    assert {"b.1"} == {node.rpartition("-")[0] for node in nodes}


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("count"), st.sampled_from(["pd-prefill", "pd-decode"]), st.integers(1, 4)),
        st.tuples(st.just("roll"), st.sampled_from([FIRST, SECOND]), st.integers(0, 3)),
        st.tuples(st.just("end"), st.integers(0, 9), st.integers(1, 3)),
        st.tuples(st.just("job"), st.integers(0, 9), st.integers(1, 3)),
        st.tuples(st.just("wait"), st.just(0), st.integers(1, 8)),
    ),
    max_size=8,
)


def walk(world: World, step: tuple[str, Any, int]) -> None:
    what, which, amount = step
    halves = {name: world.pools[name].spec for name in ("pd-prefill", "pd-decode")}
    if what == "count":
        world.edit(which, replace(_known(halves[which]), scaling=external(amount)))
    elif what == "roll":
        for name, spec in halves.items():
            engine = replace(_known(spec).engine, env=(("VERSION", which),))
            world.edit(name, replace(_known(spec), pair=which, engine=engine))
    elif what == "end" and world.pods:
        world.end(sorted(world.pods)[which % len(world.pods)])
    elif what == "job":
        world.pods[f"job-{which}"] = busy(f"job-{which}", f"b.1-t{which % 5}", 4)


def _known(spec: PoolSpec | None) -> PoolSpec:
    assert spec is not None
    return spec


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_whatever_happens_pods_that_meet_are_in_one_rack_and_alone_on_their_nodes(
    steps: list[tuple[str, Any, int]],
) -> None:
    world = world_of([*rack("a.1", 4), *rack("b.1", 5)], half(Role.Prefill), half(Role.Decode, 2))
    for step in (("wait", 0, SETTLED), *steps):
        walk(world, step)
        for _ in range(step[2]):
            world.turn()
            placed: dict[str, list[str]] = {}
            for name in ("pd-prefill", "pd-decode"):
                for each in world.status(name).assignments:
                    assert each.compute_domain is not None
                    placed.setdefault(each.compute_domain.name, []).extend(each.nodes)
            for nodes in placed.values():
                assert 1 == len({node.rpartition("-")[0] for node in nodes})
                assert len(set(nodes)) == len(nodes)
            bound = [pod.node for pod in world.pods.values() if pod.identity is not None and pod.node is not None]
            assert len(set(bound)) == len(bound)
