"""Nodes as nobody should write them, from the API's JSON to every answer: reasons, no exception, and nothing undone."""

from __future__ import annotations

import copy
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.terminal import listed, weft
from tests.holding.cluster import CLIQUE, GPU, boards, node_body, rack
from tests.holding.operation import Operation, pool_body
from weft.catalog import load
from weft.cli.cluster.running import Running
from weft.cli.cluster.sitting import seat
from weft.cli.explain.considered import considered, considered_page
from weft.cli.telling.terminal import console
from weft.fabric import build_fabric

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]
TAINTS = 10_000


def tainted(name: str, count: int = TAINTS) -> Json:
    body = node_body(name, "NVIDIA-H200", 8)
    body["spec"]["taints"] = [{"key": f"team-{index}/x", "effect": "NoSchedule"} for index in range(count)]
    return body


def twins() -> list[Json]:
    """Two nodes with one hostname."""
    found = boards(2)
    for body in found:
        body["metadata"]["labels"]["kubernetes.io/hostname"] = "same"
    return found


def bare(name: str = "bare") -> Json:
    """A node with devices and without a label."""
    body = node_body(name, "NVIDIA-H200", 8)
    body["metadata"]["labels"] = None
    return body


# Nodes, what a pool for H200 is told under Planned or Placed, and what `weft fabric` says of them.
WRONG: dict[str, tuple[list[Json], str, str]] = {
    "no labels": ([bare()], "no label names the product", "AcceleratorUnknown: node bare offers 8 nvidia.com/gpu"),
    "nothing at all": ([{"metadata": {"name": "n"}}], "the cluster has none", "no node offers accelerators"),
    "0 GPUs": (
        [node_body("b", "NVIDIA-H200", 0)],
        "is the device plugin running?",
        "DevicePluginMissing: node b offers 0",
    ),
    "-1 GPUs": (
        [node_body("b", "NVIDIA-H200", -1)],
        "is the device plugin running?",
        "status.capacity must be an object of amounts",
    ),
    "10,000 taints": ([tainted("b")], "node b has the taint team-0/x:NoSchedule", "and 9996 more taints"),
    "no GPU in the fabric": (
        [{"metadata": {"name": "cpu"}, "status": {"capacity": {"cpu": "8"}}}],
        "the cluster has none",
        "no node offers accelerators",
    ),
}


@pytest.mark.parametrize(("nodes", "reason", "shown"), WRONG.values(), ids=WRONG)
def test_a_pool_on_wrong_nodes_is_told_why_and_gets_no_pod(nodes: list[Json], reason: str, shown: str) -> None:
    world = Operation.of(copy.deepcopy(nodes), pool_body("chat", "H200", 8, 1))
    world.turn(3)
    told = world.conditions_of("chat")
    assert reason in " ".join((*told["Planned"], *told["Placed"]))
    assert {} == world.cluster.pods


def test_a_gpu_that_falls_off_the_only_board_makes_no_shape_invalid() -> None:
    """It is a matter of room: nobody has to edit anything, and the replica comes when the GPU does."""
    world = Operation.of(boards(1), pool_body("chat", "H200", 8, 1))
    world.cluster.lose("b-0", 1)
    world.turn(2)
    assert ("True", "False") == tuple(world.condition("chat", kind)[0] for kind in ("Planned", "Placed"))
    assert "the largest hole is 7 of 7 on b-0" in world.condition("chat", "Placed")[2]
    world.cluster.lose("b-0", 0)
    world.rest()
    assert [0] == world.serving("chat")


@pytest.mark.parametrize(("nodes", "reason", "shown"), WRONG.values(), ids=WRONG)
def test_the_fabric_of_wrong_nodes_is_shown_with_the_reason(
    nodes: list[Json], reason: str, shown: str, tmp_path: Path
) -> None:
    """On the terminal; a count below zero is no cluster's word and is refused with the field."""
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(listed(*({"apiVersion": "v1", "kind": "Node", **node} for node in nodes))))
    ending = weft("fabric", "-f", str(file))
    assert reason
    assert shown in " ".join((ending.out + ending.err).split())
    assert "Traceback" not in ending.err


@pytest.mark.parametrize(("nodes", "reason", "shown"), WRONG.values(), ids=WRONG)
def test_explain_lists_wrong_nodes_among_the_domains_that_were_considered(
    nodes: list[Json], reason: str, shown: str
) -> None:
    """Beside a good board that is full: what is known of the others does not keep it from being named."""
    assert reason != shown
    others = [node for node in copy.deepcopy(nodes) if node["metadata"]["name"] != "b-0"]
    world = Operation.of([*boards(1), *others], pool_body("chat", "H200", 8, 1))
    assert world.cluster.occupy("b-0", 5)
    world.turn(2)
    assert "NoSlot" == world.condition("chat", "Placed")[1]
    pods, pools = world.cluster.pod_records(), world.pools()
    fabric = build_fabric(world.cluster.node_records(), pods, load())
    found = considered(pools[0], seat(fabric, pods, Running(pools), {}))
    assert found is not None
    assert "b-0" in dict(found.domains)
    assert dict(found.domains).keys() == {domain.name for domain in fabric.domains}
    console().print(considered_page(found))


def test_two_nodes_with_one_hostname_each_take_a_replica() -> None:
    """Pods are pinned by the name of the node, which is its own."""
    world = Operation.of(twins(), pool_body("chat", "H200", 8, 2))
    world.rest()
    assert ([0, 1], {("b-0",), ("b-1",)}) == (world.serving("chat"), set(world.nodes_of("chat")))


def test_clique_labels_that_change_in_use_move_nothing_and_nothing_new_spans_them() -> None:
    """S9 for what comes, and no replica that serves is touched: NVLink did not change with the label."""
    world = Operation.of(rack("a.1", 6), pool_body("pair", "GB200", 8, 2))
    world.rest()
    before = world.nodes_of("pair")
    for node in ("a.1-t1", "a.1-t3", "a.1-t4"):
        world.cluster.label(node, CLIQUE, "b.1")
    world.rest()
    assert ([0, 1], before) == (world.serving("pair"), world.nodes_of("pair"))
    fabric = build_fabric(world.cluster.node_records(), world.cluster.pod_records(), load())
    assert "DomainChanged" in [note.reason.value for note in fabric.notes]
    world.edit("pair", scaling={"mode": "External", "replicas": 3, "maxReplicas": 9})
    world.rest()
    assert ([0, 1], "NoSlot") == (world.serving("pair"), world.condition("pair", "Placed")[1])
    world.cluster.label("a.1-t4", CLIQUE, "a.1")
    world.rest()
    assert [0, 1, 2] == world.serving("pair")


def test_ten_thousand_taints_on_every_node_cost_no_pass() -> None:
    """Tolerated or not: neither reading nor deciding looks at each of them for each of the others."""
    everything = {"accelerators": ["H200"], "tolerations": [{"operator": "Exists"}]}
    pools = (pool_body("chat", "H200", 8, 2), pool_body("bold", "H200", 8, 2, placement=everything))
    world = Operation.of([tainted(f"b-{index}") for index in range(4)], *pools)
    began = time.process_time()
    world.decide()
    world.decide()
    assert time.process_time() - began < 10
    assert ([], 2) == (world.nodes_of("chat"), len(world.nodes_of("bold")))


maybe: st.SearchStrategy[Any] = st.sampled_from([None, {}])
texts = st.sampled_from(
    ["", "NVIDIA-H200", "NVIDIA-GB200-SHARED", "NVIDIA-H200-MIG-1g.18gb", "x" * 300, "a.1", "\u0000"]
)
labels_ = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu.product", CLIQUE, "topology.kubernetes.io/zone", "nvidia.com/gpu.memory", "x"]),
    texts,
)
amounts = st.dictionaries(
    st.sampled_from([GPU, "amd.com/gpu", "cpu", "memory", "nvidia.com/gpu.shared"]),
    st.sampled_from(["-1", "0", "8", "8k", "1e3", "", "x", "0.5", 4, -3, None]),
)
taints = st.lists(
    st.fixed_dictionaries({"key": texts}, optional={"value": st.none() | texts, "effect": st.none() | texts}),
    max_size=3,
)
conditions = st.lists(
    st.fixed_dictionaries({"type": texts}, optional={"status": st.sampled_from(["True", "False", None])})
)
raw_nodes: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.sampled_from(["n-0", "n-1", "n-2"])},
            optional={"labels": maybe | labels_, "uid": texts, "deletionTimestamp": st.none() | texts},
        )
    },
    optional={
        "spec": maybe
        | st.fixed_dictionaries(
            {}, optional={"taints": st.none() | taints, "unschedulable": st.none() | st.booleans()}
        ),
        "status": maybe
        | st.fixed_dictionaries(
            {},
            optional={
                "capacity": maybe | amounts,
                "allocatable": maybe | amounts,
                "conditions": st.just([{"type": "Ready", "status": "True"}]) | st.none() | conditions,
            },
        ),
    },
)


@settings(max_examples=40, deadline=None)
@given(bodies=st.lists(raw_nodes, max_size=4, unique_by=lambda body: str(body["metadata"]["name"])))
def test_whatever_the_api_says_of_nodes_there_are_answers(bodies: list[Json]) -> None:
    """Each pool gets its conditions, and promises only what is there."""
    nodes = {str(body["metadata"]["name"]): copy.deepcopy(body) for body in bodies}
    world = Operation.of([*nodes.values(), *boards(1)], pool_body("chat", "H200", 8, 2))
    world.decide()
    world.converge("chat")
    world.decide()
    assert ("b-0",) in world.nodes_of("chat")
    assert {"Planned", "Placed"} <= world.conditions_of("chat").keys()
    for (name,) in set(world.nodes_of("chat")) - {("b-0",)}:
        assert "8" == nodes[name]["status"]["allocatable"][GPU]
