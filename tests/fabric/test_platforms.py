"""What Weft reads from the nodes of twelve kinds of clusters, line for line as `weft fabric` prints it.

The files under tests/fixtures/nodes are `kubectl get -o yaml` of a few nodes of each, and the page beside each was
checked by hand: domains, zones, tiers, GPUs, memory, parts, RDMA devices, faults and notes. After a change, read what
it makes of them before copying it: `weft fabric -f tests/fixtures/nodes/NAME.yaml`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.terminal import weft
from weft.catalog import load
from weft.cli.cluster.world import World, world_of_file
from weft.fabric import build_fabric

if TYPE_CHECKING:
    from weft.domain.fabric import Fabric

FOLDER = Path(__file__).parents[1] / "fixtures" / "nodes"
PLATFORMS = sorted(path.stem for path in FOLDER.glob("*.yaml"))


def world(name: str) -> World:
    return world_of_file(str(FOLDER / f"{name}.yaml"))


def fabric(name: str) -> Fabric:
    read = world(name)
    return build_fabric(read.nodes, read.pods, load(), read.reports)


@pytest.mark.parametrize("name", PLATFORMS)
def test_the_whole_fabric_is_what_the_page_says(name: str) -> None:
    assert (FOLDER / f"{name}.txt").read_text(encoding="utf-8") == weft(
        "fabric", "-f", str(FOLDER / f"{name}.yaml")
    ).out


def test_there_are_twelve_platforms() -> None:
    """Else the test above would hold for an empty folder."""
    assert 12 == len(PLATFORMS)
    assert PLATFORMS == sorted(path.stem for path in FOLDER.glob("*.txt"))


@pytest.mark.parametrize("name", PLATFORMS)
def test_no_file_has_anything_that_is_not_read_or_noted(name: str) -> None:
    """Every node with anything like a GPU is in one domain, or a note names it; the others have none."""
    read, found = world(name), fabric(name)
    told = " ".join(note.message for note in found.notes)
    for node in read.nodes:
        has_some = any(re.search("gpu|mig-|cpx|gaudi|/GH|_A10|i915$", resource) for resource, _ in node.capacity)
        assert not has_some or (node.name in found.nodes()) or node.name in told


def test_notices_and_faults_of_the_platforms_are_what_has_to_be_left() -> None:
    """A spot notice, HyperPod, GKE, AKS' remediator, NVSentinel, a ComputeDomain, a cordon and AMD's operator."""
    leaving = {node.name for name in PLATFORMS for node in fabric(name).nodes().values() if node.leaving is not None}
    assert {
        "ip-10-0-18-140.us-west-2.compute.internal",
        "hyperpod-i-07c2",
        "gke-train-gpu-5b1f0c2a-7zqd",
        "aks-ndh200-20418835-vmss000003",
        "dgx-02",
        "10.0.80.12",
        "g1a0d08",
        "mi355-02",
    } == leaving
