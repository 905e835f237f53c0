"""What nodes of a kind lack besides GPUs: because others hold it, or so that more nodes like these would not help."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from weft.domain.texts.units import parse_quantity
from weft.placement.freemap import MEMORY
from weft.placement.suppliers import is_selected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weft.domain.fabric import Fabric, FabricNode
    from weft.domain.shape import Shape
    from weft.domain.spec import Pairs, PlacementSpec
    from weft.placement.freemap import FreeMap


class LackingBesides(NamedTuple):
    """Parts of what each pod needs besides GPUs, as quantities by resource.

    `now` is what some node has too little of; `ever` the same of nodes that no other pod uses, empty if one has all.
    """

    now: Pairs = ()
    ever: Pairs = ()


def lacking_besides_gpus(shape: Shape, placement: PlacementSpec, free: FreeMap, needs: Pairs) -> LackingBesides:
    """What nodes lack that the pool selects and that have enough GPUs of the kind, whatever they do now."""
    if not needs:
        return LackingBesides()
    asked = {resource: parse_quantity(amount) for resource, amount in needs}
    nodes = list(_could_hold(shape, placement, free.fabric))
    ever = [_lacks(asked, {**dict(node.left or ()), **dict(node.nics)}) for node in nodes if node.left is not None]
    now = [_lacks(asked, _left_now(node.left, free.memory_left(node.name))) for node in nodes if node.left is not None]
    has_all = len(ever) < len(nodes) or not all(ever)
    return LackingBesides(_of(needs, now), () if has_all else _of(needs, ever))


def _could_hold(shape: Shape, placement: PlacementSpec, fabric: Fabric) -> Iterator[FabricNode]:
    for domain in fabric.domains:
        for node in domain.nodes:
            enough = node.accelerator == shape.accelerator and node.most_of_a_pod >= shape.gpus_per_pod
            if enough and is_selected(node, placement) is None:
                yield node


def _left_now(left: Iterable[tuple[str, float]], memory: float) -> dict[str, float]:
    return {**dict(left), MEMORY: memory}


def _lacks(asked: Mapping[str, float], there: Mapping[str, float]) -> set[str]:
    return {name for name, amount in asked.items() if there.get(name, 0.0) < amount}


def _of(needs: Pairs, lacked: list[set[str]]) -> Pairs:
    return tuple(pair for pair in needs if any(pair[0] in each for each in lacked))
