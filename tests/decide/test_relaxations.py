"""A restriction is lifted where a user asks for it and the administrator allows it; told while it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.test_splits import half, split_conditions, split_world
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.control.metrics.telemetry import Telemetry
from weft.domain.errors import Invalid
from weft.domain.relaxations import permitting
from weft.domain.spec import EngineSpec, PodSpec, PoolSpec
from weft.domain.workload import Role
from weft.render import render_pods

BOTH = ("RunAsRoot", "IPCLock")


def asking(*names: str, device: str = "rdma/hca") -> PoolSpec:
    engine = EngineSpec(resources=((device, "1"),) if device else (("memory", "8Gi"),))
    return replace(pool_spec(1, external(1)), engine=engine, pod=PodSpec(relaxations=names))


def decided(spec: PoolSpec) -> World:
    node = replace(board("b-0"), offers=(("memory", 2.0**41), ("rdma/hca", 8.0)))
    world = World.of([node], pool("chat", spec))
    world.turn()
    return world


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        (asking("RunAsRoot"), "RelaxationNotAllowed", "start `weft run` with --allow-relaxation RunAsRoot"),
        (permitting(asking(*BOTH), ["RunAsRoot"]), "RelaxationNotAllowed", "--allow-relaxation IPCLock"),
        (permitting(asking("IPCLock"), BOTH), "SpecInvalid", "lost on a user other than root"),
        (permitting(asking(*BOTH, device=""), BOTH), "SpecInvalid", "name the device in spec.engine.resources.rdma"),
        (permitting(asking("HostNetwork"), ["HostNetwork"]), "FeatureUnsupported", "HostNetwork is not supported yet"),
    ],
    ids=["nothing allowed", "one of two allowed", "without root", "without a device", "host network"],
)
def test_without_both_words_no_pod_exists(spec: PoolSpec, reason: str, words: str) -> None:
    world = decided(spec)
    status, why, message = world.condition("chat", "Planned")
    assert (status, why) == ("False", reason)
    assert words in message
    assert world.nodes_of("chat") == []
    assert all(each.kind != "Relaxed" for each in world.decision("chat").conditions)


def test_a_writable_root_takes_both_words_too() -> None:
    world = decided(asking("WritableRoot"))
    assert world.condition("chat", "Planned")[1] == "RelaxationNotAllowed"
    world = decided(permitting(asking("WritableRoot"), ["WritableRoot"]))
    assert world.nodes_of("chat") == [("b-0",)]
    assert world.condition("chat", "Relaxed")[:2] == ("True", "RelaxationAllowed")


def test_what_is_asked_for_and_allowed_is_told_by_a_condition_and_a_metric() -> None:
    world = decided(permitting(asking(*BOTH), BOTH))
    assert world.nodes_of("chat") == [("b-0",)]
    told = "the administrator allows spec.pod.relaxations RunAsRoot, IPCLock"
    assert world.condition("chat", "Relaxed") == ("True", "RelaxationAllowed", told)
    telemetry = Telemetry()
    telemetry.show(world.snapshot(), world.decide())
    shown = 'weft_pool_condition{condition="Relaxed",namespace="team",pool="chat",reason="RelaxationAllowed"} 1.0'
    assert shown in telemetry.text().decode().splitlines()


def test_what_the_administrator_allows_changes_nothing_for_who_asks_for_nothing() -> None:
    spec = pool_spec(1, external(1))
    assert permitting(spec, BOTH) is spec


def test_an_allowance_that_is_taken_back_leaves_what_runs_and_lets_nothing_new_start() -> None:
    world = decided(permitting(asking(*BOTH), BOTH))
    world.pools["chat"] = replace(world.pools["chat"], spec=asking(*BOTH))
    world.turn()
    assert world.nodes_of("chat") == [("b-0",)]
    assert world.condition("chat", "Planned")[1] == "RelaxationNotAllowed"
    assert all(each.kind != "Relaxed" for each in world.decision("chat").conditions)
    world.pools["chat"] = replace(world.pools["chat"], spec=replace(asking(*BOTH), scaling=external(2)))
    world.turn()
    assert world.nodes_of("chat") == [("b-0",)]


def test_a_split_tells_what_its_halves_may_do() -> None:
    pods = PodSpec(relaxations=("RunAsRoot",))
    prefill, decode = (replace(half(role), pod=pods) for role in (Role.Prefill, Role.Decode))
    world = split_world(permitting(prefill, pods.relaxations), permitting(decode, pods.relaxations))
    world.turn()
    assert split_conditions(world)["Relaxed"] == ("True", "RelaxationAllowed")


def test_no_pod_is_rendered_with_more_than_is_allowed() -> None:
    """Whoever may write a status may assign replicas: rendering asks for the administrator's word once more."""
    world = decided(permitting(asking("RunAsRoot"), ["RunAsRoot"]))
    record = world.pools["chat"]
    (assigned,) = record.status.assignments
    assert render_pods(record, assigned)[0]["spec"]["containers"][0]["securityContext"]["runAsUser"] == 0
    taken_back = replace(record, spec=asking("RunAsRoot"))
    with pytest.raises(Invalid, match="RunAsRoot is not allowed in this cluster"):
        render_pods(taken_back, assigned)
