"""ResourceSlices, ComputeDomains and Topologies, from plain JSON to frozen records.

Pure, and tolerant: these kinds belong to others, in several versions, and what cannot be parsed is left out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.domain.errors import Invalid
from weft.domain.reports import ComputeDomainReport, DeviceReport, DomainMember, TopologyReport
from weft.domain.texts.units import parse_quantity
from weft.fabric.reported import CHANNELS
from weft.observe.objects.identity import controller_uid

if TYPE_CHECKING:
    from collections.abc import Iterable

Json = dict[str, Any]

# What GPU drivers call a whole GPU in the attribute `type`; every other type is a partition of one.
WHOLE = {"gpu.nvidia.com": "gpu", "gpu.amd.com": "amdgpu"}
PART = {"gpu.nvidia.com": "mig", "gpu.amd.com": "amdgpu-partition"}
# Taints of NVIDIA's driver on broken devices, if they have an effect; `unmonitored` reports no fault.
LOST_KEYS = frozenset({"gpu.nvidia.com/xid", "gpu.nvidia.com/gpu-lost"})
EFFECTS = frozenset({"NoSchedule", "NoExecute"})


def read_devices(body: Json) -> DeviceReport | None:
    """A ResourceSlice of one node's GPUs, or of its place in a ComputeDomain.

    None for other drivers, and for devices of no particular node.
    """
    spec = _object(body.get("spec"))
    driver, node, pool = str(spec.get("driver") or ""), spec.get("nodeName"), _object(spec.get("pool"))
    if driver not in {*WHOLE, CHANNELS} or not isinstance(node, str) or not node:
        return None
    devices = [_Device(each) for each in _objects(spec.get("devices"))] if driver in WHOLE else []
    whole = Counter((each.product, each.memory_bytes) for each in devices if each.kind == WHOLE.get(driver))
    lost = Counter(key for each in devices for key in each.lost())
    return DeviceReport(
        name=_name(body),
        node=node,
        driver=driver,
        pool=str(pool.get("name") or ""),
        generation=_integer(pool.get("generation")),
        gpus=tuple(sorted((product, memory, count) for (product, memory), count in whole.items())),
        parts=sum(each.kind == PART.get(driver) for each in devices),
        lost=tuple(sorted(lost.items())),
    )


def read_compute_domain(body: Json) -> ComputeDomainReport:
    """A ComputeDomain with the nodes in its status. Old drivers report no status of a node, which counts as ready."""
    listed = _objects(_object(body.get("status")).get("nodes"))
    members = (
        DomainMember(str(node["name"]), str(node.get("cliqueID") or ""), node.get("status") != "NotReady")
        for node in listed
        if node.get("name")
    )
    meta = _object(body.get("metadata"))
    return ComputeDomainReport(
        namespace=str(meta.get("namespace") or ""),
        name=_name(body),
        members=tuple(sorted(members, key=lambda member: member.node)),
        uid=str(meta.get("uid") or ""),
        owner_uid=controller_uid({"ownerReferences": _objects(meta.get("ownerReferences"))}),
        terminating=meta.get("deletionTimestamp") is not None,
    )


def read_topology(body: Json) -> TopologyReport:
    """A Topology of Kueue."""
    levels = _objects(_object(body.get("spec")).get("levels"))
    return TopologyReport(_name(body), tuple(str(level["nodeLabel"]) for level in levels if level.get("nodeLabel")))


@dataclass(frozen=True, slots=True)
class OptionalKind:
    """A kind that a cluster may lack or forbid, with the versions that we can read, the best first.

    The core group is empty. `query` selects the objects that matter.
    """

    kind: str
    group: str
    versions: tuple[str, ...]
    plural: str
    query: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """`resourceslices.resource.k8s.io`, as RBAC and kubectl name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str) -> str:
        """`resource.k8s.io/v1`, or `v1` in the core group."""
        return f"{self.group}/{version}" if self.group else version


RESOURCE_SLICES = OptionalKind("ResourceSlice", "resource.k8s.io", ("v1", "v1beta2", "v1beta1"), "resourceslices")
COMPUTE_DOMAINS = OptionalKind("ComputeDomain", "resource.nvidia.com", ("v1beta1",), "computedomains")
TOPOLOGIES = OptionalKind("Topology", "kueue.x-k8s.io", ("v1beta2", "v1beta1"), "topologies")
KINDS = (RESOURCE_SLICES, COMPUTE_DOMAINS, TOPOLOGIES)


class _Device:
    """One device; up to v1beta1 its attributes are one level deeper."""

    def __init__(self, body: Json) -> None:
        facts = {**body, **_object(body.get("basic"))}
        attributes, capacity = _object(facts.get("attributes")), _object(facts.get("capacity"))
        self._taints = _objects(facts.get("taints"))
        self.kind = _text(attributes.get("type"))
        self.product = _text(attributes.get("productName"))
        self.memory_bytes = _bytes(_object(capacity.get("memory")).get("value"))

    def lost(self) -> set[str]:
        """Keys of the taints by which its driver reports it broken."""
        return {
            taint["key"] for taint in self._taints if taint.get("key") in LOST_KEYS and taint.get("effect") in EFFECTS
        }


def _name(body: Json) -> str:
    return str(_object(body.get("metadata")).get("name") or "")


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterable[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(attribute: object) -> str:
    return str(_object(attribute).get("string") or "")


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 0


def _bytes(quantity: object) -> int:
    try:
        return int(parse_quantity(str(quantity)))
    except (Invalid, OverflowError):
        return 0
