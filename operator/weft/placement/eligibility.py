"""Which nodes a pool may use at all, whatever is free on them: ordered claims, the first that fails is the reason."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from weft.domain.made_often import made_often
from weft.domain.reasons import Explanation, Reason
from weft.domain.remembered import LastAnswers
from weft.domain.spec import HUGE_PAGES
from weft.domain.units import GIB, parse_quantity
from weft.placement.names import natural

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from weft.domain.cluster import Taint
    from weft.domain.fabric import Fabric, FabricNode, NvlinkDomain
    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs, PlacementSpec, Toleration
    from weft.placement.freemap import FreeMap

_IN_BYTES = ("memory", "ephemeral-storage")
BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
# Taints by which Kubernetes itself says what a node is going through (not ready, cordoned, short of memory); they pass.
PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


@dataclass(frozen=True, slots=True)
class Supplier:
    """What a pool could use of one accelerator kind, free or not. Memory is the smallest of its devices, in bytes."""

    accelerator: str
    memory_bytes: int
    largest_domain_gpus: int
    gpus_per_node: int
    shared: bool


@made_often
@dataclass(frozen=True, slots=True)
class EligibleDomain:
    """A domain with the nodes that may be used (`names` are theirs, in natural order), and why the others may not."""

    domain: NvlinkDomain
    nodes: tuple[FabricNode, ...]
    passed_over: tuple[tuple[FabricNode, Explanation], ...]
    names: tuple[str, ...]
    has_parts: bool  # whether any of its nodes offers parts of GPUs


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pool asks of nodes."""

    shape: Shape
    placement: PlacementSpec
    needs: Pairs


Eligibility = tuple[str, bool, tuple[str, ...], "Pairs", tuple["Toleration", ...], "Pairs"]
# Of so many kinds of wishes the answers are kept, each a megabyte in a cluster of 5,000 nodes; of suppliers it is less.
WISHES, PLACEMENTS = 32, 4096
_LAST: LastAnswers[tuple[NvlinkDomain, ...], tuple[EligibleDomain, ...]] = LastAnswers(WISHES)
_LAST_SUPPLIERS: LastAnswers[object, tuple[Supplier, ...]] = LastAnswers(PLACEMENTS)


def eligible_domains(
    shape: Shape, placement: PlacementSpec, free: FreeMap, needs: Pairs = ()
) -> tuple[EligibleDomain, ...]:
    """Every domain of the fabric with its nodes sorted into usable and not, for this shape and pool.

    Most domains are what they were when somebody asked last, in this pass or in an earlier one. `needs` is what each
    pod asks for beside accelerators, as quantities by resource.
    """
    key = eligibility(shape, placement, free, needs)
    if key not in free.eligible:
        before = _LAST.last(key) or ()
        free.eligible[key] = _LAST.ask(
            key, free.fabric.domains, lambda _: _sorted_out(Wish(shape, placement, needs), free.fabric, before)
        )
    answer: tuple[EligibleDomain, ...] = free.eligible[key]
    return answer


def eligibility(shape: Shape, placement: PlacementSpec, free: FreeMap, needs: Pairs = ()) -> Eligibility:
    """What of a shape and a placement decides which nodes are usable: pools that agree in it share the answer."""
    tolerations = _that_count(placement.tolerations, free) if placement.tolerations else ()
    wish = placement.accelerators, placement.node_selector, tolerations
    return shape.accelerator, shape.gpus > 1, *wish, needs


def _that_count(tolerations: tuple[Toleration, ...], free: FreeMap) -> tuple[Toleration, ...]:
    """Those that tolerate a taint that there is: looked for once in a pass, as nodes may have thousands of taints."""
    asked = "tolerations", tolerations
    if asked not in free.eligible:
        taints = _taints_by_key(free)
        free.eligible[asked] = tuple(each for each in tolerations if _counts(each, taints))
    answer: tuple[Toleration, ...] = free.eligible[asked]
    return answer


def _counts(toleration: Toleration, taints: Mapping[str, Collection[Taint]]) -> bool:
    keys = [toleration.key] if toleration.key else taints
    return any(_tolerates(toleration, taint) for key in keys for taint in taints.get(key, ()))


def _taints_by_key(free: FreeMap) -> Mapping[str, Collection[Taint]]:
    if "taints" not in free.eligible:
        found: dict[str, set[Taint]] = defaultdict(set)
        for node in free.fabric.nodes().values():
            for taint in node.taints:
                found[taint.key].add(taint)
        free.eligible["taints"] = found
    answer: Mapping[str, Collection[Taint]] = free.eligible["taints"]
    return answer


def _is_of(known: EligibleDomain, domain: NvlinkDomain) -> bool:
    """Whether an answer of an earlier pass is about the same domain; parts of GPUs depend on what others have."""
    return known.domain is domain and not known.has_parts


def suppliers(fabric: Fabric, placement: PlacementSpec) -> tuple[Supplier, ...]:
    """What the pool could use when nothing else ran, by accelerator; unready nodes and lost GPUs come back."""
    if fabric.ground is None:
        return _suppliers(fabric, placement)
    wish = placement.accelerators, placement.node_selector, placement.tolerations
    return _LAST_SUPPLIERS.ask(wish, fabric.ground, lambda _: _suppliers(fabric, placement))


def _suppliers(fabric: Fabric, placement: PlacementSpec) -> tuple[Supplier, ...]:
    found: dict[str, list[FabricNode]] = defaultdict(list)
    for domain in fabric.domains:
        if placement.allows(domain.accelerator):
            found[domain.accelerator].extend(
                node for node in domain.nodes if node.installed and _never_usable(node, placement) is None
            )
    return tuple(_supplier(name, nodes) for name, nodes in sorted(found.items()) if nodes)


def no_supplier(fabric: Fabric, placement: PlacementSpec) -> Explanation:
    """Why `suppliers` finds none: what is allowed, what the cluster has, and what keeps the pool off it."""
    allowed = ", ".join(placement.accelerators) or "any in the catalog"
    present = ", ".join(sorted({domain.accelerator for domain in fabric.domains})) or "none"
    refusals = (
        _never_usable(node, placement) or node.impaired
        for domain in fabric.domains
        if placement.allows(domain.accelerator)
        for node in domain.nodes
    )
    told = (*(refusal for refusal in refusals if refusal), *fabric.notes)
    why = next((f"; {each.message}" for each in told), "")
    return Explanation(Reason.NoAccelerator, f"allowed accelerators: {allowed}; the cluster has {present}{why}")


def _supplier(accelerator: str, nodes: list[FabricNode]) -> Supplier:
    whole = [node for node in nodes if not node.shared]
    used = whole or nodes
    by_domain: dict[str, int] = defaultdict(int)
    for node in used:
        by_domain[node.domain] += node.installed
    return Supplier(
        accelerator,
        min(node.memory_bytes for node in used),
        max(by_domain.values()),
        max(node.installed for node in used),
        shared=not whole,
    )


def _sorted_out(wish: Wish, fabric: Fabric, before: tuple[EligibleDomain, ...]) -> tuple[EligibleDomain, ...]:
    """All domains; as they were sorted out before where they are the same ones."""
    needs = {resource: parse_quantity(amount) for resource, amount in wish.needs}
    pairs = zip_longest(fabric.domains, before[: len(fabric.domains)])
    return tuple(
        [
            known if known is not None and _is_of(known, domain) else _sort_out(domain, wish, fabric, needs)
            for domain, known in pairs
        ]
    )


def _sort_out(domain: NvlinkDomain, wish: Wish, fabric: Fabric, needs: Mapping[str, float]) -> EligibleDomain:
    usable, passed_over = [], []
    for node in domain.nodes:
        refusal = next(_refusals(node, wish.shape, wish.placement, fabric), None) or has_the_rest(node, needs)
        if refusal is None:
            usable.append(node)
        else:
            passed_over.append((node, refusal))
    names = sorted((node.name for node in usable), key=natural)
    has_parts = any(node.shared for node in domain.nodes)
    return EligibleDomain(domain, tuple(usable), tuple(passed_over), tuple(names), has_parts)


def _refusals(node: FabricNode, shape: Shape, placement: PlacementSpec, fabric: Fabric) -> Iterator[Explanation]:
    if node.accelerator != shape.accelerator:
        yield Explanation(Reason.WrongAccelerator, f"node {node.name} has {node.accelerator}, not {shape.accelerator}")
    if (unselected := is_selected(node, placement)) is not None:
        yield unselected
    if node.unusable is not None:  # before the taint that Kubernetes adds to such a node
        yield node.unusable
    if (taint := is_tolerated(node, placement)) is not None:
        yield taint
    if node.shared and (shape.gpus > 1 or _has_whole_devices(shape.accelerator, placement, fabric)):
        yield Explanation(Reason.SharedDevice, f"node {node.name} offers parts of GPUs only")


def _has_whole_devices(accelerator: str, placement: PlacementSpec, fabric: Fabric) -> bool:
    """Whether the plan was made for whole devices: parts of the same kind have less memory than it counted on."""
    return any(found.accelerator == accelerator and not found.shared for found in suppliers(fabric, placement))


def _never_usable(node: FabricNode, placement: PlacementSpec) -> Explanation | None:
    """Why the pool cannot use a node even when it is up and empty."""
    if node.unusable is not None and node.unusable.reason is Reason.DynamicResourcesOnly:
        return node.unusable
    lasting = tuple(taint for taint in node.taints if not taint.key.startswith(PASSING_TAINTS))
    settled = replace(node, taints=lasting) if lasting != node.taints else node
    return is_selected(settled, placement) or is_tolerated(settled, placement)


def is_selected(node: FabricNode, placement: PlacementSpec) -> Explanation | None:
    """Refuse a node without the labels of `placement.nodeSelector`."""
    labels = dict(node.labels) if placement.node_selector else {}
    for key, value in placement.node_selector:
        if labels.get(key) != value:
            return Explanation(Reason.NodeNotSelected, f"node {node.name} is not labelled {key}={value}")
    return None


def has_the_rest(node: FabricNode, needs: Mapping[str, float]) -> Explanation | None:
    """Refuse a node that lacks something else that a pod asks for: RDMA devices, more CPU, memory, huge pages or disk.

    How much CPU, memory, huge pages and disk others hold is not known, so of these the whole node counts.
    """
    if node.left is None or not needs:
        return None
    left = dict(node.left)
    for resource, amount in needs.items():
        if (there := left.get(resource, 0.0)) < amount:
            message = f"node {node.name} has {_shown(resource, there)} {resource}, not {_shown(resource, amount)}"
            return Explanation(Reason.NodeLacksResource, message)
    return None


def _shown(resource: str, amount: float) -> str:
    unit, name = (GIB, "Gi") if resource in _IN_BYTES or resource.startswith(HUGE_PAGES) else (1, "")
    return f"{max(0.0, amount) / unit:.1f}".removesuffix(".0") + name


def is_tolerated(node: FabricNode, placement: PlacementSpec) -> Explanation | None:
    """Refuse a node with a taint that pods of this pool would not tolerate.

    A taint named like the resource is tolerated: every pod that asks for the resource gets that toleration.
    """
    for taint in node.taints:
        own = taint.key == node.resource or taint.effect not in BLOCKING_EFFECTS
        if not own and not any(_tolerates(toleration, taint) for toleration in placement.tolerations):
            return Explanation(
                Reason.NodeTainted, f"node {node.name} has the taint {taint.key}={taint.value}:{taint.effect}"
            )
    return None


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Kubernetes' rule; a toleration of NoExecute that runs out is none for a pod that shall stay."""
    if toleration.effect not in {"", taint.effect}:
        return False
    if taint.effect == "NoExecute" and toleration.seconds is not None:
        return False
    if toleration.operator == "Exists":
        return toleration.key in {"", taint.key}
    return toleration.key == taint.key and toleration.value == taint.value
