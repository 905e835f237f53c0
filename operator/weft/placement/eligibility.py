"""Which nodes a pool may use at all, whatever is free on them: ordered checks, the first that fails is the reason."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import HUGE_PAGES
from weft.domain.texts.units import GIB, parse_quantity
from weft.domain.values.made_often import made_often
from weft.domain.values.remembered import LastAnswers
from weft.placement.freemap import MEMORY
from weft.placement.names import natural
from weft.placement.suppliers import has_whole_devices, is_selected
from weft.placement.taints import Tolerated, is_tolerated, taints_of, tolerated_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weft.domain.fabric import Fabric, FabricNode, NvlinkDomain
    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs, PlacementSpec
    from weft.placement.freemap import FreeMap
    from weft.placement.taints import Taints

_IN_BYTES = (MEMORY, "ephemeral-storage")


@made_often
@dataclass(frozen=True, slots=True)
class EligibleDomain:
    """A domain with its usable nodes (`names` are theirs, in natural order), and why the others are not usable."""

    domain: NvlinkDomain
    nodes: tuple[FabricNode, ...]
    passed_over: tuple[tuple[FabricNode, Explanation], ...]
    names: tuple[str, ...]
    has_parts: bool  # whether any of its nodes offers parts of GPUs


Eligibility = tuple[str, bool, tuple[str, ...], "Pairs", "Taints", str, "Pairs"]


@dataclass(frozen=True, slots=True)
class NodeRequirements:
    """What a pool asks of nodes."""

    shape: Shape
    placement: PlacementSpec
    needs: Pairs
    tolerated: Tolerated

    @property
    def key(self) -> Eligibility:
        """The part of the wish that decides which nodes are usable: pools that agree in it share the answer."""
        placement = self.placement
        wish = placement.accelerators, placement.node_selector, self.tolerated.taints, placement.nvlink_domain
        return self.shape.accelerator, self.shape.gpus > 1, *wish, self.needs


# Answers are kept for this many different wishes, each a megabyte in a cluster of 5,000 nodes.
WISHES = 32
_LAST: LastAnswers[tuple[NvlinkDomain, ...], tuple[EligibleDomain, ...]] = LastAnswers(WISHES)


def eligible_domains(
    shape: Shape, placement: PlacementSpec, free: FreeMap, needs: Pairs = ()
) -> tuple[EligibleDomain, ...]:
    """Every domain of the fabric with its nodes sorted into usable and not, for this shape and pool.

    Most domains are unchanged since the last answer, of this pass or an earlier one, which is then reused. `needs` is
    what each pod requests besides accelerators, as quantities by resource.
    """
    return _eligible(_wish(shape, placement, free, needs), free)


def eligibility(shape: Shape, placement: PlacementSpec, free: FreeMap, needs: Pairs = ()) -> Eligibility:
    """The part of a shape and a placement that decides which nodes are usable; pools that agree in it share answers."""
    return _wish(shape, placement, free, needs).key


def _wish(shape: Shape, placement: PlacementSpec, free: FreeMap, needs: Pairs) -> NodeRequirements:
    return NodeRequirements(shape, placement, needs, tolerated_by(placement.tolerations, free.fabric))


def _eligible(wish: NodeRequirements, free: FreeMap) -> tuple[EligibleDomain, ...]:
    key = wish.key
    if key not in free.eligible:
        free.eligible[key] = _worked_out(wish, free)
    answer: tuple[EligibleDomain, ...] = free.eligible[key]
    return answer


def _worked_out(wish: NodeRequirements, free: FreeMap) -> tuple[EligibleDomain, ...]:
    """The answer shared for these wide tolerations, with domains that narrow ones open checked for this pool alone."""
    fabric, tolerated = free.fabric, wish.tolerated
    if tolerated.taints == tolerated.wide:
        before = _LAST.last(wish.key) or ()
        return _LAST.ask(wish.key, fabric.domains, lambda _: _sorted_out(wish, fabric, before))
    common = replace(wish, tolerated=Tolerated(tolerated.wide, tolerated.wide))
    answer, needs = list(_eligible(common, free)), _parsed(wish.needs)
    for place in taints_of(fabric).narrow_places(tolerated) | _places_of_parts(wish, common, answer, fabric):
        answer[place] = _sort_out(fabric.domains[place], wish, fabric, needs)
    return tuple(answer)


def _places_of_parts(
    wish: NodeRequirements, common: NodeRequirements, answer: list[EligibleDomain], fabric: Fabric
) -> set[int]:
    """Positions of domains with parts of GPUs, if only one of the two wishes may use whole GPUs somewhere."""
    whole = (_has_whole_devices(each, fabric) for each in (wish, common))
    return {place for place, each in enumerate(answer) if each.has_parts} if len(set(whole)) > 1 else set()


def _has_whole_devices(wish: NodeRequirements, fabric: Fabric) -> bool:
    return has_whole_devices(wish.shape.accelerator, fabric, wish.placement, wish.tolerated)


def _is_of(known: EligibleDomain, domain: NvlinkDomain) -> bool:
    """Whether an earlier answer still holds for a domain; with parts of GPUs it depends on others, so it does not."""
    return known.domain is domain and not known.has_parts


def _sorted_out(
    wish: NodeRequirements, fabric: Fabric, before: tuple[EligibleDomain, ...]
) -> tuple[EligibleDomain, ...]:
    """All domains, with earlier answers reused for those that are unchanged."""
    needs = _parsed(wish.needs)
    pairs = zip_longest(fabric.domains, before[: len(fabric.domains)])
    return tuple(
        [
            known if known is not None and _is_of(known, domain) else _sort_out(domain, wish, fabric, needs)
            for domain, known in pairs
        ]
    )


def _parsed(needs: Pairs) -> dict[str, float]:
    return {resource: parse_quantity(amount) for resource, amount in needs}


def _sort_out(
    domain: NvlinkDomain, wish: NodeRequirements, fabric: Fabric, needs: Mapping[str, float]
) -> EligibleDomain:
    usable, passed_over = [], []
    for node in domain.nodes:
        refusal = next(_refusals(node, wish, fabric), None) or has_the_rest(node, needs)
        if refusal is None:
            usable.append(node)
        else:
            passed_over.append((node, refusal))
    names = sorted((node.name for node in usable), key=natural)
    has_parts = any(node.shared for node in domain.nodes)
    return EligibleDomain(domain, tuple(usable), tuple(passed_over), tuple(names), has_parts)


def _refusals(node: FabricNode, wish: NodeRequirements, fabric: Fabric) -> Iterator[Explanation]:
    shape = wish.shape
    if node.accelerator != shape.accelerator:
        yield Explanation(Reason.WrongAccelerator, f"node {node.name} has {node.accelerator}, not {shape.accelerator}")
    if (outside := _is_outside(node, wish.placement.nvlink_domain)) is not None:
        yield outside
    if (unselected := is_selected(node, wish.placement)) is not None:
        yield unselected
    if node.unusable is not None:  # before the taint that Kubernetes adds to such a node
        yield node.unusable
    if (taint := is_tolerated(node, wish.tolerated.taints)) is not None:
        yield taint
    # Parts of the same kind have less memory than a plan for whole devices counted on.
    if node.shared and (shape.gpus > 1 or _has_whole_devices(wish, fabric)):
        yield Explanation(Reason.SharedDevice, f"node {node.name} offers parts of GPUs only")


def _is_outside(node: FabricNode, domain: str) -> Explanation | None:
    """Refuse a node outside the one NVLink domain that the replicas are bound to, if there is one."""
    if not domain or (node.domain == domain and node.shares_memory):
        return None
    why = "has no driver that forms ComputeDomains" if node.domain == domain else f"is not in NVLink domain {domain}"
    told = f"node {node.name} {why}, where the KV of its split goes over NVLink"
    return Explanation(Reason.OutsideNvlinkDomain, told)


def has_the_rest(node: FabricNode, needs: Mapping[str, float]) -> Explanation | None:
    """Refuse a node that lacks another requested resource: RDMA devices, or enough CPU, memory, huge pages or disk.

    How much CPU, memory, huge pages and disk other pods hold is not known, so the whole node's amount counts;
    memory that pools need counts while a place is looked for (`FreeMap`).
    """
    if node.left is None or not needs:
        return None
    left = dict(node.left)
    for resource, amount in needs.items():
        if (there := left.get(resource, 0.0)) < amount:
            message = f"node {node.name} has {amount_of(resource, there)} {resource}, not {amount_of(resource, amount)}"
            return Explanation(Reason.NodeLacksResource, message + _what_it_has_instead(node, resource))
    return None


def _what_it_has_instead(node: FabricNode, resource: str) -> str:
    """Its RDMA devices by the names that its own device plugins gave them, if it lacks a device altogether."""
    is_device = "/" in resource and resource not in dict(node.nics)
    named = ", ".join(f"{count} {name}" for name, count in node.nics)
    return f" (its RDMA devices: {named})" if is_device and named else ""


def memory_of(needs: Pairs) -> int:
    """Bytes of a node's memory that each pod needs; 0 where it names none."""
    amount = dict(needs).get(MEMORY) if needs else None
    return 0 if amount is None else math.ceil(parse_quantity(amount))


def amount_of(resource: str, amount: float) -> str:
    """`8`, `1.5`, or `900Gi` of a resource that counts bytes."""
    unit, name = (GIB, "Gi") if resource in _IN_BYTES or resource.startswith(HUGE_PAGES) else (1, "")
    return f"{max(0.0, amount) / unit:.1f}".removesuffix(".0") + name
