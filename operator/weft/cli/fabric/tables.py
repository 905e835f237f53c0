"""What surrounds the racks on the fabric's HTML page: shares, the legend, what still fits, and what is wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from html import escape
from typing import TYPE_CHECKING

from weft.cli.fabric.page import FREE, LOST, PROMISED, SPARE, USED, cells, nothing_offered
from weft.cli.telling.alike import told_once
from weft.domain.texts.figures import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weft.cli.cluster.sitting import Sitter, Sitting, Tray
    from weft.domain.reasons import Explanation
    from weft.domain.room import AcceleratorRoom

SMALL = 0.01
_MARKS = (
    ("other", "pods of others"),
    ("c0 promised", "promised to a replica, not yet running"),
    ("c0 leaves", "leaves"),
    ("free", "free"),
    ("spare", "kept as a spare"),
    ("lost", "not usable"),
    ("row", "node with a fault"),
)


def share(sitting: Sitting, paint: Callable[[str, Sitter | None], str]) -> str:
    """Show figures, and one bar with every GPU of the fabric; `paint` gives the CSS classes of a cell."""
    counts: Counter[tuple[int, str, str]] = Counter()
    for tray in _trays(sitting):
        for mark, sitter in cells(tray):
            counts[
                _place(mark, sitter), sitter.name if sitter and sitter.replica is not None else "", paint(mark, sitter)
            ] += 1
    total = sum(counts.values())
    if not total:
        told = nothing_offered(sitting).removesuffix(":")
        return f"<p class=bad>{told[0].upper()}{told[1:]}</p>"
    bar = "".join(
        f'<i class="{look}" style="flex:{gpus}" title="{escape(name or look)}: {gpus}"></i>'
        for (_, name, look), gpus in sorted(counts.items())
    )
    sums = Counter[int]()
    for (place, _, _), gpus in counts.items():
        sums[place] += gpus
    words = ("held by or promised to pools", "held by others", "free", "kept as spares", "not usable")
    figures = "".join(
        f"<div><b>{sums[place]}</b><span>GPUs {word}, {_percent(sums[place] / total)}</span></div>"
        for place, word in enumerate(words)
    )
    return f"<div class=figures>{figures}</div><div class=share>{bar}</div>"


def _percent(fraction: float) -> str:
    return f"{fraction:.1%}" if 0 < fraction < SMALL else f"{fraction:.0%}"


def _place(mark: str, sitter: Sitter | None) -> int:
    """Return a cell's position in the bar."""
    if mark in {USED, PROMISED}:
        return 0 if sitter is not None and sitter.replica is not None else 1
    return {FREE: 2, SPARE: 3, LOST: 4}[mark]


def legend(sitting: Sitting, pools: dict[str, str]) -> str:
    """Show every pool with its size, and the marks that are on the page."""
    gpus: Counter[str] = Counter()
    replicas: dict[str, set[int]] = defaultdict(set)
    for tray in _trays(sitting):
        for sitter in tray.sitters:
            gpus[sitter.name] += sitter.gpus
            replicas[sitter.name].add(sitter.replica or 0)
    sizes = {name: f"{counted(gpus[name], 'GPU')}, {counted(len(replicas[name]), 'replica')}" for name in pools}
    rows = [f'<li><i class="{look}"></i>{escape(name)}<span>{sizes[name]}</span></li>' for name, look in pools.items()]
    seen = set(_looks(sitting))
    marks = [f'<li><i class="{look}"></i>{word}</li>' for look, word in _MARKS if look.split()[-1] in seen]
    if pools:
        marks.append("<li class=wordy><b>0</b>number of a replica, in its cells</li>")
    marks.append("<li class=brief>above a rack: its free GPUs, and the GPUs of the largest replica that fits</li>")
    return f"<ul class=legend>{''.join(rows)}</ul><ul class='legend marks'>{''.join(marks)}</ul>"


def _looks(sitting: Sitting) -> Iterator[str]:
    states = {FREE: "free", SPARE: "spare", LOST: "lost", PROMISED: "promised"}
    for tray in _trays(sitting):
        for mark, sitter in cells(tray):
            yield states.get(mark, "other" if sitter is None or sitter.replica is None else "")
            yield "leaves" if sitter is not None and sitter.leaves else ""
        yield "row" if is_outlined(tray) else ""


def is_outlined(tray: Tray) -> bool:
    """Whether something is wrong with a node that its cells alone do not show."""
    return tray.why is not None and (tray.node.used > 0 or not tray.faulty)


def holes(sitting: Sitting) -> str:
    """Show how many more replicas of each size fit, and the share of the free GPUs that they can use."""
    if not sitting.kinds:
        return ""
    sizes = sorted({size for kind in sitting.kinds for size, _ in kind.slots})
    head = "".join(f"<th>{counted(size, 'GPU')}</th>" for size in sizes)
    rows = "".join(
        f"<tr><td>{escape(kind.accelerator)}</td><td>{kind.free}</td><td>{kind.largest}</td>"
        f"{''.join(_hole(kind, size) for size in sizes)}</tr>"
        for kind in sitting.kinds
    )
    told = "replicas of each size, and the share of the free GPUs that they can use"
    title = f"<h2>What still fits <small>{told}</small></h2>"
    heads = f"<tr><th>accelerator</th><th>free GPUs</th><th>largest replica, GPUs</th>{head}</tr>"
    return f"{title}<div class='card holes'><table>{heads}{rows}</table></div>"


def _hole(kind: AcceleratorRoom, size: int) -> str:
    count = dict(kind.slots).get(size)
    if count is None:
        return "<td></td>"
    usable = f"<small>{1 - kind.unusable_share(size):.0%}</small>" if kind.free else ""
    return f"<td>{count}{usable}</td>"


def troubles(sitting: Sitting) -> str:
    """Show every unusable or impaired node, and what labels contradict each other."""
    rows = [
        _row(tray.node.name, tray.why, ", ".join(map(str, tray.sitters)), leaving=tray.node.leaving is not None)
        for tray in _trays(sitting)
        if tray.why is not None
    ]
    notes = [_row("", note, "") for note in told_once(sitting.notes)]
    if not rows and not notes:
        return ""
    head = "<tr><th>node</th><th>reason</th><th>what it means</th><th>held by</th></tr>"
    return f"<h2>Problems</h2><div class='card holes words'><table>{head}{''.join(rows + notes)}</table></div>"


def _row(node: str, why: Explanation, who: str, *, leaving: bool = False) -> str:
    told = f"{why.message}{'; its replicas are moved away' if leaving else ''}"
    return (
        f"<tr><td>{escape(node)}</td><td class=bad>{escape(why.reason.value)}</td>"
        f"<td>{escape(told)}</td><td>{escape(who)}</td></tr>"
    )


def _trays(sitting: Sitting) -> Iterator[Tray]:
    return (tray for rack in sitting.racks for tray in rack.trays)
