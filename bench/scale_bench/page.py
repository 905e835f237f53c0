"""docs/scale.md from what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.result import in_words
from bench.scale_bench.days import DAY_PASSES

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]
_MEGA = 1e6
_KINDS = {
    "quiet": "none asked",
    "place": "100 more",
    "shrink": "100 fewer",
    "still": "100 more while all stands still",
}

_TEXT = """\
# Large clusters

Written by `python -m bench.scale` ({machine}). A whole pass of `decide`: the fabric is read, every pool is shaped,
counted and placed.

![Time and memory of a pass over the number of GPUs](scale.svg)

## Floors

At {gpus:,} GPUs on {nodes:,} nodes with {pools:,} pools and {pods:,} pods. Wall-clock time is what users wait for;
processor time, which neighbours on the machine change less, stands beside it under the same floor. When this
measurement began, {load_average_before:g} processes of others wanted to run on the cores (the load average): on a
machine with neighbours both are longer than on a quiet one. Neighbours that share its processors from outside are seen
by neither clock: a yardstick, the same small work before and after every pass, took {slowed:g} times its best (median).
With each pass divided by what the yardstick beside it took over its best, so as on this machine alone, p50 and p99 are
{alone}.

| figure | measured | floor | |
|---|---|---|---|
{floors}

## By size

Milliseconds of processor time, median and 99th percentile; in the passes that place, so many replicas get nodes.
*Still* is what the floor was written for: 100 more asked while traffic, specs and engines stand still, so that every
shape is known.

| GPUs | nodes | pools | pods | still, 100 more | none asked | 100 more asked | placed | 100 fewer asked | memory |
|---|---|---|---|---|---|---|---|---|---|
{sizes}

The first pass knows nothing: it plans every pool and places the whole fleet. The second plans with what runs.

| GPUs | first pass | second pass |
|---|---|---|
{firsts}

## What is measured

- **Nodes**: boards of 8 H200, and racks of 18 trays with 4 GB200 in the place of 9 boards each, with the labels of a
  managed cluster. One board in twenty runs a job of somebody else on 4 GPUs.
- **Pools**: one for five times 8 GPUs, four models and five mixes of lengths on boards, two models on racks; no two
  have the same rate. They run when the measurement begins.
- **Traffic**: rate and length of prompts of each pool rise and fall by a quarter over {day} passes, each at its own
  hour, under noise. So counts move and capacities are predicted anew in every pass. Every tenth pass one pool is edited
  and one engine ends.
- **Placing**: somebody else scales one pool in ten. In one pass of three these ask for 100 replicas more, two passes
  later for 100 fewer; what traffic asks for comes on top.
- **Not measured**: reading the caches before, and writing statuses after. Python's search for cyclic garbage waits
  until the pass is over, in the operator as here.
"""


def as_page(machine: str, rows: Sequence[Row], floors: Sequence[Row]) -> str:
    """The whole page."""
    largest = rows[-1]
    return _TEXT.format(
        machine=machine,
        floors="\n".join(_floor(each) for each in floors),
        sizes="\n".join(_size(row) for row in rows),
        firsts="\n".join(_first(row) for row in rows),
        day=DAY_PASSES,
        alone=", ".join(f"{_alone(largest[kind])} ms ({name})" for kind, name in _KINDS.items()),
        **{name: largest[name] for name in ("gpus", "nodes", "pools", "pods", "load_average_before", "slowed")},
    )


def _floor(each: Row) -> str:
    verdict = "held" if each["passed"] else "missed"
    value, limit = (in_words(each[name], each["unit"]).strip() for name in ("value", "limit"))
    if not each["unit"]:
        value = f"{each['value']:.2f}"
    return f"| `{each['name']}` | {value} | under {limit} | {verdict} |"


def _size(row: Row) -> str:
    still, quiet, place, shrink = (_times(row[kind]) for kind in ("still", "quiet", "place", "shrink"))
    cluster = f"{row['gpus']:,} | {row['nodes']:,} | {row['pools']:,} | {row['pods']:,}"
    memory = f"{row['peak_bytes'] / _MEGA:.0f} MB"
    return f"| {cluster} | {still} | {quiet} | {place} | {row['placed_in_a_pass']:.0f} | {shrink} | {memory} |"


def _first(row: Row) -> str:
    return f"| {row['gpus']:,} | {_seconds(row['first_ms'])} | {_seconds(row['second_ms'])} |"


def _times(spread: Row) -> str:
    return f"{spread['processor_p50']:.0f} / {spread['processor_p99']:.0f}"


def _alone(spread: Row) -> str:
    return f"{spread['alone_p50']:.0f} / {spread['alone_p99']:.0f}"


def _seconds(milliseconds: float) -> str:
    return f"{milliseconds / 1000.0:.1f} s"
