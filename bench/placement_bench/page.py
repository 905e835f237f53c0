"""docs/placement.md from what was measured. The prose has no measured figure of its own: each stands in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.placement_bench.splits import ACCELERATOR, MODEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Row = dict[str, Any]

_TEXT = """\
# Placement beside other schedulers

Written by `python -m bench.placement --seeds {seeds}` ({machine}).
Shares of the GPUs that replicas ask for and do not get,
in simulated clusters of {racks} racks with {trays} trays of {per_tray} GPUs. Every placer gets the same events.
[What is simulated](#what-is-simulated) explains the placers and the mixes.

![Rejected share by placer, mix and load]({picture})

## Aims

| aim | mix, load | measured | |
|---|---|---|---|
{aims}

## What is lost where nothing waits

Replicas that fit nowhere at arrival are lost.

| column | meaning |
|---|---|
| rejected | share of the GPUs that were asked for, in replicas that were lost |
| difference | to Kueue's rule, seed by seed, with its 95 % interval, in percentage points |
| gap closed | part of the way from Kueue's rule to the pooled bound |
| wedged | gangs that held some of their GPUs for over a minute while the rest did not fit |
| a 64 fits | how often a replica of 64 GPUs would get a place, with moves if the placer makes any |
| moves | per run |
{loss}
Best fit alone, over {rule_runs} runs, because so small a difference to Kueue's rule needs more of them:

{rule}

With {down} of the trays down, drawn anew for each seed:

{trays_down}

## The same with a queue

A replica without a place waits up to {patience:.0f} minutes. The queue is tried in order every five minutes,
and a replica that does not fit holds up no other. *Rejected* ones waited in vain; waits are of those that got a place.

{queue}

## Long-lived pools that grow and shrink

Pools of {pool_replicas} replicas on average, each replica there for {pool_hours:.0f} hours on average. *Rejected* is
what pools lack of what they want, over time. When a pool shrinks, Weft removes the replica whose departure leaves the
largest hole (`choose_victims`); the others, and the bound, remove the newest.

{rescale}

## Room for a large replica under equal load

A placer that admits more has less room left, so this compares them under a load that all admit: replicas of up to
16 GPUs, without those that one of the placers rejected. The replica of 64 GPUs is only asked for, never placed.
*At once* is without moves. These are {equal_runs} runs,
and the intervals stay wide: a run has few holes of that size, and they last for hours.

{equal}

## Time of a decision

One `find_slot`, with `repack` where it is needed, on all racks. Of Weft alone: the others are rules re-implemented
for this simulation.

{times}

## What is simulated

- **Mixes** are synthetic (`bench/mixes.yaml`), because no public trace has racks or gangs with topology.
  Arrivals are Poisson, lifetimes exponential with a mean of {hours:.0f} h;
  {warm:g} lifetimes are not counted, {counted:g} are. Load is
  offered GPU-hours over the capacity of the trays that are up.
- **kube-default** is the stock scheduler as users of LeaderWorkerSets have it: LeastAllocated scores on GPUs, required
  pod affinity on the rack. The first pod lands where it fits, the others have to follow into its rack. A gang that is
  not whole keeps what it has and takes what becomes free in its rack; after ten minutes it is deleted, and counts as
  rejected. **most-allocated** is the same with MostAllocated scores.
- **kueue** is topology-aware scheduling with the profile BestFit and the rack required: the rack, then the node, where
  the fewest pods of the replica fit, then the first by name. **kai** takes the fewest free GPUs; its consolidation is
  left out. Neither is the real scheduler, only its rule.
- **weft** is the operator's own code. A move holds its source and its target for {move:.0f} s, and the replica that it
  makes room for waits as long; nobody moves while it starts or moves.
- **shapes**: what has no slot, with moves or without, is split where the parts keep at least four fifths of the
  capacity. The share is {model}'s on {accelerator} as Weft predicts it, with experts spread over the replica, at the
  tight target of [shapes.md](shapes.md), and the rest counts as rejected: {splits}.
- **pooled** is all trays in one rack: no placement rejects less at the same demand, but one that rejects other
  replicas may end up below it.

## What is known to be weak

- Sizes and lifetimes come from no trace. With lifetimes of days moves cost less, and the state mixes more slowly.
- Racks start empty and Weft alone fills them. Where others hold GPUs, less can be moved.
- Starting takes no time except after moves; nodes do not fail during a run.
- Where hardly anything is rejected the gap is small, and the part of it that is closed is uncertain.
"""
_WEFT_BEST, _WEFT_OFF = "shapes, 8 moves", "off"


def as_page(told: dict[str, Any], picture: str) -> str:
    """The whole page; `picture` is the plot's file beside it."""
    known, rows = told["settings"], told["rows"]
    loss = [row for row in rows if row["variant"] == "loss" and not row["trays_down"]]
    down = [row for row in rows if row["variant"] == "loss" and row["trays_down"]]
    return _TEXT.format(
        seeds=told["seeds"],
        machine=told["machine"]["words"],
        picture=picture,
        racks=known["racks"],
        trays=known["trays_per_rack"],
        per_tray=known["gpus_per_tray"],
        aims="\n".join(_line(aim) for aim in _aims(rows)),
        loss="".join(_section(loss, mix, load) for mix in known["mixes"] for load in known["loads"]),
        down=_percent(max(known["trays_down"]), 0),
        rule=_table(_of(rows, "rule"), _WHERE | _WHO | _DEMAND),
        rule_runs=_runs(rows, "rule"),
        equal_runs=_runs(rows, "equal"),
        trays_down=_table(down, _WHERE | _WHO | _DEMAND),
        patience=known["patience_seconds"] / 60.0,
        queue=_table(_of(rows, "queue"), _WHERE | _WHO | _DEMAND | _WAITS),
        pool_replicas=known["rescaling"]["replicas"],
        pool_hours=known["rescaling"]["lifetime_seconds"] / 3600.0,
        rescale=_table(_of(rows, "rescale"), _WHERE | _WHO | _DEMAND | _MOVES),
        equal=_table(_of(rows, "equal"), _WHERE | _WHO | _ROOM),
        times=_table([row for row in loss if row["placer"] == "weft"], _WHERE | _WHO | _TIMES),
        hours=known["lifetime_seconds"] / 3600.0,
        warm=known["warm_up_lifetimes"],
        counted=known["measured_lifetimes"],
        move=known["move_seconds"],
        model=MODEL.rpartition("/")[2],
        accelerator=ACCELERATOR,
        splits=_splits(told["splits"]),
    )


def _of(rows: Iterable[Row], variant: str) -> list[Row]:
    return [row for row in rows if row["variant"] == variant]


def _runs(rows: Iterable[Row], variant: str) -> int:
    return max((row["seeds"] for row in _of(rows, variant)), default=0)


def _percent(share: float, digits: int = 1) -> str:
    return f"{100.0 * share:.{digits}f} %"


def _difference(row: Row) -> str:
    if row["placer"] == "kueue":
        return "-"
    return f"{100.0 * row['difference_to_kueue']:+.1f} ± {100.0 * row['difference_interval']:.1f}"


def _fit_difference(row: Row) -> str:
    return f"{100.0 * row['ep64_fit_difference']:+.1f} ± {100.0 * row['ep64_fit_interval']:.1f}"


def _closed(row: Row) -> str:
    return "-" if row["gap_closed"] is None else _percent(row["gap_closed"], 0)


def _where(row: Row) -> str:
    return f"{row['mix']}, {_percent(row['load'], 0)}"


Columns = dict[str, "Callable[[Row], str]"]
_WHERE: Columns = {"mix, load": _where}
_WHO: Columns = {"placer": lambda row: row["placer"] + (f", {row['levers']}" if row["levers"] else "")}
_DEMAND: Columns = {
    "rejected": lambda row: f"{_percent(row['rejected_share'])} ± {100.0 * row['rejected_share_spread']:.1f}",
    "difference (points)": _difference,
    "gap closed": _closed,
    "used": lambda row: _percent(row["utilisation"]),
}
_MOVES: Columns = {
    "moves": lambda row: f"{row['moves']:.0f}" if row["moves"] else "-",
    "GPUs moved, of those asked for": lambda row: _percent(row["moved_gpu_share"]) if row["moves"] else "-",
}
_FITS: Columns = {"a 64 fits": lambda row: _percent(row["ep64_fit_share"])}
_ROOM: Columns = {
    **_FITS,
    "difference (points)": lambda row: "-" if row["placer"] == "kueue" else _fit_difference(row),
    "at once": lambda row: _percent(row["ep64_fits_at_once_share"]),
    "used": lambda row: _percent(row["utilisation"]),
}
_WAITS: Columns = {
    "mean wait": lambda row: f"{row['wait_seconds']['mean']:.0f} s",
    "p95": lambda row: f"{row['wait_seconds']['p95']:.0f} s",
}
_TIMES: Columns = {
    "p50": lambda row: f"{1000.0 * row['decide_seconds']['p50']:.2f} ms",
    "p99": lambda row: f"{1000.0 * row['decide_seconds']['p99']:.1f} ms",
}
_WEDGED: Columns = {"wedged": lambda row: _percent(row["wedged_share"])}


def _section(rows: Iterable[Row], mix: str, load: float) -> str:
    here = [row for row in rows if row["mix"] == mix and row["load"] == load]
    table = _table(here, _WHO | _DEMAND | _WEDGED | _FITS | _MOVES)
    return f"\n### {mix.capitalize()} at {_percent(load, 0)} load\n\n{table}\n"


def _table(rows: Iterable[Row], columns: Columns) -> str:
    lines = [[say(row) for say in columns.values()] for row in rows]
    if not lines:
        return "Not measured in this run."
    return "\n".join(_line(line) for line in ([*columns], ["---"] * len(columns), *lines))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _splits(known: dict[str, Any]) -> str:
    said = [
        f"{size} as {parts} x {int(size) // parts} counts {_percent(share, 0)}"
        for size, choices in known.items()
        for parts, share in choices
    ]
    return "; ".join(said) or "no size is worth it"


def _aims(rows: list[Row]) -> Iterable[tuple[str, str, str, str]]:
    """What this is held against, cell by cell."""
    for row in rows:
        if row["placer"] != "weft" or row["trays_down"]:
            continue
        if row["variant"] == "loss" and row["levers"] == _WEFT_BEST and row["gap_closed"] is not None:
            yield "all levers close at least 70 % of the gap", _where(row), _closed(row), _met(row["gap_closed"] >= 0.7)
        if row["variant"] == "rule":
            bound = row["difference_to_kueue"] + row["difference_interval"]
            said = f"{100.0 * bound:+.2f} points"
            yield "levers off reject at most 0.5 points more (upper bound)", _where(row), said, _met(bound <= 0.005)
        if row["variant"] == "equal":
            yield _room_aim(row)


def _room_aim(row: Row) -> tuple[str, str, str, str]:
    """Under equal load not less room than Kueue's rule leaves, and more with moves unless there was always room."""
    more, unsure = row["ep64_fit_difference"], row["ep64_fit_interval"]
    said = f"{_fit_difference(row)} points, {_percent(row['ep64_fit_share'])} in all"
    if row["levers"] == _WEFT_OFF:
        verdict = "within noise" if more < 0.0 and more + unsure >= 0.0 else _met(more >= 0.0)
        return "levers off leave as much room for a 64", _where(row), said, verdict
    return "8 moves make more room for a 64", _where(row), said, _met(more > 0.0 or row["ep64_fit_share"] == 1.0)


def _met(holds: bool) -> str:  # noqa: FBT001 - the answer is all that it takes
    return "met" if holds else "missed"
