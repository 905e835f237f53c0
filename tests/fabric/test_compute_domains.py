"""Which nodes can share memory over NVLink by a ComputeDomain, and which one they are in."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fabric.cluster import board, busy, forming, rack, tray
from weft.catalog import load
from weft.domain.reports import ComputeDomainReport, DomainMember, Reports
from weft.fabric import build_fabric

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.fabric import FabricNode

LABEL = "resource.nvidia.com/computeDomain"
TRAYS = rack("a.1", 3)


def read(nodes: list[NodeRecord], reports: Reports) -> dict[str, FabricNode]:
    return dict(build_fabric(nodes, [busy("chat", nodes[0].name, 1)], load(), reports).nodes())


def domain(*members: DomainMember, terminating: bool = False) -> ComputeDomainReport:
    return ComputeDomainReport("team", "chat-1", members, "u-1", "p-1", terminating)


def test_a_rack_shares_memory_where_the_driver_runs_on_one_of_its_nodes() -> None:
    """A driver that restarts on a node offers nothing there for a moment."""
    found = read(TRAYS, forming(TRAYS[1]))
    assert [True] * 3 == [node.shares_memory for node in found.values()]


@pytest.mark.parametrize(
    ("nodes", "reports"),
    [
        pytest.param(TRAYS, Reports(knows_compute_domains=True), id="the definition alone"),
        pytest.param(TRAYS, replace(forming(*TRAYS), knows_compute_domains=False), id="a kind that cannot be listed"),
        pytest.param([board("b-0")], forming(board("b-0")), id="a board"),
        pytest.param([tray("t", "a.1")], forming(tray("t", "a.1")), id="a rack of one tray"),
    ],
)
def test_nothing_shares_memory_otherwise(nodes: list[NodeRecord], reports: Reports) -> None:
    assert not any(node.shares_memory for node in read(nodes, reports).values())


def test_a_node_is_in_the_domains_that_name_it_and_in_the_one_of_its_label() -> None:
    """The driver labels a node before it says so in the status, and may forget a label for a while."""
    first, second, third = TRAYS
    labelled = [replace(each, labels=(*each.labels, (LABEL, uid))) for each, uid in ((first, "u-1"), (second, "old"))]
    found = read([*labelled, third], forming(*TRAYS, domains=(domain(DomainMember("a.1-t2", "a.1", ready=True)),)))
    assert [("team/chat-1",), ("of UID old",), ("team/chat-1",)] == [node.compute_domains for node in found.values()]


def test_channels_are_no_gpus() -> None:
    """They change nothing else of a node."""
    plain, formed = read(TRAYS, Reports()), read(TRAYS, forming(*TRAYS))
    assert plain == {name: replace(node, shares_memory=False) for name, node in formed.items()}


def test_a_domain_that_goes_away_says_nothing_of_its_nodes() -> None:
    """Its daemons end before it is gone; what comes next may have the nodes already."""
    members = DomainMember("a.1-t0", "a.1", ready=False), DomainMember("a.1-t1", "a.1", ready=True)
    staying = read(TRAYS, forming(*TRAYS, domains=(domain(*members),)))["a.1-t0"]
    assert staying.unusable is not None
    going = read(TRAYS, forming(*TRAYS, domains=(domain(*members, terminating=True),)))["a.1-t0"]
    assert going.unusable is None
    assert ("team/chat-1",) == going.compute_domains
