"""Where nodes are in the network, and how far apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.cluster import board, rack, tray
from weft.catalog import load
from weft.domain.fabric import distance
from weft.domain.reports import Reports, TopologyReport
from weft.fabric import build_fabric

ZONE = "topology.kubernetes.io/zone"
TIER = "fabric.topograph.run/tier-"
AWS = "topology.k8s.aws/network-node-layer-"
GKE = "cloud.google.com/gce-topology-"
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
            {f"{CW}leafgroup": "l", f"{CW}superpod": "s", f"{CW}fabric": "f", "node.coreweave.cloud/rack": "r"},
            ("", "f", "s", "l", "r"),
        ),
        ({"ib.coreweave.cloud/fabric": "f", "ib.coreweave.cloud/leafgroup": "l"}, ("", "f", "l")),
    ],
    ids=["none", "zone", "topograph", "topograph 0.5", "aws", "gke", "oci", "coreweave", "coreweave ib"],
)
def test_each_network_is_read_outermost_first(labels: dict[str, str], expected: tuple[str, ...]) -> None:
    assert expected == tiers(labels)


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
    }
    noise = {"networking.gke.io.networks/rdma-0.IP": 1, "smarter-devices/fuse": 20, "rdma/none": 0}
    (one,) = rack("c.1", 1)
    offered = tuple(sorted({**dict(one.allocatable), **resources, **noise}.items()))
    found = build_fabric([type(one)(one.name, one.uid, one.labels, offered, offered)], (), load()).nodes()[one.name]
    assert resources == dict(found.nics)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (("z", "s", "l"), ("z", "s", "l"), 0),
        (("z", "s", "l"), ("z", "s", "m"), 1),
        (("z", "s", "l"), ("z", "t", "m"), 2),
        (("z", "s", "l"), ("y", "s", "l"), 3),
        (("z", "s", "l"), ("z", "t", "l"), 2),
        (("z", "s", ""), ("z", "s", ""), 1),
        (("", "s", "l"), ("", "s", "l"), 0),
        (("", "", ""), ("", "", ""), 3),
        (("z", "s", "l"), ("z",), 2),
        ((), (), 0),
    ],
)
def test_distance_is_how_many_levels_must_be_climbed(
    one: tuple[str, ...], other: tuple[str, ...], expected: int
) -> None:
    """Leaves of one name below different spines are different leaves, and two unknown ones are not the same."""
    assert expected == distance(one, other)


PATHS = st.lists(st.sampled_from(["", "a", "b"]), max_size=4).map(tuple)


@given(PATHS, PATHS)
def test_distance_is_symmetric_and_bounded(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert distance(one, other) == distance(other, one)
    assert 0 <= distance(one, other) <= max(len(one), len(other))
