"""How a drain is shown: the steps in order, what stays and why, and what is not touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from weft.domain.texts.figures import counted, some_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from weft.cli.drain.draining import Drain, Staying
    from weft.cli.drain.following import AssignmentChange
    from weft.domain.snapshot import ResourceKey
    from weft.domain.status import Assignment

Json = dict[str, Any]
NAMED = 8


def drain_page(drain: Drain) -> RenderableType:
    """Show a drain for people."""
    moving = len(drain.replicas) - len(drain.stays)
    stay = f", {len(drain.stays)} cannot" if drain.stays else ""
    head = Text(f"drain of {', '.join(drain.nodes)}: {counted(moving, 'replica')} can move{stay}", style="bold")
    if not drain.replicas:
        head = Text(f"drain of {', '.join(drain.nodes)}: no replica is there", style="bold")
    notes = (Text(line, style="yellow") for line in _notes(drain))
    stays = (Text(_stay(each), style="red") for each in drain.stays)
    rest = (Text(line) for line in _rest(drain))
    return Group(head, *notes, *([_steps(drain)] if drain.steps else []), *stays, *rest)


def _notes(drain: Drain) -> Iterator[str]:
    for why in drain.already:
        yield f"it is left already: {why.reason}: {why.message}"
    if drain.earlier:
        yield f"before it begins, {counted(drain.earlier, 'place')} of replicas change anyway; counted as done here"
    if not drain.rests:
        yield "it does not come to rest: what follows is only its beginning"


def _steps(drain: Drain) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    numbers = {turn: str(number) for number, turn in enumerate(sorted({each.turn for each in drain.steps}), start=1)}
    shown = set()
    for each in sorted(drain.steps, key=lambda each: (each.turn, each.pool.namespace, each.pool.name, not each.starts)):
        number = "" if each.turn in shown else numbers[each.turn]
        shown.add(each.turn)
        table.add_row(number, _replica(each.pool, each.assignment.replica), _what(each, drain))
    return table


def _what(change: AssignmentChange, drain: Drain) -> str:
    """Describe one change; a replica that waits names those that started in the turn before, which it waits for."""
    place = _place(change.assignment)
    if change.starts:
        return f"starts on {place}"
    before = [each for each in drain.steps if each.starts and each.pool == change.pool and each.turn == change.turn - 1]
    waited = ", ".join(str(each.assignment.replica) for each in before)
    return f"leaves {place} once {waited} serves" if waited else f"leaves {place}"


def _place(assignment: Assignment) -> str:
    asked = assignment.handover
    if asked is not None:
        return f"nodes that {asked.scheduler} picks (queue {asked.queue})"
    return ", ".join(assignment.nodes)


def _replica(pool: ResourceKey, replica: int) -> str:
    return f"{pool.namespace}/{pool.name}/{replica}"


def _stay(each: Staying) -> str:
    what = "leaves and is not replaced" if each.left else "stays"
    return f"{_replica(each.pool, each.replica)} {what}: {each.why.reason}: {each.why.message}"


def _rest(drain: Drain) -> Iterator[str]:
    if drain.others:
        held = [f"{name} ({counted(gpus, 'GPU')})" for name, gpus in drain.others]
        yield f"not Weft's to move: {some_of(held, NAMED)}"
    if drain.elsewhere:
        moved = dict.fromkeys(f"{each.pool.namespace}/{each.pool.name}" for each in drain.elsewhere)
        yield f"changes too, without a replica there: {some_of(list(moved), NAMED)}"
    names = [f"{key.namespace}/{key.name}" for key in drain.untouched]
    yield f"untouched: {some_of(names, NAMED) or 'no other pool is there'}"


def drain_data(drain: Drain) -> Json:
    """Return a drain as JSON-like data; changes at one time are one step."""
    numbers = {turn: number for number, turn in enumerate(sorted({each.turn for each in drain.steps}), start=1)}
    return {
        "nodes": list(drain.nodes),
        "succeeds": drain.succeeds,
        "replicas": [{**_key(key), "replica": each.replica, "nodes": list(each.nodes)} for key, each in drain.replicas],
        "steps": [{"step": numbers[each.turn], **_change(each)} for each in drain.steps],
        "stays": [
            {
                **_key(each.pool),
                "replica": each.replica,
                "nodes": list(each.nodes),
                "left": each.left,
                "reason": each.why.reason.value,
                "message": each.why.message,
            }
            for each in drain.stays
        ],
        "others": [{"pod": name, "gpus": gpus} for name, gpus in drain.others],
        "untouched": [_key(key) for key in drain.untouched],
        "elsewhere": [_change(each) for each in drain.elsewhere],
        "changesBefore": drain.earlier,
        "rests": drain.rests,
    }


def _key(key: ResourceKey) -> Json:
    return {"namespace": key.namespace, "pool": key.name}


def _change(change: AssignmentChange) -> Json:
    word = "starts" if change.starts else "leaves"
    return {
        **_key(change.pool),
        "replica": change.assignment.replica,
        "action": word,
        "nodes": list(change.assignment.nodes),
    }
