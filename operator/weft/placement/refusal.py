"""Why a replica fits nowhere, domain by domain, and what would make room."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.domain.fabric import FabricNode
    from weft.domain.shape import Shape
    from weft.placement.eligibility import EligibleDomain
    from weft.placement.freemap import FreeMap

NAMED_HOLDERS = 3
NAMED_NODES = 3


def refuse(
    shape: Shape, domains: Sequence[EligibleDomain], free: FreeMap
) -> tuple[Explanation, tuple[tuple[str, Explanation], ...]]:
    """The sentence for the condition, and one reason for every domain."""
    verdicts = tuple((each.domain.name, _verdict(shape, each, free)) for each in domains)
    need = _need(shape)
    if not any(each.nodes for each in domains):
        message = f"{need}, but no node may take it{_passed_over(domains, everything=True)}"
    elif shape.pods == 1:
        message = f"{need}: {_room_on_a_node(shape, domains, free)}{_passed_over(domains)}"
    else:
        message = f"{need}: {_room_in_a_domain(shape, domains, free)}{_passed_over(domains)}"
    return Explanation(Reason.NoSlot, message), verdicts


def _need(shape: Shape) -> str:
    if shape.pods == 1:
        return f"{shape} needs {_gpus(shape.gpus_per_pod)} free on one node"
    stages = f" for each of {shape.pipeline_parallel} stages" if shape.pipeline_parallel > 1 else ""
    nodes = _group_pods(shape)
    return f"{shape} needs {nodes} nodes with {_gpus(shape.gpus_per_pod)} free each inside one NVLink domain{stages}"


def _group_pods(shape: Shape) -> int:
    return max(1, shape.domain_group_gpus // shape.gpus_per_pod)


def _verdict(shape: Shape, each: EligibleDomain, free: FreeMap) -> Explanation:
    if not each.nodes:
        return _most_common(each)
    large_enough = sum(node.total >= shape.gpus_per_pod for node in each.nodes)
    if large_enough < _group_pods(shape):
        return Explanation(Reason.DomainTooSmall, f"{_need(shape)}; {each.domain.name} has {large_enough} such")
    fitting = sum(free.on(node.name) >= shape.gpus_per_pod for node in each.nodes)
    scattered = sum(free.on(node.name) for node in each.nodes)
    return Explanation(
        Reason.DomainFragmented,
        f"{_need(shape)}; {each.domain.name} has {fitting} such and {_gpus(scattered)} free in all",
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


def _room_in_a_domain(shape: Shape, domains: Sequence[EligibleDomain], free: FreeMap) -> str:
    need, nodes = shape.gpus_per_pod, _group_pods(shape)
    roomy = {each.domain.name: [node for node in each.nodes if node.total >= need] for each in domains}
    best = max(roomy, key=lambda name: (_fitting(roomy[name], need, free), len(roomy[name])))
    fitting = _fitting(roomy[best], need, free)
    have = f"{best} comes nearest with {fitting}"
    if shape.pipeline_parallel > 1 and fitting >= nodes:
        return f"{have}, which is too few for all stages; free more nodes of one zone"
    if len(roomy[best]) < nodes:
        return f"{have}, and no NVLink domain has that many at all"
    busy = [node for node in roomy[best] if free.on(node.name) < need]
    return f"{have}; to make room, free {nodes - fitting} more of its nodes{_held_by(busy, free)}"


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
    by_reason: dict[Reason, list[str]] = {}
    for each in domains:
        for node, refusal in each.passed_over:
            if everything or refusal.reason is not Reason.WrongAccelerator:
                by_reason.setdefault(refusal.reason, []).append(node.name)
    parts = [f"{len(names)} {reason.value} ({_listed(names)})" for reason, names in sorted(by_reason.items())]
    return f"; passed over: {', '.join(parts)}" if parts else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:NAMED_NODES]) + (", ..." if len(names) > NAMED_NODES else "")


def _gpus(count: int) -> str:
    return f"{count} GPU" if count == 1 else f"{count} GPUs"
