"""Nodes of several boards: NVLink ends at a board, but for kinds of which two were made to be one."""

from __future__ import annotations

from tests.fabric.cluster import board, node
from tests.placement.cases import free_map
from weft.domain.reasons import Reason
from weft.domain.spec import PlacementSpec
from weft.placement import rooms_of
from weft.placement.suppliers import suppliers


def test_a_group_gets_no_more_of_a_node_than_one_board_joins() -> None:
    """S9: 16 GPUs of one machine are two boards of eight, of which each serves a replica of eight."""
    free = free_map([board("b", gpus=16, labels={"nvidia.com/gpu.count": "16"})])
    (supplier,) = suppliers(free.fabric, PlacementSpec())
    assert (8, 8) == (supplier.gpus_per_node, supplier.largest_domain_gpus)
    (room,) = rooms_of(free)
    assert (16, 16, 8) == (room.total, room.free, room.largest)
    assert {1: 16, 2: 8, 4: 4, 8: 2} == dict(room.slots)
    (note,) = free.fabric.notes
    assert note.reason is Reason.LabelsContradict
    assert "node b offers 16 nvidia.com/gpu of H200, of which NVLink joins 8 on a board" in note.message


def test_two_boards_of_a100_are_one_domain() -> None:
    """HGX A100 16-GPU joins them through NVSwitch, as Google's a2-megagpu-16g has it."""
    labels = {"node.kubernetes.io/instance-type": "a2-megagpu-16g"}
    free = free_map([node("n", labels, 16)])
    (supplier,) = suppliers(free.fabric, PlacementSpec())
    assert ("A100-40GB", 16) == (supplier.accelerator, supplier.largest_domain_gpus)
    assert 16 == rooms_of(free)[0].largest
    assert () == free.fabric.notes


def test_cards_and_parts_are_on_no_board() -> None:
    """Groups of cards go over PCIe, and parts of GPUs form none."""
    cards = {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068", "nvidia.com/gpu.count": "16"}
    parts = {"nvidia.com/gpu.replicas": "2", "nvidia.com/gpu.count": "8"}
    for each in (node("n", cards, 16), board("b", gpus=16, labels=parts)):
        assert [0] == [found.board_gpus for found in free_map([each]).fabric.nodes().values()]
