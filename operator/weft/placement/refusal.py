"""Why a replica fits nowhere, domain by domain, and what would make room."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import DomainRule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.domain.fabric import FabricNode
    from weft.domain.shape import Shape
    from weft.placement.eligibility import EligibleDomain
    from weft.placement.freemap import FreeMap

NAMED_HOLDERS = 3
NAMED_NODES = 3


def refuse(
    shape: Shape, domains: Sequence[EligibleDomain], free: FreeMap, rule: DomainRule
) -> tuple[Explanation, tuple[tuple[str, Explanation], ...]]:
    """The sentence for the condition, and one reason for every domain."""
    group = _group_pods(shape, rule)
    need = _need(shape, group)
    verdicts = tuple((each.domain.name, _verdict(shape, group, need, each, free)) for each in domains)
    if not any(each.nodes for each in domains):
        message = f"{need}, but no node may take it{_passed_over(domains, everything=True)}"
    elif shape.pods == 1:
        message = f"{need}: {_room_on_a_node(shape, domains, free)}{_passed_over(domains)}"
    else:
        message = f"{need}: {_room_in_a_domain(shape, group, domains, free)}{_passed_over(domains)}"
    return Explanation(Reason.NoSlot, message), verdicts


def _need(shape: Shape, group: int) -> str:
    if shape.pods == 1:
        return f"{shape} needs {_gpus(shape.gpus_per_pod)} free on one node"
    parts = f" for each of {shape.pods // group} pipeline stages" if group < shape.pods else ""
    return f"{shape} needs {group} nodes with {_gpus(shape.gpus_per_pod)} free each inside one NVLink domain{parts}"


def _group_pods(shape: Shape, rule: DomainRule) -> int:
    """Pods that must share a domain: one pipeline stage where stages may spread, else all."""
    if rule is DomainRule.Preferred:
        return max(1, shape.domain_group_gpus // shape.gpus_per_pod)
    return shape.pods


def _verdict(shape: Shape, group: int, need: str, each: EligibleDomain, free: FreeMap) -> Explanation:
    if not each.nodes:
        return _most_common(each)
    large_enough = sum(node.total >= shape.gpus_per_pod for node in each.nodes)
    if large_enough < group:
        return Explanation(Reason.DomainTooSmall, f"{need}; {each.domain.name} has {large_enough} such")
    fitting = sum(free.on(node.name) >= shape.gpus_per_pod for node in each.nodes)
    scattered = sum(free.on(node.name) for node in each.nodes)
    return Explanation(
        Reason.DomainFragmented,
        f"{need}; {each.domain.name} has {fitting} such and {_gpus(scattered)} free in all",
    )


def _most_common(each: EligibleDomain) -> Explanation:
    reasons = Counter(refusal.reason for _, refusal in each.passed_over)
    return max((refusal for _, refusal in each.passed_over), key=lambda refusal: reasons[refusal.reason])


def _room_on_a_node(shape: Shape, domains: Sequence[EligibleDomain], free: FreeMap) -> str:
    need = shape.gpus_per_pod
    nodes = [node for each in domains for node in each.nodes]
    largest = max(nodes, key=lambda node: (free.on(node.name), node.total))
    hole = f"the largest hole is {free.on(largest.name)} of {largest.total} on {largest.name}"
    roomy = [node for node in nodes if node.total >= need]
    if not roomy:
        return f"{hole}, and no node has that many at all"
    node = _cheapest(roomy, free)
    return f"{hole}; to make room, free {_gpus(need - free.on(node.name))} more on {node.name}{_held_by([node], free)}"


def _room_in_a_domain(shape: Shape, group: int, domains: Sequence[EligibleDomain], free: FreeMap) -> str:
    need = shape.gpus_per_pod
    roomy = {each.domain.name: [node for node in each.nodes if node.total >= need] for each in domains}
    best = max(roomy, key=lambda name: (_fitting(roomy[name], need, free), len(roomy[name])))
    fitting = _fitting(roomy[best], need, free)
    have = f"{best} comes nearest with {fitting}"
    if fitting >= group:
        return f"{have}, which is too few for all stages; free more nodes of one zone"
    if len(roomy[best]) < group:
        return f"{have}, and no NVLink domain has that many at all"
    busy = [node for node in roomy[best] if free.on(node.name) < need]
    return f"{have}; to make room, free {group - fitting} more of its nodes{_held_by(busy, free)}"


def _fitting(nodes: Sequence[FabricNode], need: int, free: FreeMap) -> int:
    return sum(free.on(node.name) >= need for node in nodes)


def _cheapest(nodes: Sequence[FabricNode], free: FreeMap) -> FabricNode:
    """The node that needs the least clearing; the first by order among equals."""
    return max(nodes, key=lambda node: (free.on(node.name), -len(free.holders(node.name))))


def _held_by(nodes: Sequence[FabricNode], free: FreeMap) -> str:
    holders = sorted({holder for node in nodes for holder in free.holders(node.name)})
    named = ", ".join(holders[:NAMED_HOLDERS]) + (", ..." if len(holders) > NAMED_HOLDERS else "")
    return f" (held by {named})" if named else ""


def _passed_over(domains: Sequence[EligibleDomain], *, everything: bool = False) -> str:
    """Nodes that would count but for a reason somebody can remove; other accelerators only where nothing is left."""
    by_reason: dict[Reason, list[tuple[FabricNode, Explanation]]] = {}
    for each in domains:
        for node, refusal in each.passed_over:
            if everything or refusal.reason is not Reason.WrongAccelerator:
                by_reason.setdefault(refusal.reason, []).append((node, refusal))
    parts = [_counted(reason, refused) for reason, refused in sorted(by_reason.items())]
    return f"; passed over: {', '.join(parts)}" if parts else ""


def _counted(reason: Reason, refused: Sequence[tuple[FabricNode, Explanation]]) -> str:
    """One node in its own words, several by number and name."""
    if len(refused) == 1:
        return refused[0][1].message
    return f"{len(refused)} {reason.value} ({_listed([node.name for node, _ in refused])})"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED_NODES]) + (", ..." if len(names) > NAMED_NODES else "")


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
