"""`weft fabric --html`: the fabric as one self-contained page, without scripts or network access.

A card is an NVLink domain, a row a node, a cell a GPU. Colours are those of Okabe and Ito, "Color Universal Design"
(2008), which people with any colour vision can distinguish; beyond seven pools a notch in the cell distinguishes more.
Free, spare and unusable GPUs differ by border and pattern as well.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from html import escape
from importlib import resources
from itertools import groupby
from typing import TYPE_CHECKING
from zlib import crc32

from weft.cli.fabric.page import FREE, LOST, PROMISED, SPARE, cells, headline, taints_told
from weft.cli.fabric.tables import holes, is_outlined, legend, share, troubles
from weft.domain.texts.figures import counted
from weft.placement import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weft.cli.cluster.sitting import Rack, Sitter, Sitting, Tray

COLOURS, NOTCHES = 7, 4
ROOMY_TRAYS, COMPACT_TRAYS = 60, 400  # most nodes with words in every row, and with cells of medium size
LONGEST_NAME = 8
_META = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
_STATES = {FREE: "free", SPARE: "spare", LOST: "lost"}


@dataclass(frozen=True, slots=True)
class Paint:
    """How cells look: the CSS classes of each pool, and whether rows have words beside them."""

    pools: dict[str, str]
    roomy: bool

    def of(self, mark: str, sitter: Sitter | None) -> str:
        """Return the CSS classes of one cell."""
        if mark in _STATES:
            return _STATES[mark]
        if sitter is None or sitter.replica is None:
            return "other"
        extra = " promised" if mark == PROMISED else " leaves" if sitter.leaves else ""
        return f"{self.pools[sitter.name]}{extra}"


def fabric_html(sitting: Sitting, told: str) -> str:
    """Return the whole page; `told` says where and when the fabric was read."""
    trays = sum(len(rack.trays) for rack in sitting.racks)
    density = "roomy" if trays <= ROOMY_TRAYS else "compact" if trays <= COMPACT_TRAYS else "small"
    paint = Paint(colours(sitting.pools), density == "roomy")
    body = (
        f"<h1>Fabric</h1><p class=soft>{escape(headline(sitting))}. {escape(told)}</p>",
        share(sitting, paint.of),
        legend(sitting, paint.pools),
        holes(sitting),
        *_sections(sitting, paint),
        troubles(sitting),
    )
    style = resources.files("weft.cli.fabric").joinpath("page.css").read_text(encoding="utf-8")
    page = "\n".join(part for part in body if part)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{_META}<title>Weft fabric</title><style>\n{style}</style></head>\n'
        f'<body class="{density}"><main>\n{page}\n</main></body>\n</html>\n'
    )


def colours(pools: Iterable[str]) -> dict[str, str]:
    """Return CSS classes by pool: a colour from its name, or the next free one; beyond seven pools with a notch."""
    taken: set[int] = set()
    found = {}
    ring = COLOURS * NOTCHES
    for name in sorted(pools):
        wish = crc32(name.encode()) % COLOURS
        lap = len(taken) // COLOURS % NOTCHES * COLOURS
        order = (lap + (wish + step) % COLOURS for step in range(COLOURS))
        place = next((each for each in order if each not in taken), lap + wish)
        taken = set() if len(taken) + 1 >= ring else taken | {place}
        notch = f" m{place // COLOURS}" if place >= COLOURS else ""
        found[name] = f"c{place % COLOURS}{notch}"
    return found


def _sections(sitting: Sitting, paint: Paint) -> Iterator[str]:
    """Yield one section for each zone and shared network tier; single-node domains of one kind share one card."""
    below = Counter(_path(rack)[:1] for rack in sitting.racks)
    ordered = sorted(
        sitting.racks, key=lambda rack: (_title(rack, below), rack.domain.accelerator, natural(rack.domain.name))
    )
    for title, group in groupby(ordered, key=lambda rack: _title(rack, below)):
        racks = list(group)
        total = sum(rack.domain.total for rack in racks)
        free = sum(rack.room.free for rack in racks)
        size = f"{counted(len(racks), 'NVLink domain')}, {free} of {counted(total, 'GPU')} free"
        yield f"<h2>{escape(title)} <small>{size}</small></h2><div class=racks>"
        yield from _cards(racks, paint)
        yield "</div>"


def _path(rack: Rack) -> tuple[str, ...]:
    return tuple(tier for tier in rack.domain.tiers[1:] if tier)


def _title(rack: Rack, below: Mapping[tuple[str, ...], int]) -> str:
    """Return `zone a · spine-1`: the zone, with the outermost network tier where several domains share it.

    `below` counts domains by that tier.
    """
    zone = f"zone {rack.domain.zone}" if rack.domain.zone else "no zone"
    outer = _path(rack)[:1]
    shared = outer and below[outer] > 1
    return f"{zone} · {outer[0]}" if shared else zone


def _cards(racks: Sequence[Rack], paint: Paint) -> Iterator[str]:
    for accelerator, group in groupby(racks, key=lambda rack: rack.domain.accelerator):
        together = list(group)
        yield from (_rack(rack, paint) for rack in together if len(rack.trays) > 1)
        boards = [rack for rack in together if len(rack.trays) == 1]
        if boards:
            yield _boards(accelerator, boards, paint)


def _rack(rack: Rack, paint: Paint) -> str:
    domain, room = rack.domain, rack.room
    spare = f", {rack.spare} spare" if rack.spare else ""
    free, fits, name = f"{room.free} free", f"fits {room.largest}", _short(domain.name)
    if paint.roomy:
        free = f"{domain.accelerator}, {room.free} of {counted(domain.total, 'GPU')} free{spare}"
        fits, name = f"largest replica that fits: {counted(room.largest, 'GPU')}", domain.name
    slots = ", ".join(f"{count} x {size}" for size, count in reversed(room.slots) if count) or "none"
    title = f"{domain.name}: {domain.accelerator}, {room.free} of {counted(domain.total, 'GPU')} free{spare}"
    title = f"{title}; replicas that still fit, by GPUs: {slots}"
    head = (
        f'<header title="{escape(title)}"><b>{escape(name)}</b><span>{escape(free)}</span><span>{fits}</span></header>'
    )
    return f"<section class=card>{head}{_trays(rack.trays, paint)}</section>"


def _short(name: str) -> str:
    """Shorten a name to fit above four cells: cliques are long and differ at their end."""
    return name if len(name) <= LONGEST_NAME else f"{name[:2]}…{name[3 - LONGEST_NAME :]}"


def _boards(accelerator: str, boards: Sequence[Rack], paint: Paint) -> str:
    total, free = sum(rack.domain.total for rack in boards), sum(rack.room.free for rack in boards)
    told = f"{counted(len(boards), 'board')}, {free} of {counted(total, 'GPU')} free"
    head = f"<header><b>{escape(accelerator)}</b><span>{told}</span></header>"
    return f'<section class="card boards">{head}{_trays([rack.trays[0] for rack in boards], paint)}</section>'


def _trays(trays: Sequence[Tray], paint: Paint) -> str:
    columns = max(1, min(8, len(trays) // 8 + 1))
    widest = max(len(tray.node.name) for tray in trays)
    rows = "".join(_tray(tray, paint) for tray in trays)
    return f'<div class=trays style="--columns:{columns};--names:{min(widest, 30)}ch">{rows}</div>'


def _tray(tray: Tray, paint: Paint) -> str:
    amiss = " amiss" if is_outlined(tray) else ""
    row = "".join(_cell(mark, sitter, paint) for mark, sitter in cells(tray))
    row = f"<u>{row}</u>" if row else f"<u class=count>{counted(tray.node.total, 'GPU')}</u>"
    words = _words(tray) if paint.roomy else ""
    name = f"<em class=name>{escape(tray.node.name)}</em>" if paint.roomy else ""
    return f'<div class="tray{amiss}" title="{escape(_tooltip(tray))}">{name}{row}{words}</div>\n'


def _cell(mark: str, sitter: Sitter | None, paint: Paint) -> str:
    number = sitter.replica if paint.roomy and sitter is not None and sitter.replica is not None else ""
    return f'<i class="{paint.of(mark, sitter)}">{number}</i>'


def _words(tray: Tray) -> str:
    """Return who holds the node's GPUs, and what is wrong with it."""
    who = ", ".join(dict.fromkeys(sitter.name for sitter in tray.sitters)) or (
        f"spare of {tray.spare_of}" if tray.spare_of else ""
    )
    why = f"<em class=bad>{escape(tray.why.reason.value)}</em>" if tray.why is not None else ""
    taints = "" if tray.faulty else ", ".join(taints_told(tray.node))
    return "".join((*(f"<em>{escape(each)}</em>" for each in (who, taints) if each), why))


def _tooltip(tray: Tray) -> str:
    who = [
        f"{sitter}: {counted(sitter.gpus, 'GPU')}{' promised' if sitter.promised else ''}" for sitter in tray.sitters
    ]
    kept = [f"spare of {tray.spare_of}"] if tray.spare_of else []
    why = [f"{tray.why.reason.value}: {tray.why.message}"] if tray.why is not None else []
    return "\n".join(
        (f"{tray.node.name}: {tray.free} of {tray.node.total} free", *who, *kept, *why, *taints_told(tray.node))
    )
