"""Who shares NVLink with whom, by the precedence of labels."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fabric.cluster import AMD, amd_board, board, node, rack, tray
from weft.catalog import load
from weft.domain.reasons import Reason
from weft.fabric import build_fabric

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.fabric import Fabric

TOPOGRAPH = "accelerator.topograph.run/domain"
ZONE = "topology.kubernetes.io/zone"


def fabric_of(*nodes: NodeRecord) -> Fabric:
    return build_fabric(nodes, (), load())


def domains(fabric: Fabric) -> dict[str, list[str]]:
    return {domain.name: [node.name for node in domain.nodes] for domain in fabric.domains}


def test_every_8_gpu_board_is_a_domain_of_its_own() -> None:
    fabric = fabric_of(board("b-2"), board("b-1"))
    assert domains(fabric) == {"b-1": ["b-1"], "b-2": ["b-2"]}
    assert [domain.total for domain in fabric.domains] == [8, 8]
    assert fabric.domains[0].accelerator == "H200"
    assert fabric.notes == ()


def test_the_trays_of_an_nvl72_clique_are_one_domain() -> None:
    fabric = fabric_of(*rack("uuid-a.1"), *rack("uuid-b.1"))
    assert [(domain.name, domain.total) for domain in fabric.domains] == [("uuid-a.1", 72), ("uuid-b.1", 72)]
    assert fabric.notes == ()


def test_two_cliques_of_one_rack_stay_apart() -> None:
    """The part before the dot names the rack, the part after it a partition: only a partition shares memory."""
    fabric = fabric_of(tray("t-0", "uuid-a.1"), tray("t-1", "uuid-a.2"))
    assert domains(fabric) == {"uuid-a.1": ["t-0"], "uuid-a.2": ["t-1"]}


@pytest.mark.parametrize(
    "label",
    [
        TOPOGRAPH,
        "network.topology.nvidia.com/accelerator",
        "ds.coreweave.com/nvlink.domain",
        "cloud.google.com/gce-topology-subblock",
        "topology.k8s.aws/ultraserver-id",
        "oci.oraclecloud.com/host.gpu_memory_fabric_id",
        "topology.nebius.com/nvl-instance-group-id",
        "topology.nebius.com/tier-0",
    ],
)
def test_each_rack_label_joins_trays_and_never_boards(label: str) -> None:
    """Providers write some of them on 8-GPU boards too, whose NVLink does not leave the node."""
    trays = [tray(f"t-{index}", None, {label: "rack-7"}) for index in range(2)]
    boards = [board(f"b-{index}", labels={label: "block-7"}) for index in range(2)]
    assert domains(fabric_of(*trays, *boards)) == {"b-0": ["b-0"], "b-1": ["b-1"], "rack-7": ["t-0", "t-1"]}


def test_the_clique_beats_topograph_which_beats_the_cloud() -> None:
    cloud = {"ds.coreweave.com/nvlink.domain": "cloud"}
    both = [
        tray(f"t-{index}", "clique.1" if index < 2 else None, cloud | {TOPOGRAPH: f"x-{index}"}) for index in (0, 1, 2)
    ]
    fabric = fabric_of(*both, tray("t-3", None, {"ds.coreweave.com/nvlink.domain": "other"}))
    assert domains(fabric) == {"clique.1": ["t-0", "t-1"], "x-2": ["t-2"], "other": ["t-3"]}


def test_trays_without_any_label_are_domains_of_their_own() -> None:
    assert domains(fabric_of(tray("t-0", None), tray("t-1", None))) == {"t-0": ["t-0"], "t-1": ["t-1"]}


def test_a_label_named_like_a_node_does_not_swallow_it() -> None:
    fabric = fabric_of(tray("t-0", "b-0"), board("b-0"))
    assert sorted(names for names in domains(fabric).values()) == [["b-0"], ["t-0"]]


def test_a_clique_without_a_cluster_uuid_joins_nobody() -> None:
    """NVML reports one of zeros where no fabric joins nodes, and it is the same on every board."""
    nowhere = {"nvidia.com/gpu.clique": "00000000-0000-0000-0000-000000000000.0"}
    fabric = fabric_of(board("b-0", labels=nowhere), board("b-1", labels=nowhere))
    assert domains(fabric) == {"b-0": ["b-0"], "b-1": ["b-1"]}
    racked = fabric_of(*(tray(name, nowhere["nvidia.com/gpu.clique"], {TOPOGRAPH: "rack"}) for name in ("t-0", "t-1")))
    assert domains(racked) == {"rack": ["t-0", "t-1"]}
    assert () == fabric.notes == racked.notes


def test_one_clique_with_two_topograph_domains_is_believed_and_noted() -> None:
    fabric = fabric_of(tray("t-0", "c.1", {TOPOGRAPH: "x"}), tray("t-1", "c.1", {TOPOGRAPH: "y"}))
    assert domains(fabric) == {"c.1": ["t-0", "t-1"]}
    assert [note.reason for note in fabric.notes] == [Reason.LabelsContradict]
    assert "x, y" in fabric.notes[0].message


def test_one_clique_in_two_zones_is_cut_and_noted() -> None:
    """No NVLink cable crosses zones, so the label is wrong and the cautious reading wins."""
    fabric = fabric_of(tray("t-0", "c.1", {ZONE: "a"}), tray("t-1", "c.1", {ZONE: "b"}))
    assert domains(fabric) == {"c.1/a/GB200": ["t-0"], "c.1/b/GB200": ["t-1"]}
    assert [note.reason for note in fabric.notes] == [Reason.LabelsContradict]


def test_a_tray_that_names_no_zone_stays_with_its_clique() -> None:
    fabric = fabric_of(tray("t-0", "c.1", {ZONE: "a"}), tray("t-1", "c.1"))
    assert domains(fabric) == {"c.1": ["t-0", "t-1"]}
    assert fabric.domains[0].zone == "a"


def test_one_clique_with_two_accelerators_is_cut_and_noted() -> None:
    stranger = tray("t-1", "c.1", {"nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771"})
    fabric = fabric_of(tray("t-0", "c.1"), stranger)
    assert domains(fabric) == {"c.1/GB200": ["t-0"], "c.1/H200": ["t-1"]}
    assert [note.reason for note in fabric.notes] == [Reason.LabelsContradict]


def test_a_domain_larger_than_nvlink_joins_is_noted_and_read_node_by_node() -> None:
    """Nobody knows which of the trays share NVLink, and a group over two racks would not start."""
    fabric = fabric_of(*rack("c.1", trays=19))
    assert domains(fabric) == {f"c.1-t{index}": [f"c.1-t{index}"] for index in range(19)}
    assert [note.reason for note in fabric.notes] == [Reason.LabelsContradict]
    assert "76 GPUs, more than the 72 that NVLink joins: read as separate domains" in fabric.notes[0].message


@pytest.mark.parametrize("label", [TOPOGRAPH, "ds.coreweave.com/nvlink.domain"])
def test_two_racks_with_one_clique_are_told_apart_by_a_rack_label(label: str) -> None:
    """And a tray that has none is by itself."""
    racks = [tray(f"t-{index}", "c.1", {label: "x" if index < 18 else "y"}) for index in range(36)]
    fabric = fabric_of(*racks, tray("t-36", "c.1"))
    assert {name: len(nodes) for name, nodes in domains(fabric).items()} == {"c.1/x": 18, "c.1/y": 18, "t-36": 1}
    assert all(note.message.endswith("read as separate domains") for note in fabric.notes)
    assert {Reason.LabelsContradict} == {note.reason for note in fabric.notes}


def test_a_rack_label_that_names_too_large_racks_leaves_it_to_the_next_one() -> None:
    """A capacity block of AWS has several racks, and topograph takes it for one domain."""
    finer = "topology.k8s.aws/ultraserver-id"
    racks = [tray(f"t-{index}", None, {TOPOGRAPH: "block", finer: f"u-{index // 18}"}) for index in range(36)]
    assert {"block/u-0", "block/u-1"} == set(domains(fabric_of(*racks)))


def test_the_node_object_of_a_tray_that_was_replaced_cuts_no_rack() -> None:
    """It is not ready, and has the clique of the rack still."""
    gone = replace(tray("t-gone", "c.1"), ready=False)
    fabric = fabric_of(*rack("c.1"), gone)
    assert ["c.1"] == list(domains(fabric))
    assert () == fabric.notes


def test_boards_whose_nvlink_ends_at_the_node_share_none_by_a_clique() -> None:
    clique = {"nvidia.com/gpu.clique": "c.1"}
    fabric = fabric_of(board("b-0", labels=clique), board("b-1", labels=clique))
    assert domains(fabric) == {"b-0": ["b-0"], "b-1": ["b-1"]}
    assert "16 GPUs, more than the 8 that NVLink joins" in fabric.notes[0].message


def test_amd_boards_are_read_by_their_own_labels() -> None:
    fabric = fabric_of(amd_board("m-0"))
    only = fabric.domains[0].nodes[0]
    assert (only.accelerator, only.resource, only.total) == ("MI300X", AMD, 8)
    beta = node("m-1", {"beta.amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}, 8, AMD)
    assert domains(fabric_of(beta)) == {"m-1": ["m-1"]}


def test_the_order_of_nodes_does_not_matter() -> None:
    nodes = [*rack("c.1", 3), board("b-0"), amd_board("m-0"), node("plain", {}, 8)]
    assert fabric_of(*nodes) == fabric_of(*reversed(nodes))


@pytest.mark.parametrize("ready", [9, 10])
def test_racks_that_a_label_tells_apart_stay_two_while_their_trays_start(ready: int) -> None:
    """With nine of each up there are no more GPUs than one rack has."""
    racks = [
        replace(tray(f"{name}-{index}", "c.1", {TOPOGRAPH: name}), ready=index < ready)
        for name in "xy"
        for index in range(18)
    ]
    assert {"c.1/x", "c.1/y"} == set(domains(fabric_of(*racks)))


def test_trays_of_which_no_label_says_where_nvlink_leads_are_told_of() -> None:
    """Else nobody knows why a group of eight has no place on nine trays of four."""
    (note,) = fabric_of(*(tray(f"t-{index}", None) for index in range(9)), board("b-1"), board("b-2")).notes
    assert Reason.NvlinkDomainUnknown is note.reason
    assert "9 nodes of GB200 (t-0, t-1, t-2, t-3, ...) name no NVLink domain" in note.message


def test_a_clique_that_names_no_fabric_says_no_more_than_none() -> None:
    zeros = "00000000-0000-0000-0000-000000000000.0"
    assert [Reason.NvlinkDomainUnknown] == [note.reason for note in fabric_of(tray("a", zeros), tray("b", None)).notes]


@pytest.mark.parametrize(
    "others",
    [
        (),
        (tray("b", "uuid.1"),),
        (tray("b", None, {ZONE: "z"}),),
        (node("b", {"nvidia.com/gpu.product": "NVIDIA-GB300"}, 4),),
    ],
    ids=["alone", "beside a rack", "in another zone", "of another kind"],
)
def test_a_tray_that_no_other_could_join_is_not(others: tuple[NodeRecord, ...]) -> None:
    assert () == fabric_of(tray("a", None), *others).notes


def test_a_tray_that_lacks_the_clique_of_its_rack_is_told_of_once() -> None:
    labels = {TOPOGRAPH: "rack"}
    found = fabric_of(tray("a", "uuid.1", labels), tray("b", None, labels), tray("c", None, labels))
    assert [Reason.LabelsContradict] == [note.reason for note in found.notes]


def test_a_rack_with_cliques_of_two_fabrics_is_told_of() -> None:
    """A restart may change the cluster UUID, and the nodes that were labelled again are apart from the others."""
    labels = {TOPOGRAPH: "r-7"}
    (note,) = fabric_of(tray("a", "old.1", labels), tray("b", "new.1", labels), tray("c", "new.1", labels)).notes
    assert Reason.LabelsContradict is note.reason
    assert f"nodes with {TOPOGRAPH}=r-7 name several NVLink fabrics (new, old)" in note.message
    assert () == fabric_of(tray("a", "uuid.1", labels), tray("b", "uuid.2", labels)).notes  # partitions of one fabric
    racks = [tray(f"{clique}-{index}", f"{clique}.1", labels) for clique in "ab" for index in range(18)]
    assert () == fabric_of(*racks).notes  # topograph's name of a capacity block, which has several racks


@pytest.mark.parametrize("value", ["no-imds-data", "unknown", "None", "N-A"])
@pytest.mark.parametrize("label", ["oci.oraclecloud.com/host.gpu_memory_fabric_id", TOPOGRAPH])
def test_trays_of_which_nobody_knows_the_rack_are_no_rack(label: str, value: str) -> None:
    """Oracle's node labeller writes `no-imds-data` until the metadata service answers, whatever rack a tray is in."""
    fabric = fabric_of(*(tray(name, None, {label: value}) for name in "ab"), tray("c", None, {label: "rack-1"}))
    assert domains(fabric) == {"a": ["a"], "b": ["b"], "rack-1": ["c"]}
    assert [Reason.NvlinkDomainUnknown] == [note.reason for note in fabric.notes]
