"""The nodes and pods to plan against: from a file, from a cluster that is only read, or imagined."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from weft.cli.ends.failure import CommandFailure
from weft.cli.files.dumps import what_is_wrong
from weft.cli.files.reading import load_documents, of_kind, shown
from weft.domain import labels
from weft.domain.cluster import NodeRecord
from weft.domain.reports import DeviceReport, Reports

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weft.catalog import Catalog
    from weft.cli.cluster.reading import ClusterReader
    from weft.domain.cluster import PodRecord
    from weft.domain.hardware import Accelerator
    from weft.observe.objects.reports import OptionalKind

Json = dict[str, Any]
IMAGINED_NODES = 64  # nodes of each accelerator
_CLIQUE = "nvidia.com/gpu.clique"
_HOW = "`kubectl get nodes,pods -A -o yaml`"


@dataclass(frozen=True, slots=True)
class World:
    """Nodes and pods to plan against. `imagined` ones are made up, `written` ones are from a file.

    `reports` are what others report about the fabric. `cluster` is where all was read, if anywhere; `namespace` is that
    of resources that name none. `beside` are the file's other objects, and `pool_names` the pools' names by UID, from
    labels and owners of pods.
    """

    nodes: tuple[NodeRecord, ...]
    pods: tuple[PodRecord, ...] = ()
    imagined: bool = False
    written: bool = False
    cluster: ClusterReader | None = None
    namespace: str = "default"
    reports: Reports = field(default_factory=Reports)
    beside: tuple[Json, ...] = field(default=(), repr=False)
    pool_names: Mapping[str, str] = field(default_factory=dict)


def world_of_file(path: str) -> World:
    """Read the nodes of `kubectl get nodes -o yaml`, with pods and reports if the file has them."""
    documents = load_documents(path)
    if not of_kind(documents, "Node"):
        raise CommandFailure(f"{shown(path)} holds no Node: make it with {_HOW}")
    for number, body in enumerate(documents, start=1):
        wrong = what_is_wrong(body) if body.get("kind") in ("Node", "Pod") else None
        if wrong is not None:
            raise CommandFailure(f"{_which(body)} in object {number} of {shown(path)}: {wrong}, as {_HOW} prints it")
    from weft.observe.objects.reports import KINDS

    found = {kind: [body for body in of_kind(documents, kind.kind) if _is_of(body, kind)] for kind in KINDS}
    world = _world(_each_once(of_kind(documents, "Node")), _each_once(of_kind(documents, "Pod")))
    beside = tuple(body for body in documents if body.get("kind") not in ("Node", "Pod"))
    return replace(world, written=True, reports=_reports(found, ()), beside=beside)


def _each_once(bodies: list[Json]) -> list[Json]:
    """Return the objects with each of several dumps of one object once: the last, whose dump is the latest."""
    named = {(body["metadata"].get("namespace"), body["metadata"]["name"]): body for body in bodies}
    if len(named) == len(bodies):
        return bodies
    return list({_identity(body): body for body in bodies}.values())


def _identity(body: Json) -> tuple[object, ...]:
    """What two dumps of one object have in common; objects of several clusters may have the same names."""
    meta = body["metadata"]
    return meta.get("namespace"), meta["name"], meta.get("uid")


def _which(body: Json) -> str:
    """Return `Node gpu-7`, or `Node` alone without a usable name."""
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return f"{body['kind']} {name}" if isinstance(name, str) and name else body["kind"]


def world_of_cluster(reader: ClusterReader) -> World:
    """Read all nodes and pods of a cluster, and the reports that may be read."""
    from weft.observe.objects.reports import KINDS

    world = _world(reader.nodes(), reader.pods())
    found = {kind: reader.optional(kind) for kind in KINDS}
    refused = tuple(kind.name for kind, bodies in found.items() if bodies is None)
    reports = _reports({kind: bodies or [] for kind, bodies in found.items()}, refused)
    return replace(world, cluster=reader, namespace=reader.namespace, reports=reports)


def imagined_world(catalog: Catalog, only: frozenset[str] = frozenset()) -> World:
    """Make enough nodes of every accelerator in the catalog (except the test one), or of those named.

    Each is labelled as in a real cluster: by its device discovery, or by an administrator where there is none (Gaudi).
    NVIDIA's driver forms ComputeDomains on its racks.
    """
    kinds = (each for each in catalog.accelerators if each.vendor != "cpu" and (not only or each.name in only))
    return replace(world_of_counts((each, IMAGINED_NODES) for each in kinds), imagined=True)


def world_of_counts(counts: Iterable[tuple[Accelerator, int]]) -> World:
    """Make so many empty nodes of each accelerator, of the usual size, with whole racks as far as they suffice."""
    from weft.fabric.devices import label_of_product

    nodes = [
        _imagined_node(accelerator, index, label_of_product(accelerator.resource))
        for accelerator, count in counts
        for index in range(count)
    ]
    return World(tuple(nodes), reports=_imagined_reports(nodes))


def _world(nodes: list[Json], pods: list[Json]) -> World:
    from weft.observe.objects.records import read_node, read_pod

    read = (read_pod(pod) for pod in pods)
    ours = tuple(pod for pod in read if pod is not None)
    return World(tuple(map(read_node, nodes)), ours, pool_names=dict(_names_of_pools(pods)))


def _names_of_pools(pods: list[Json]) -> Iterator[tuple[str, str]]:
    """Yield the UID and `namespace/name` of the pool of each pod of ours."""
    from weft.observe.objects.identity import identify

    for pod in pods:
        meta = pod["metadata"]
        found = identify(meta)
        if found is not None:
            uid, tags = found.identity.pool_uid, meta.get("labels") or {}
            owner = next(each for each in meta["ownerReferences"] if str(each.get("uid")) == uid)
            yield uid, f"{meta['namespace']}/{owner.get('name') or tags.get(labels.POOL) or uid}"


def _is_of(body: Json, kind: OptionalKind) -> bool:
    """Whether an object is of the kind's API group: other groups have kinds of the same names, as KAI a Topology."""
    return str(body.get("apiVersion", "")).startswith(f"{kind.group}/")


def _reports(found: Mapping[OptionalKind, list[Json]], refused: tuple[str, ...]) -> Reports:
    from weft.observe.objects import reports as read

    devices = (read.read_devices(body) for body in found[read.RESOURCE_SLICES])
    return Reports(
        tuple(each for each in devices if each is not None),
        tuple(map(read.read_compute_domain, found[read.COMPUTE_DOMAINS])),
        tuple(map(read.read_topology, found[read.TOPOLOGIES])),
        refused,
        knows_compute_domains=read.COMPUTE_DOMAINS.name not in refused,
    )


def _imagined_reports(nodes: Iterable[NodeRecord]) -> Reports:
    from weft.fabric.reported import CHANNELS

    racked = (node.name for node in nodes if node.label(_CLIQUE))
    return Reports(
        tuple(DeviceReport(name, name, CHANNELS, name, 1, ()) for name in racked), knows_compute_domains=True
    )


def _imagined_node(accelerator: Accelerator, index: int, label: str) -> NodeRecord:
    per_node = accelerator.gpus_per_node
    name = f"{accelerator.name.lower()}-{index:02d}"
    found = {label: accelerator.products[0]}
    if accelerator.domain_gpus > per_node:
        found[_CLIQUE] = f"{accelerator.name}.{index * per_node // accelerator.domain_gpus}"
    devices = ((accelerator.resource, per_node),)
    return NodeRecord(name, name, tuple(sorted(found.items())), devices, devices)
