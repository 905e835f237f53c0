"""What a pool could use of each accelerator, whatever is free: the supplies that shapes are chosen for."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.values.remembered import LastAnswers
from weft.placement.taints import Tolerated, is_tolerated, taints_of, tolerated_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from weft.domain.fabric import Fabric, FabricNode, NvlinkDomain
    from weft.domain.spec import PlacementSpec

# Taints by which Kubernetes itself marks passing states of a node (not ready, cordoned, short of memory).
PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
# Notes of nodes that are no part of the fabric; all others are about nodes that are.
_OF_UNUSED_NODES = frozenset({Reason.AcceleratorUnknown, Reason.DevicePluginMissing, Reason.SharedDevice})
# Of what keeps everybody off a node, that which does not pass by itself: plans do not count on it.
LASTING = frozenset({Reason.DynamicResourcesOnly, Reason.LabelsContradict})
PLACEMENTS = 4096  # answers that are kept


@dataclass(frozen=True, slots=True)
class Supplier:
    """What a pool could use of one accelerator kind, free or not. Memory is the smallest of its devices, in bytes.

    `gpus_per_node` is of the largest nodes, and `largest_domain_gpus` what pods of that size have in one NVLink domain.
    Racks of smaller nodes hold no such pod: `smaller` has their (GPUs of a node, GPUs of a domain), largest node first.
    """

    accelerator: str
    memory_bytes: int
    largest_domain_gpus: int
    gpus_per_node: int
    shared: bool
    smaller: tuple[tuple[int, int], ...] = ()


_Kinds = dict[tuple[str, bool], Supplier]  # by accelerator, and whether its devices are parts of GPUs
_LAST: LastAnswers[object, _Kinds] = LastAnswers(PLACEMENTS)


def suppliers(fabric: Fabric, placement: PlacementSpec) -> tuple[Supplier, ...]:
    """What the pool could use if nothing else ran, by accelerator; unready nodes and lost GPUs count as well.

    Parts of GPUs count only where there are no whole ones.
    """
    kinds = _kinds(fabric, placement, tolerated_by(placement.tolerations, fabric))
    return tuple([kinds[name, shared] for name, shared in sorted(kinds) if not shared or (name, False) not in kinds])


def left_out(fabric: Fabric, placement: PlacementSpec) -> dict[str, Explanation]:
    """Accelerators that the pool may use and the cluster has, but on no node usable for it, each with a reason."""
    supplied = {each.accelerator for each in suppliers(fabric, placement)}
    tolerated = tolerated_by(placement.tolerations, fabric)
    told: dict[str, Explanation] = {}
    for domain in fabric.domains:
        if placement.allows(domain.accelerator) and domain.accelerator not in supplied:
            refusals = (_never_usable(node, placement, tolerated) or node.impaired for node in domain.nodes)
            why = next(filter(None, refusals), None)
            if why is not None:
                told.setdefault(domain.accelerator, why)
    return told


def no_supplier(fabric: Fabric, placement: PlacementSpec) -> Explanation:
    """Why `suppliers` finds none: what is allowed, what the cluster has, and what keeps the pool off it.

    What bars a node that `placement.nodeSelector` selects comes before nodes that it does not, and where no accelerator
    is known at all, what Weft may not list comes last: that may be why.
    """
    allowed = ", ".join(placement.accelerators) or "any in the catalog"
    present = ", ".join(sorted({domain.accelerator for domain in fabric.domains})) or "none"
    tolerated = tolerated_by(placement.tolerations, fabric)
    refusals = (
        _never_usable(node, placement, tolerated) or node.impaired
        for domain in fabric.domains
        if placement.allows(domain.accelerator)
        for node in domain.nodes
    )
    told = sorted(filter(None, refusals), key=lambda each: each.reason is Reason.NodeNotSelected)
    told += [note for note in fabric.notes if note.reason in _OF_UNUSED_NODES]
    told += [note for note in fabric.notes if note.reason is Reason.NotPermitted and not fabric.domains]
    why = next((f"; {each.message}" for each in told), "")
    return Explanation(Reason.NoAccelerator, f"allowed accelerators: {allowed}; the cluster has {present}{why}")


def has_whole_devices(accelerator: str, fabric: Fabric, placement: PlacementSpec, tolerated: Tolerated) -> bool:
    """Whether the pool could use whole devices of a kind, and not only parts of them."""
    return (accelerator, False) in _kinds(fabric, placement, tolerated)


def is_selected(node: FabricNode, placement: PlacementSpec) -> Explanation | None:
    """Refuse a node without the labels of `placement.nodeSelector`."""
    labels = dict(node.labels) if placement.node_selector else {}
    for key, value in placement.node_selector:
        if labels.get(key) != value:
            return Explanation(Reason.NodeNotSelected, f"node {node.name} is not labelled {key}={value}")
    return None


def _kinds(fabric: Fabric, placement: PlacementSpec, tolerated: Tolerated) -> _Kinds:
    """Supplies by kind: shared by all pools with these wide tolerations, plus what narrow ones add in their domains."""
    if fabric.layout is None:
        return _found(fabric.domains, placement, tolerated)
    wish = placement.accelerators, placement.node_selector, tolerated.taints
    return _LAST.ask(wish, fabric.layout, lambda _: _worked_out(fabric, placement, tolerated))


def _worked_out(fabric: Fabric, placement: PlacementSpec, tolerated: Tolerated) -> _Kinds:
    if tolerated.taints == tolerated.wide:
        return _found(fabric.domains, placement, tolerated)
    shared = _kinds(fabric, placement, Tolerated(tolerated.wide, tolerated.wide))
    opened = (fabric.domains[place] for place in taints_of(fabric).narrow_places(tolerated))
    return _together(shared, _found(opened, placement, tolerated))


def _together(shared: Mapping[tuple[str, bool], Supplier], more: _Kinds) -> _Kinds:
    """Both merged. A domain in both has no fewer usable nodes in `more`, so that nothing counts twice."""
    return {
        kind: _better(shared[kind], more[kind]) if kind in shared and kind in more else shared.get(kind) or more[kind]
        for kind in shared.keys() | more.keys()
    }


def _better(one: Supplier, other: Supplier) -> Supplier:
    reach: dict[int, int] = {}
    for each in (one, other):
        for node, domain in ((each.gpus_per_node, each.largest_domain_gpus), *each.smaller):
            reach[node] = max(domain, reach.get(node, 0))
    (largest, domain), *less = sorted(reach.items(), reverse=True)
    return replace(
        one,
        memory_bytes=min(one.memory_bytes, other.memory_bytes),
        largest_domain_gpus=domain,
        gpus_per_node=largest,
        smaller=tuple((node, gpus) for node, gpus in less if gpus > node),
    )


def _found(domains: Iterable[NvlinkDomain], placement: PlacementSpec, tolerated: Tolerated) -> _Kinds:
    found: dict[tuple[str, bool], list[FabricNode]] = defaultdict(list)
    for domain in domains:
        if placement.allows(domain.accelerator):
            for node in domain.nodes:
                if node.installed and _never_usable(node, placement, tolerated) is None:
                    found[domain.accelerator, node.shared].append(node)
    return {kind: _supplier(*kind, nodes) for kind, nodes in found.items()}


def _supplier(accelerator: str, shared: bool, nodes: list[FabricNode]) -> Supplier:  # noqa: FBT001 - a kind
    by_domain: dict[str, list[int]] = defaultdict(list)
    for node in nodes:
        by_domain[node.domain].append(node.most_of_a_pod)
    largest = max(map(max, by_domain.values()))
    less = {max(sizes) for sizes in by_domain.values() if len(sizes) > 1} - {largest}
    return Supplier(
        accelerator,
        min(node.memory_bytes for node in nodes),
        _reach(largest, by_domain.values()),
        largest,
        shared=shared,
        smaller=tuple((size, _reach(size, by_domain.values())) for size in sorted(less, reverse=True)),
    )


def _reach(size: int, domains: Iterable[Sequence[int]]) -> int:
    """Return the most GPUs that pods of one size have in one domain, each on a node of its own."""
    return size * max(sum(node >= size for node in nodes) for nodes in domains)


def _never_usable(node: FabricNode, placement: PlacementSpec, tolerated: Tolerated) -> Explanation | None:
    """Why the pool cannot use a node even when it is up and empty."""
    if node.unusable is not None and node.unusable.reason in LASTING:
        return node.unusable
    lasting = tuple(taint for taint in node.taints if not taint.key.startswith(PASSING_TAINTS))
    settled = replace(node, taints=lasting) if lasting != node.taints else node
    return is_selected(settled, placement) or is_tolerated(settled, tolerated.taints)
