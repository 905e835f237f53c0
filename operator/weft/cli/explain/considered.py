"""Which NVLink domains were considered for a replica, and why each was not taken."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from weft.domain.reasons import Reason
from weft.domain.texts.figures import counted
from weft.engines.kv.host_memory import pod_needs
from weft.engines.kv.nvlink import over_nvlink
from weft.placement import Neighbours, Slot, compare, find_slot, natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from weft.cli.cluster.sitting import Sitting
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import PoolRecord
    from weft.domain.spec import PlacementSpec, PoolSpec
    from weft.placement import FreeMap

SHOWN = 20
# Order of reasons: a domain with room comes first, then one with room in pieces; another accelerator comes last.
_TELLING = {
    Reason.OtherPreferred: 0,
    Reason.DomainFragmented: 1,
    Reason.DomainTooSmall: 2,
    Reason.WrongAccelerator: 4,
}
_BETWEEN = 3


@dataclass(frozen=True, slots=True)
class Considered:
    """What a replica of the pool `name` needs, and every domain that is not taken, the most telling reason first.

    `nodes` are where it would go now: one more replica than there are, or, if the pool `lacks` a place, on GPUs that
    became free since the operator looked.
    """

    name: str
    need: str
    domains: tuple[tuple[str, Explanation], ...]
    nodes: tuple[str, ...] = ()
    lacks: bool = True


def lacks_a_place(conditions: Iterable[tuple[str, str, str]]) -> bool:
    """Whether a condition (type, status, reason) says that nothing has room for a replica."""
    return ("Placed", "False", Reason.NoSlot.value) in conditions


def considered(
    pool: PoolRecord, sitting: Sitting, partners: Sequence[str] = (), *, always: bool = False
) -> Considered | None:
    """Search for one more replica as the operator does, on the fabric as it is.

    `partners` are nodes of the other half of its split. None for a pool without a plan, and for one that lacks no place
    unless `always`.
    """
    lacks = lacks_a_place([(each.kind, each.status, each.explanation.reason.value) for each in pool.conditions])
    if pool.spec is None or pool.status.plan is None or not (lacks or always):
        return None
    name, free = f"{pool.key.namespace}/{pool.key.name}", sitting.free
    own = [tray.node for rack in sitting.racks for tray in rack.trays if tray.spare_of == name]
    asked = (
        pool.status.plan.shape,
        _placement(pool, pool.spec, partners, free),
        free,
        _neighbours(pool, partners),
        pod_needs(pool.spec, pool.status.plan),
    )
    with free.supposing():
        for node in own:  # the search itself keeps them
            free.shift(node.name, node.total)
        found, answer = compare(*asked), find_slot(*asked)
        left = {rack.domain.name: sum(free.on(tray.node.name) for tray in rack.trays) for rack in sitting.racks}
    domains = found.others if found is not None else () if isinstance(answer, Slot) else answer.domains
    order = tuple(sorted(domains, key=lambda each: _order(each, left)))
    if isinstance(answer, Slot):
        return Considered(name, str(pool.status.plan.shape), order, answer.nodes, lacks)
    need = answer.explanation.message.partition(": ")[0].partition(", but no node")[0]
    return Considered(name, need, order)


def _placement(pool: PoolRecord, spec: PoolSpec, partners: Sequence[str], free: FreeMap) -> PlacementSpec:
    """Return the placement, pinned to the NVLink domain of both halves where their KV goes over NVLink."""
    known, own = free.fabric.nodes(), (node for each in pool.status.assignments for node in each.nodes)
    homes = [known[node].domain for node in (*own, *partners) if node in known]
    return replace(spec.placement, nvlink_domain=homes[0]) if homes and over_nvlink(spec) else spec.placement


def _neighbours(pool: PoolRecord, partners: Sequence[str]) -> Neighbours:
    siblings = tuple(node for each in pool.status.assignments for node in each.nodes)
    far = pool.spec is None or pool.spec.kv.locality == "Any"
    return Neighbours(siblings, () if far else tuple(partners))


def _order(domain: tuple[str, Explanation], left: dict[str, int]) -> tuple[object, ...]:
    name, why = domain
    return _TELLING.get(why.reason, _BETWEEN), -left.get(name, 0), natural(name)


def considered_page(found: Considered) -> RenderableType:
    """Show the first domains with their reasons, and count the others by reason."""
    head = f"{found.name}: {found.need}; {counted(len(found.domains), 'NVLink domain')} considered"
    if found.nodes:
        who, would = ("a", "would find room now, on") if found.lacks else ("one more", "would go to")
        head = f"{found.name}: {who} replica of {found.need} {would} {', '.join(found.nodes)}"
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name, why in found.domains[:SHOWN]:
        table.add_row("not", name, why.reason.value, why.message.removeprefix(f"{found.need}; "))
    return Group(Text(head, style="bold"), table, *_rest(found.domains[SHOWN:]))


def _rest(domains: tuple[tuple[str, Explanation], ...]) -> list[Text]:
    if not domains:
        return []
    reasons = Counter(why.reason.value for _, why in domains)
    parts = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    return [Text(f"and {len(domains)} more: {parts}", style="dim")]
