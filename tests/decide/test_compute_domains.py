"""Replicas that span trays: a ComputeDomain each, one per node at most, and an end with it when somebody deletes it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.world import World, expert_spec, external, pool, pool_spec
from tests.fabric.cluster import board, rack, tray
from weft.domain.reasons import Reason
from weft.domain.reports import ComputeDomainReport, DomainMember
from weft.domain.spec import DomainRule, PoolSpec, RolloutSpec
from weft.domain.status import ComputeDomain
from weft.fabric.membership import NO_FABRIC

IN_USE = 7
RECREATE = RolloutSpec(max_surge=0, max_unavailable=1)


def two_trays(replicas: int = 1) -> PoolSpec:
    """Eight GPUs, on two trays of four."""
    return expert_spec(4, 2, external(replicas))


def forming(trays: int, spec: PoolSpec | None = None) -> World:
    world = World.of(rack("a.1", trays), pool("chat", spec or two_trays()))
    world.driver = True
    return world


def serving(trays: int, spec: PoolSpec | None = None, replicas: int = 1) -> World:
    world = forming(trays, spec)
    world.turn(IN_USE)
    assert replicas == world.serving("chat")
    return world


def shared(world: World, name: str = "chat") -> list[ComputeDomain | None]:
    return [each.compute_domain for each in world.status(name).assignments]


def rolled(spec: PoolSpec) -> PoolSpec:
    return replace(spec, engine=replace(spec.engine, env=(("VERSION", "2"),)))


def somebodys(*nodes: str, name: str = "theirs") -> ComputeDomainReport:
    members = tuple(DomainMember(node, "a.1", ready=True) for node in nodes)
    return ComputeDomainReport("other", name, members, f"uid-{name}")


def test_a_replica_on_two_trays_has_one_and_knows_its_clique() -> None:
    world = serving(3)
    assert [ComputeDomain(("a.1", "a.1"))] == shared(world)
    (domain,) = world.domains.values()
    assert set(world.nodes_of("chat")[0]) == {member.node for member in domain.members}


@pytest.mark.parametrize(
    ("nodes", "spec"),
    [
        pytest.param(rack("a.1", 2), expert_spec(1, 4), id="one pod"),
        pytest.param([board("b-0"), board("b-1")], pool_spec(8), id="one board"),
    ],
)
def test_a_replica_in_one_pod_has_none(nodes: list[object], spec: PoolSpec) -> None:
    world = World.of(nodes, pool("chat", spec))  # type: ignore[arg-type]
    world.driver = True
    world.turn(IN_USE)
    assert [None] == shared(world)
    assert {} == world.domains


def test_stages_that_each_have_a_tray_in_another_rack_have_none() -> None:
    """Between racks there is no NVLink to share memory over."""
    spec = replace(pool_spec(4, accelerator="GB200"))
    spec = replace(
        spec,
        shape=replace(spec.shape, pipeline_parallel=2),
        placement=replace(spec.placement, domain=DomainRule.Preferred),
    )
    world = World.of([tray("a", "a.1"), tray("b", "b.1")], pool("chat", spec))
    world.driver = True
    world.turn(IN_USE)
    assert (1, [None]) == (world.serving("chat"), shared(world))


def test_without_the_driver_nothing_is_different_and_its_arrival_restarts_nothing() -> None:
    """Replicas that run keep running as they are; what is placed from then on has one."""
    world = World.of(rack("a.1", 6), pool("chat", two_trays()))
    world.turn(IN_USE)
    before = world.status("chat").assignments
    assert [None] == shared(world)
    world.driver = True
    world.turn(IN_USE)
    assert before == world.status("chat").assignments
    world.edit("chat", two_trays(2))
    world.turn(IN_USE)
    assert [None, ComputeDomain(("a.1", "a.1"))] == shared(world)
    assert 2 == world.serving("chat")


def test_a_replica_is_complete_only_with_its_domain() -> None:
    """What its pods claim has to be there before any of them may run."""
    world = forming(2)
    world.turn(1)
    world.domains = {}
    world.now += 5.0
    world.decide()
    assert [False] == [each.complete for each in world.status("chat").assignments]
    assert 2 == len(world.pods)
    world.turn(IN_USE)
    assert 1 == world.serving("chat")


@pytest.mark.parametrize("terminating", [True, False])
def test_a_replica_ends_with_its_domain(terminating: bool) -> None:  # noqa: FBT001 - the case
    """A finalizer of the driver may hold it, while its daemons are gone already: no claim of the pods fits another."""
    world = serving(4)
    world.now += 120.0
    (name,) = world.domains
    world.domains = {name: replace(world.domains[name], terminating=True)} if terminating else {}
    world.decide()
    (event,) = [each for each in world.decision("chat").events if each.reason is Reason.ComputeDomainDeleted]
    assert f"somebody deleted ComputeDomain team/{name}" in event.message
    assert [1] == [each.replica for each in world.status("chat").assignments]
    assert world.status("chat").failure is None
    world.turn(IN_USE)
    assert 1 == world.serving("chat")
    assert name not in world.domains


def test_a_domain_that_is_deleted_at_once_again_is_waited_for() -> None:
    """Whoever deletes it within the first minute would do it again."""
    world = serving(4)
    world.domains = {}
    world.now += 1.0
    world.decide()
    failure = world.status("chat").failure
    assert failure is not None
    assert (1, Reason.ComputeDomainDeleted) == (failure.count, failure.explanation.reason)


def test_domains_that_nobody_can_list_end_no_replica() -> None:
    """The API group is away, or RBAC took the right: that says nothing about what runs."""
    world = serving(2)
    before = world.status("chat").assignments
    world.driver = False
    world.now += 5.0
    world.decide()
    assert before == world.status("chat").assignments


def test_a_replica_that_waits_for_its_gates_is_placed_anew_when_the_driver_goes() -> None:
    """Its pods would claim what nobody makes any more."""
    world = forming(2)
    world.turn(1)
    world.driver = False
    world.turn(IN_USE)
    assert ([1], [None]) == ([each.replica for each in world.status("chat").assignments], shared(world))
    assert 1 == world.serving("chat")


def test_a_node_in_somebodys_domain_is_passed_over_by_name() -> None:
    """Issue 353 of the driver: one per node. A replica in one pod may go there all the same."""
    world = forming(2)
    world.theirs = (somebodys("a.1-t1"),)
    world.decide()
    status, reason, message = world.condition("chat", "Placed")
    assert ("False", "NoSlot") == (status, reason)
    assert "passed over: node a.1-t1 is in ComputeDomain other/theirs, and can be in one only" in message
    world.pools["one"] = pool("one", expert_spec(1, 4, external(2)))
    world.decide()
    assert [("a.1-t0",), ("a.1-t1",)] == sorted(world.nodes_of("one"))


def test_a_node_that_its_driver_labelled_counts_too() -> None:
    """Also with the UID of a ComputeDomain that is gone: the driver takes the label off by itself."""
    world = forming(2)
    first, second = world.nodes
    world.nodes = [first, replace(second, labels=(*second.labels, ("resource.nvidia.com/computeDomain", "5f-0")))]
    world.decide()
    assert "node a.1-t1 is in ComputeDomain of UID 5f-0" in world.condition("chat", "Placed")[2]
    world.nodes = [first, second]
    world.turn(IN_USE)
    assert 1 == world.serving("chat")


def half_trays(replicas: int) -> PoolSpec:
    """Ten GPUs on five trays, two on each: the parts of a stage that no tray holds whole are equal."""
    spec = pool_spec(10, external(replicas), "GB200")
    return replace(spec, model=replace(spec.model, model_id="microsoft/phi-4"))


def test_two_replicas_never_share_a_tray_though_there_are_gpus_for_both() -> None:
    world = forming(5, half_trays(2))
    world.turn(IN_USE)
    assert 1 == world.serving("chat")
    (nodes,) = world.nodes_of("chat")
    assert 5 == len(set(nodes))
    assert "5 NodeInComputeDomain (a.1-t0, a.1-t1, a.1-t2, ...)" in world.condition("chat", "Placed")[2]
    world.nodes = [*world.nodes, *rack("b.1", 5)]
    world.turn(IN_USE)
    assert 2 == world.serving("chat")


def test_a_full_rack_rolls_out_into_the_nodes_that_the_old_replica_leaves() -> None:
    """The successor is promised them at once, and its gates fall when the old domain is gone."""
    spec = replace(two_trays(), rollout=RECREATE)
    world = serving(2, spec)
    world.edit("chat", rolled(spec))
    world.turn(1)
    assert [1] == [each.replica for each in world.status("chat").assignments]
    for _ in range(12):
        world.turn(1)
        used = [member.node for each in world.domains.values() for member in each.members]
        assert len(used) == len(set(used))
    assert 1 == world.serving("chat")
    assert 1 == len(world.domains)


def test_a_domain_that_lingers_keeps_the_successor_behind_its_gates() -> None:
    """The driver is slow: nothing else is tried, and no id is used up."""
    spec = replace(two_trays(), rollout=RECREATE)
    world = serving(2, spec)
    old = next(iter(world.domains.values()))
    world.edit("chat", rolled(spec))
    for _ in range(8):
        world.turn(1)
        world.domains[old.name] = replace(old, terminating=True)
    assert [1] == [each.replica for each in world.status("chat").assignments]
    assert all(pod.gated for pod in world.pods.values())
    del world.domains[old.name]
    world.turn(IN_USE)
    assert 1 == world.serving("chat")


def test_a_promise_is_lost_to_somebody_who_takes_a_node_into_a_domain() -> None:
    world = forming(3)
    world.turn(1)
    (nodes,) = world.nodes_of("chat")
    world.theirs = (somebodys(nodes[0]),)
    world.now += 5.0
    world.decide()
    (event,) = world.decision("chat").events
    assert Reason.SlotTaken is event.reason
    assert f"node {nodes[0]} is in ComputeDomain other/theirs" in event.message
    assert nodes[0] not in world.nodes_of("chat")[0]


def test_a_node_that_changes_its_clique_before_the_gates_fall_is_left() -> None:
    world = forming(2)
    world.turn(1)
    world.nodes = [tray(each.name, "a.2") for each in world.nodes]
    world.now += 5.0
    world.decide()
    assert ([1], [ComputeDomain(("a.2", "a.2"))]) == (
        [each.replica for each in world.status("chat").assignments],
        shared(world),
    )


def test_a_fabric_that_comes_up_before_the_gates_fall_takes_nothing_away() -> None:
    """Until then the label has a clique of zeros, and another one says that the trays are in one rack."""
    rack_of = {"ds.coreweave.com/nvlink.domain": "r1"}
    world = World.of([tray(name, f"{NO_FABRIC}.0", rack_of) for name in ("t-0", "t-1")], pool("chat", two_trays()))
    world.driver = True
    world.turn(1)
    assert [ComputeDomain(("", ""))] == shared(world)
    world.nodes = [tray(each.name, "a.1", rack_of) for each in world.nodes]
    world.now += 5.0
    world.decide()
    assert [0] == [each.replica for each in world.status("chat").assignments]
    world.turn(IN_USE)
    assert 1 == world.serving("chat")


@pytest.mark.parametrize("turns", range(9))
def test_a_second_pass_changes_nothing_at_any_step(turns: int) -> None:
    """L3."""
    world = forming(4, two_trays(2))
    world.turn(turns)
    first = world.decide()
    assert first.pools[0].status == world.decide().pools[0].status
