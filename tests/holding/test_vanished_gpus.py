"""Nodes whose GPUs vanish for a moment, as plugins restart or labels are written anew: no pool rolls there and back.

Rules of docs/rules.md: S1, L1, L3. Engines run on, whatever their node shows.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from tests.holding.cluster import CLIQUE, GPU, boards, node_body, rack
from tests.holding.operation import Operation, pool_body
from weft.decide.replicas.vanished import VANISHED_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]
PRODUCT = "nvidia.com/gpu.product"
HALF_A_MINUTE = 30.0


def without_devices(node: Json) -> None:
    """The device plugin restarts, and the kubelet with it."""
    for part in ("capacity", "allocatable"):
        node["status"][part][GPU] = "0"


def without_product(node: Json) -> None:
    """GPU feature discovery writes its labels anew."""
    node["metadata"]["labels"].pop(PRODUCT)


def without_clique(node: Json) -> None:
    node["metadata"]["labels"].pop(CLIQUE, None)


def open_pool(*accelerators: str, **more: object) -> Json:
    """Whose shape is Weft's to choose."""
    body = pool_body("chat", accelerators[0], 8, 2, **more)
    body["spec"]["placement"] = {"accelerators": list(accelerators)}
    del body["spec"]["shape"]
    return body


def served_by_boards() -> Operation:
    """Two replicas on A100, which cost less than the H200 beside them."""
    cheap = [node_body(f"a-{index}", "NVIDIA-A100-SXM4-80GB", 8) for index in range(3)]
    world = Operation.of([*cheap, *boards(3)], open_pool("H200", "A100"))
    world.rest()
    assert {"A100"} == kinds_of(world)
    return world


def kinds_of(world: Operation) -> set[str]:
    """Accelerators of the nodes that have its pods."""
    kinds = {"a": "A100", "b": "H200"}
    return {kinds[node[0]] for nodes in world.nodes_of("chat") for node in nodes}


def engines(world: Operation) -> set[str]:
    return {pod["metadata"]["uid"] for pod in world.pods_of("chat")}


def hide(world: Operation, how: Callable[[Json], None]) -> dict[str, Json]:
    """From all nodes that the pool runs on and their like; gives these as they were."""
    before = copy.deepcopy(world.cluster.nodes)
    kind = world.nodes_of("chat")[0][0][0]
    for name, node in world.cluster.nodes.items():
        if name[0] == kind:
            how(node)
    world.cluster.revision += 1
    return before


def show(world: Operation, nodes: dict[str, Json]) -> None:
    world.cluster.nodes = nodes
    world.cluster.revision += 1


@pytest.mark.parametrize("how", [without_devices, without_product])
def test_a_pool_that_serves_keeps_its_shape_while_its_gpus_are_out_of_sight_for_a_minute(
    how: Callable[[Json], None],
) -> None:
    world = served_by_boards()
    before = engines(world)
    nodes = hide(world, how)
    world.turn(6, 10.0)
    status, reason, message = world.condition("chat", "Planned")
    assert ("False", "NoAccelerator") == (status, reason)
    assert "shows no A100 for it any more; its shape is kept unless that lasts for 300 s" in message
    assert (before, [0, 1]) == (engines(world), world.serving("chat"))
    show(world, nodes)
    world.rest()
    assert (before, [0, 1]) == (engines(world), world.serving("chat"))
    assert "True" == world.condition("chat", "Planned")[0]


def test_what_stays_out_of_sight_for_long_is_left() -> None:
    """Also where a new process looks at it half-way, which waits from then on."""
    world = served_by_boards()
    hide(world, without_devices)
    world.turn(4, HALF_A_MINUTE)
    world.restart()
    world.turn(int(VANISHED_SECONDS / HALF_A_MINUTE) - 1, HALF_A_MINUTE)
    assert [0, 1] == world.serving("chat")
    world.rest()
    assert {"H200"} == kinds_of(world)
    assert 2 == len(world.serving("chat"))


def test_a_pool_of_which_nothing_serves_takes_what_there_is_at_once() -> None:
    world = served_by_boards()
    hide(world, without_devices)
    for name in list(world.cluster.pods):
        world.cluster.crash(name)
    world.turn(1)
    assert "True" == world.condition("chat", "Planned")[0]
    world.rest()
    assert {"H200"} == kinds_of(world)


def test_who_edits_the_pool_to_other_gpus_waits_for_nothing() -> None:
    world = served_by_boards()
    hide(world, without_devices)
    world.turn(2)
    assert "False" == world.condition("chat", "Planned")[0]
    world.edit("chat", placement={"accelerators": ["H200"]})
    world.turn(1)
    assert "True" == world.condition("chat", "Planned")[0]
    world.rest()
    assert {"H200"} == kinds_of(world)


def test_a_rack_whose_clique_is_not_told_for_a_moment_keeps_its_wide_replica() -> None:
    """Of single trays alone smaller shapes would be left."""
    body = open_pool("GB200", model={"id": "meta-llama/Llama-3.3-70B-Instruct"})
    body["spec"] |= {"slo": {"tpot": {"p95": "8ms"}}, "scaling": {"mode": "External", "replicas": 1, "maxReplicas": 9}}
    world = Operation.of(rack("a.1", 8), body)
    world.rest()
    (nodes,) = world.nodes_of("chat")
    assert len(nodes) > 1
    before = engines(world)
    shown = hide(world, without_clique)
    world.turn(6, 10.0)
    assert before == engines(world)
    assert "share no NVLink domain any more" in world.condition("chat", "Planned")[2]
    show(world, shown)
    world.rest()
    assert (before, [0]) == (engines(world), world.serving("chat"))
