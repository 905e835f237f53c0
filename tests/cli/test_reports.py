"""The command line reads what others report about the fabric, where a cluster has it and lets it be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from kubernetes.client import ApiClient, Configuration

from tests.cli.terminal import weft, written
from tests.protocol.scripted_server import ScriptedServer
from weft.cli.cluster.reading import ClusterReader
from weft.cli.cluster.world import world_of_cluster
from weft.cli.ends.failure import CommandFailure
from weft.domain.reports import TopologyReport
from weft.observe.api_server.reading import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LEVELS = {"levels": [{"nodeLabel": "ex.com/rack"}]}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        running.put("/api/v1/nodes", "n1", spec={}, status={})
        running.put(running.serve("kueue.x-k8s.io/v1beta2", "topologies"), "t", spec=LEVELS)
        yield running


def reader(server: ScriptedServer) -> ClusterReader:
    return ClusterReader(Reader(ApiClient(Configuration(host=server.url))), "default", server.url)


def answering(status: int) -> Callable[[web.Request], web.Response | None]:
    return lambda request: web.json_response({}, status=status) if "kueue" in request.path else None


def test_what_a_cluster_has_is_read_and_what_it_has_not_is_no_error(server: ScriptedServer) -> None:
    reports = world_of_cluster(reader(server)).reports
    assert ((), (), (TopologyReport("t", ("ex.com/rack",)),), ()) == (
        reports.devices,
        reports.compute_domains,
        reports.topologies,
        reports.refused,
    )


def test_a_person_who_may_not_list_them_reads_the_fabric_without(server: ScriptedServer) -> None:
    server.answer = answering(403)
    assert ("topologies.kueue.x-k8s.io",) == world_of_cluster(reader(server)).reports.refused


def test_a_server_that_fails_is_told(server: ScriptedServer) -> None:
    """A fabric that lacks what the server could not say at the moment would mislead."""
    server.answer = answering(500)
    with pytest.raises(CommandFailure, match="answered 500"):
        world_of_cluster(reader(server))


def test_a_file_may_hold_them_and_other_kinds_of_the_same_name_are_not_mistaken(tmp_path: Path) -> None:
    labels = {"nvidia.com/gpu.product": "NVIDIA-H200", "ex.com/rack": "r-7", "ex.com/other": "no"}
    gpus = {"nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True"}
    status = {"capacity": gpus, "allocatable": gpus, "conditions": [ready]}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": labels}, "status": status}
    kueues = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Topology", "metadata": {"name": "t"}, "spec": LEVELS}
    kais = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "t"},
        "spec": {"levels": [{"nodeLabel": "ex.com/other"}]},
    }
    file = written(tmp_path / "nodes.yaml", {"kind": "List", "items": [node, kueues, kais]})
    assert "8 of 8 free  140 GiB each  in r-7\n" in weft("fabric", "-f", file).out
