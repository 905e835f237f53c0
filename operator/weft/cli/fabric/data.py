"""`weft fabric -o json`: what the page shows, as data. Keys are never renamed; new ones may be added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.cli.cluster.sitting import Rack, Sitter, Sitting, Tray
    from weft.domain.room import AcceleratorRoom, DomainRoom

Json = dict[str, Any]


def fabric_data(sitting: Sitting) -> Json:
    """Return domains with their nodes, and what still fits by accelerator. Sizes and counts are GPUs unless stated."""
    return {
        "domains": [_domain(rack) for rack in sitting.racks],
        "accelerators": [_accelerator(kind) for kind in sitting.kinds],
        "pools": list(sitting.pools),
        "notes": [{"reason": note.reason.value, "message": note.message} for note in sitting.notes],
    }


def _domain(rack: Rack) -> Json:
    domain = rack.domain
    return {
        "name": domain.name,
        "zone": domain.zone,
        "tiers": list(domain.tiers),
        "accelerator": domain.accelerator,
        "gpus": domain.total,
        "free": sum(tray.free for tray in rack.trays),
        "spare": rack.spare,
        **_room(rack.room),
        "nodes": [_node(tray) for tray in rack.trays],
    }


def _accelerator(kind: AcceleratorRoom) -> Json:
    shares = {str(size): round(kind.unusable_share(size), 4) for size, _ in kind.slots}
    told: Json = {"name": kind.accelerator, "gpus": kind.total, "free": kind.free}
    return told | _room(kind) | {"unusableShare": shares}


def _room(room: AcceleratorRoom | DomainRoom) -> Json:
    """Return how many more replicas fit, by their number of GPUs as text."""
    return {"largestReplica": room.largest, "slots": {str(size): count for size, count in room.slots}}


def _node(tray: Tray) -> Json:
    node = tray.node
    data: Json = {"name": node.name, "gpus": node.total, "used": node.used, "free": tray.free}
    data["lost"] = node.installed - node.total
    data |= {"resource": node.resource, "memoryBytes": node.memory_bytes, "shared": node.shared}
    data |= {"tiers": list(node.tiers), "networkDevices": dict(node.nics)}
    data |= {"heldBy": [_sitter(each) for each in tray.sitters], "spareOf": tray.spare_of or None}
    for name, told in (("unusable", node.unusable), ("leaving", node.leaving), ("impaired", node.impaired)):
        if told is not None:
            data[name] = {"reason": told.reason.value, "message": told.message}
    return data


def _sitter(sitter: Sitter) -> Json:
    """Return a replica of a pool, or a pod of somebody else; names are `namespace/name`."""
    who: Json = {"pod": sitter.name}
    if sitter.replica is not None:
        who = {"pool": sitter.name, "replica": sitter.replica}
    return {**who, "gpus": sitter.gpus, "promised": sitter.promised, "leaves": sitter.leaves}
