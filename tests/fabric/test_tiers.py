"""Where nodes are in the network, and how far apart."""

from __future__ import annotations

import pytest

from tests.fabric.cluster import board, rack, tray
from weft.catalog import load
from weft.domain.reports import Reports, TopologyReport
from weft.fabric import build_fabric

ZONE = "topology.kubernetes.io/zone"
TIER = "fabric.topograph.run/tier-"
AWS = "topology.k8s.aws/network-node-layer-"
GKE = "cloud.google.com/gce-topology-"
NEBIUS = "topology.nebius.com/"
CW = "backend.coreweave.cloud/"


def tiers(labels: dict[str, str], *topologies: tuple[str, ...]) -> tuple[str, ...]:
    reports = Reports(topologies=tuple(TopologyReport(str(index), levels) for index, levels in enumerate(topologies)))
    return build_fabric([board("b", labels=labels)], (), load(), reports).nodes()["b"].tiers


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, ("",)),
        ({ZONE: "z"}, ("z",)),
        ({ZONE: "z", f"{TIER}0": "leaf", f"{TIER}1": "spine", f"{TIER}2": "core"}, ("z", "core", "spine", "leaf")),
        (
            {f"network.topology.nvidia.com/{level}": level for level in ("leaf", "spine", "core")},
            ("", "core", "spine", "leaf"),
        ),
        ({ZONE: "z", f"{AWS}1": "top", f"{AWS}2": "middle", f"{AWS}3": "leaf"}, ("z", "top", "middle", "leaf")),
        ({f"{GKE}block": "b", f"{GKE}subblock": "s", f"{GKE}host": "h"}, ("", "b", "s", "h")),
        ({"oci.oraclecloud.com/host.network_block_id": "n", "oci.oraclecloud.com/host.rack_id": "r"}, ("", "n", "r")),
        (
            {f"oci.oraclecloud.com/rdma.{part}_id": part for part in ("local_block", "network_block", "hpc_island")},
            ("", "hpc_island", "network_block", "local_block"),
        ),
        (
            {f"{CW}leafgroup": "l", f"{CW}superpod": "s", f"{CW}fabric": "f", "node.coreweave.cloud/rack": "r"},
            ("", "f", "s", "l", "r"),
        ),
        ({"ib.coreweave.cloud/fabric": "f", "ib.coreweave.cloud/leafgroup": "l"}, ("", "f", "l")),
        (
            {f"{NEBIUS}gpu-cluster-id": "c", f"{NEBIUS}tier-1": "leaf", f"{NEBIUS}tier-2": "spine"},
            ("", "c", "spine", "leaf"),
        ),
        ({"crusoe.ai/pod.id": "p", "crusoe.ai/ib.partition.id": "ib", ZONE: "z"}, ("z", "ib", "p")),
    ],
    ids=[
        "none",
        "zone",
        "topograph",
        "topograph 0.5",
        "aws",
        "gke",
        "oci",
        "oci rdma",
        "coreweave",
        "coreweave ib",
        "nebius",
        "crusoe",
    ],
)
def test_each_network_is_read_outermost_first(labels: dict[str, str], expected: tuple[str, ...]) -> None:
    assert expected == tiers(labels)


def test_a_level_that_nobody_knows_brings_no_nodes_together() -> None:
    """Nor does it hide another network, of which something is known."""
    unknown = {f"oci.oraclecloud.com/rdma.{part}_id": "no-imds-data" for part in ("hpc_island", "network_block")}
    assert ("",) == tiers({ZONE: "unknown", **unknown})
    assert ("", "r") == tiers({**unknown, "oci.oraclecloud.com/host.rack_id": "r"})


def test_what_topograph_measured_beats_what_a_cloud_tells() -> None:
    assert ("z", "leaf") == tiers({ZONE: "z", f"{TIER}0": "leaf", f"{AWS}1": "top"})


def test_levels_of_kueue_that_nobody_else_names_become_tiers_at_their_place() -> None:
    """Levels that are read elsewhere are no tiers twice."""
    labels = {
        ZONE: "z",
        f"{AWS}1": "top",
        f"{AWS}3": "leaf",
        "ex.com/hall": "h",
        "ex.com/pod": "p",
        "ex.com/shelf": "s",
    }
    levels = (ZONE, "ex.com/hall", f"{AWS}1", "ex.com/pod", f"{AWS}3", "ex.com/shelf", "kubernetes.io/hostname")
    assert ("z", "h", "top", "p", "leaf", "s") == tiers(labels, levels)


@pytest.mark.parametrize(
    ("topologies", "said"),
    [
        ([("ex.com/dc", "ex.com/row"), ("ex.com/hall", "ex.com/dc", "ex.com/row")], []),
        (
            [("ex.com/dc", "ex.com/row"), ("ex.com/row", "ex.com/dc")],
            ["Topology 1 has ex.com/row above ex.com/dc, and Topology 0 has another order, which is used"],
        ),
        (
            [(f"{AWS}2", "ex.com/row", f"{AWS}1")],
            [f"Topology 0 has {AWS}2 above {AWS}1, and its network has another order, which is used"],
        ),
    ],
    ids=["none", "each other", "a network"],
)
def test_topologies_that_contradict_each_other_or_a_network_are_told(
    topologies: list[tuple[str, ...]], said: list[str]
) -> None:
    reports = Reports(topologies=tuple(TopologyReport(str(index), levels) for index, levels in enumerate(topologies)))
    labels = {"ex.com/dc": "d", "ex.com/row": "r"}
    found = build_fabric([board("b", labels=labels)], (), load(), reports)
    assert said == [note.message for note in found.notes]


def test_levels_of_kueue_are_enough_alone() -> None:
    labels = {"cloud.provider.com/topology-block": "b", "cloud.provider.com/topology-rack": "r"}
    assert ("", "b", "r") == tiers(labels, tuple(labels))


def test_the_nodes_of_a_fabric_have_one_depth() -> None:
    """Also where one of them names fewer levels, or is in another cloud's network."""
    nodes = [
        board("a", labels={ZONE: "z", f"{AWS}1": "top", f"{AWS}2": "middle", f"{AWS}3": "leaf"}),
        board("b", labels={ZONE: "z", f"{AWS}1": "top"}),
        board("c", labels={ZONE: "z", "oci.oraclecloud.com/host.rack_id": "r"}),
    ]
    found = build_fabric(nodes, (), load()).nodes()
    assert ("z", "top", "middle", "leaf") == found["a"].tiers
    assert ("z", "top", "", "") == found["b"].tiers
    assert ("z", "r", "", "") == found["c"].tiers


def test_a_rack_has_the_tiers_that_its_trays_share() -> None:
    nodes = [
        tray(f"t-{index}", "c.1", {ZONE: "z", f"{GKE}block": "b", f"{GKE}host": f"h{index}"}) for index in range(2)
    ]
    assert ("z", "b", "") == build_fabric(nodes, (), load()).domains[0].tiers


def test_network_devices_are_counted_by_resource() -> None:
    resources = {
        "rdma/ib": 8,
        "vpc.amazonaws.com/efa": 32,
        "nvidia.com/mlnxnics": 8,
        "networking.gke.io.networks/rdma-0": 1,
        "nvidia.com/sriov-rdma-vf": 16,
        "amd.com/vnic": 8,
        "beta.hpe.com/cxi": 4,
    }
    noise = {"networking.gke.io.networks/rdma-0.IP": 1, "smarter-devices/fuse": 20, "rdma/none": 0}
    (one,) = rack("c.1", 1)
    offered = tuple(sorted({**dict(one.allocatable), **resources, **noise}.items()))
    found = build_fabric([type(one)(one.name, one.uid, one.labels, offered, offered)], (), load()).nodes()[one.name]
    assert resources == dict(found.nics)
