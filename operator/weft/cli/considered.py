"""Which NVLink domains were considered for a replica without a place, and why each was not taken."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group
from rich.table import Table
from rich.text import Text

from weft.cli.figures import counted
from weft.domain.reasons import Reason
from weft.placement import Slot, find_slot, natural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from weft.cli.sitting import Sitting
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import PoolRecord

SHOWN = 20
# What has the room but in pieces is nearest to a place; another accelerator is none at all.
_TELLING = {Reason.DomainFragmented: 0, Reason.DomainTooSmall: 1, Reason.WrongAccelerator: 3}
_BETWEEN = 2


@dataclass(frozen=True, slots=True)
class Considered:
    """What a replica of the pool `name` needs, and every domain with its reason, the most telling first.

    `nodes` are where it would go now, if something became free since the operator looked.
    """

    name: str
    need: str
    domains: tuple[tuple[str, Explanation], ...]
    nodes: tuple[str, ...] = ()


def lacks_a_place(conditions: Iterable[tuple[str, str, str]]) -> bool:
    """Whether a condition (type, status, reason) says that nothing has room for a replica."""
    return ("Placed", "False", Reason.NoSlot.value) in conditions


def considered(pool: PoolRecord, sitting: Sitting) -> Considered | None:
    """Search again as the operator does, on the fabric as it is; None for a pool that lacks no place or has no plan."""
    found = [(each.kind, each.status, each.explanation.reason.value) for each in pool.conditions]
    if pool.spec is None or pool.status.plan is None or not lacks_a_place(found):
        return None
    name, free, placement = f"{pool.key.namespace}/{pool.key.name}", sitting.free, pool.spec.placement
    own = [tray.node for rack in sitting.racks for tray in rack.trays if tray.spare_of == name]
    with free.supposing():
        for node in own:  # the search itself keeps them
            free.shift(node.name, node.total)
        answer = find_slot(pool.status.plan.shape, placement, free, needs=pool.spec.engine.resources)
        left = {rack.domain.name: sum(free.on(tray.node.name) for tray in rack.trays) for rack in sitting.racks}
    if isinstance(answer, Slot):
        return Considered(name, str(pool.status.plan.shape), (), answer.nodes)
    need = answer.explanation.message.partition(": ")[0].partition(", but no node")[0]
    order = sorted(answer.domains, key=lambda each: _order(each, left))
    return Considered(name, need, tuple(order))


def _order(domain: tuple[str, Explanation], left: dict[str, int]) -> tuple[object, ...]:
    name, why = domain
    return _TELLING.get(why.reason, _BETWEEN), -left.get(name, 0), natural(name)


def considered_page(found: Considered) -> RenderableType:
    """The first domains with their reasons, and how many others there are of each."""
    if found.nodes:
        place = ", ".join(found.nodes)
        return Text(f"{found.name}: a replica of {found.need} would find room now, on {place}")
    head = f"{found.name}: {found.need}; {counted(len(found.domains), 'NVLink domain')} considered"
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
