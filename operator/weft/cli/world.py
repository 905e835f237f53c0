"""The nodes and pods to plan against: from a file, from a cluster that is only read, or imagined."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.cli.dumps import what_is_wrong
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
_HOW = "`kubectl get nodes,pods -A -o yaml`"


@dataclass(frozen=True, slots=True)
class World:
    """Nodes and pods to plan against. `imagined` ones have made-up names, `written` ones are of a file.

    `cluster` is where they were read, if anywhere; `namespace` is where a resource goes that names none.
    """

    nodes: tuple[NodeRecord, ...]
    pods: tuple[PodRecord, ...] = ()
    imagined: bool = False
    written: bool = False
    cluster: ClusterReader | None = None
    namespace: str = "default"


def world_of_file(path: str) -> World:
    """The nodes of `kubectl get nodes -o yaml`, and the pods if the file has them too."""
    documents = load_documents(path)
    if not of_kind(documents, "Node"):
        raise CommandFailure(f"{shown(path)} holds no Node: make it with {_HOW}")
    for number, body in enumerate(documents, start=1):
        wrong = what_is_wrong(body) if body.get("kind") in ("Node", "Pod") else None
        if wrong is not None:
            message = f"{body['kind']} in object {number} of {shown(path)}: {wrong}, as {_HOW} prints it"
            raise CommandFailure(message)
    return replace(_world(of_kind(documents, "Node"), of_kind(documents, "Pod")), written=True)


def world_of_cluster(reader: ClusterReader) -> World:
    """All nodes and pods of a cluster."""
    return replace(_world(reader.nodes(), reader.pods()), cluster=reader, namespace=reader.namespace)


def imagined_world(catalog: Catalog) -> World:
    """Enough of every accelerator in the catalog (except the test one): for planning without any fabric.

    Each is labelled as in a real cluster: by its device discovery, or by an administrator where there is none (Gaudi).
    """
    from weft.fabric.devices import label_of_product

    nodes = [
        _imagined_node(accelerator, index, label_of_product(accelerator.resource))
        for accelerator in catalog.accelerators
        if accelerator.vendor != "cpu"
        for index in range(IMAGINED_NODES)
    ]
    return World(tuple(nodes), imagined=True)


def _world(nodes: list[Json], pods: list[Json]) -> World:
    from weft.observe.records import read_node, read_pod

    read = (read_pod(pod) for pod in pods)
    return World(tuple(map(read_node, nodes)), tuple(pod for pod in read if pod is not None))


def _imagined_node(accelerator: Accelerator, index: int, label: str) -> NodeRecord:
    per_node = accelerator.gpus_per_node
    name = f"{accelerator.name.lower()}-{index:02d}"
    found = {label: accelerator.products[0]}
    if accelerator.domain_gpus > per_node:
        found["nvidia.com/gpu.clique"] = f"{accelerator.name}.{index * per_node // accelerator.domain_gpus}"
    devices = ((accelerator.resource, per_node),)
    return NodeRecord(name, name, tuple(sorted(found.items())), devices, devices)
