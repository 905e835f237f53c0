"""The nodes and pods to plan against: from a file, from a cluster that is only read, or imagined."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.cli.failure import CommandFailure
from weft.cli.files import load_documents, of_kind, shown
from weft.domain.cluster import NodeRecord

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.cli.cluster import ClusterReader
    from weft.domain.cluster import PodRecord
    from weft.domain.hardware import Accelerator

Json = dict[str, Any]
IMAGINED_NODES = 64  # of each accelerator


@dataclass(frozen=True, slots=True)
class World:
    """Nodes and pods to plan against. `imagined` ones have made-up names.

    `cluster` is where they were read, if anywhere; `namespace` is where a resource goes that names none.
    """

    nodes: tuple[NodeRecord, ...]
    pods: tuple[PodRecord, ...] = ()
    imagined: bool = False
    cluster: ClusterReader | None = None
    namespace: str = "default"


def world_of_file(path: str) -> World:
    """The nodes of `kubectl get nodes -o yaml`, and the pods if the file has them too."""
    documents = load_documents(path)
    nodes = of_kind(documents, "Node")
    if not nodes:
        raise CommandFailure(f"{shown(path)} holds no Node: make it with `kubectl get nodes,pods -A -o yaml`")
    try:
        return _world(nodes, of_kind(documents, "Pod"))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        message = f"{shown(path)} holds a Node or Pod that no cluster wrote ({type(error).__name__}: {error})"
        raise CommandFailure(f"{message}: make it with `kubectl get nodes,pods -A -o yaml`") from error


def world_of_cluster(reader: ClusterReader) -> World:
    """All nodes and pods of a cluster."""
    return replace(_world(reader.nodes(), reader.pods()), cluster=reader, namespace=reader.namespace)


def imagined_world(catalog: Catalog) -> World:
    """Enough of every accelerator in the catalog (except the test one): for planning without any fabric."""
    nodes = [
        _imagined_node(accelerator, index)
        for accelerator in catalog.accelerators
        if accelerator.vendor != "cpu"
        for index in range(IMAGINED_NODES)
    ]
    return World(tuple(nodes), imagined=True)


def _world(nodes: list[Json], pods: list[Json]) -> World:
    from weft.observe.records import read_node, read_pod

    read = (read_pod(pod) for pod in pods)
    return World(tuple(map(read_node, nodes)), tuple(pod for pod in read if pod is not None))


def _imagined_node(accelerator: Accelerator, index: int) -> NodeRecord:
    per_node = accelerator.gpus_per_node
    name = f"{accelerator.name.lower()}-{index:02d}"
    found = {f"{accelerator.resource.split('/')[0]}/gpu.product": accelerator.products[0]}
    if accelerator.vendor == "amd":
        found = {"amd.com/gpu.product-name": accelerator.products[0]}
    if accelerator.domain_gpus > per_node:
        found["nvidia.com/gpu.clique"] = f"{accelerator.name}.{index * per_node // accelerator.domain_gpus}"
    devices = ((accelerator.resource, per_node),)
    return NodeRecord(name, name, tuple(sorted(found.items())), devices, devices)
