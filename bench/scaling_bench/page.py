"""docs/scaling.md from the results of runs. The prose has no measured figure of its own: each stands in a table."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from bench.scaling_bench.frontiers import LEVELS, Cell, cells, hours_at
from bench.scaling_bench.scenarios import FIXED_RATIO, OWN_RULE, settings
from bench.scaling_bench.summary import STARTUP_SECONDS, summary, told_hours, verdict
from weft.twin.policies import NAMES, grid, tuned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = dict[str, Any]
_NEARLY_ALL = 0.9995

_TEXT = """\
# Autoscaling beside other rules

How many GPU-hours does an autoscaler take to answer so many requests within the SLO? The same traffic goes to the same
simulated engines under every rule; Weft plans shapes and places for all of them, and only the count of replicas is the
rule's. Written by `python -m bench.scaling` ({machine}) from {count} runs.
{parts}
{note}## Summary: starts of {startup:.0f} s

GPU-hours for which so many requests are within TTFT and TPOT at once; a dash: no setting gets there. *Rules that react*
are the autoscalers of other projects, each at its best setting. A *fixed fleet* reacts to nothing: its best size is
known in hindsight alone. The *oracle* knows the future and is what could be reached at best; it was asked for 95, 98
and 99 %. A level that nobody reaches has no row.

{summary}
{verdict}

![Requests within the SLO against GPU-hours, by rule]({picture})

The picture has every trace with that start-up: the further up and to the left, the better. It shows the settings that
no cheaper setting of the same rule beats, from where half of the requests are in time, and of Dynamo's predictors the
last value alone.

## How it is measured

`bench/scenarios.yaml` fixes everything that could flatter a rule:

| what | value |
|---|---|
| replicas | one shape for all rules |
| front | by least load; pools are declared with a router of Weft's (`router.type: Managed`), which goes by that |
| traffic | multiplied until the mean fleet has {fleet:.0f} replicas or more |
| engines | off the performance model by up to {off:.0%}, in a way that no rule knows |
| warm-up | the first {warm:.0f} minutes do not count |
| cost | a replica is paid for from the moment that it holds GPUs until it lets them go, or the last request comes |
| SLO | TTFT and TPOT of each request, as each section says |

Every rule is run with several settings of one knob, from cheap to safe. Between two settings the GPU-hours are those of
a mix of both.

| rule | what it is | settings, from cheap to safe |
|---|---|---|
| `weft` | Weft's own | percentile of the targets, `headroomPercent`, and `riskPercent` where it is cheapest |
| `hpa`, `hpa-queue`, `hpa-kv` | Kubernetes' HPA on waiting requests and KV cache use, or on one of them | the targets |
| `aibrix` | AIBrix's own autoscaler (APA) on KV cache use | the target |
| `wva` | llm-d's workload variant autoscaler | parts of the capacity at which to grow and to shrink |
| `keda-slo` | llm-d's later rule: KEDA on predicted P90 latencies | parts of the SLO at which to grow and to shrink |
| `dynamo` | Dynamo's planner; its forecast is the last value | part of the SLO given as targets |
| `heteroscale` | HeteroScale's rule on decode tokens per second | part of a replica's capacity that is aimed at |
| `static` | a fixed fleet | times the fleet for the mean rate |
| `fixed-ratio` | Weft, with the halves of a split at a fixed ratio | ratio and risk |
| `oracle` | counts chosen in hindsight by what true engines need | slack that just reaches 95, 98 or 99 % |

Weft's targets are p50, p90 or p95 of the same seconds (`slo`), p99 for TTFT of a split. `dynamo-kalman`,
`dynamo-arima` (Dynamo's default) and `dynamo-prophet` are its other predictors: they move its floor, and not its steps
by load. Replicas of the oracle start as slowly as all others.

With `--tune` a rule has one setting more: of a grid of what its users set, the one with the fewest GPU-hours for 99 %
of requests, or else with the most requests, on made-up bursts with lengths as on the trace that it is judged on, which
it never saw. The grids (`operator/weft/twin/policies`):

| rule | what is tuned | settings | values |
|---|---|---|---|
{grids}

## By trace and start-up

GPU-hours for so many requests within the SLO. *Best* is the most that any setting reached, and what it took.
{tables}
## Every run

Single runs are not printed. `{rows}` has a line of JSON for each: its settings in words (`options`), seed,
requests within the SLO (`attainment`), GPU-hours, changes of the count, TTFT and TPOT at p50, p90 and p99 in seconds,
the fleet every five minutes, and how long the run took. For example, all runs of a rule on a trace:

```
jq -r 'select(.scenario == "code" and .policy == "weft" and .startup_seconds == 120 and (.tuning | not))
  | [.seed, .attainment, .gpu_hours, .changes, .options] | @tsv' {rows}
```
"""

# Of the rows that are committed; docs/roadmap.md says which are to be run again.
NOTE = """\
**How old these runs are.** `code`, `conversation` and `long-context` with starts of 120 s are of the rules as they are
now (29 and 30 November 2026); `keda-slo` was run nowhere else. All other runs are from before
[ADR 0082](adr/0082-prompts-of-experts-are-launched-layer-by-layer.md), which changed predicted first tokens, and with
them the simulated engines, for every rule alike; none of them has what Weft decides since by ADR 0084 and later, such
as cycles (ADR 0101), and their pools had no router, so that a random share of the requests was expected at each replica
([ADR 0118](adr/0118-time-per-token-knows-how-many-share-a-front.md)). Older still, of those:

| rows | from before |
|---|---|
| `reasoning-split` | [ADR 0051](adr/0051-a-guess-at-most-doubles-the-replicas.md) |
| oracle, except `code`, `conversation` and `long-context` at 120 s | its present search, which may find cheaper runs |
| `hpa`, `hpa-queue`, `hpa-kv`, `wva`; little is changed of `aibrix` and `keda-slo` | these rules as they are now |
| tuned `heteroscale` | its pauses, which are tuned since |

"""


def as_page(told: dict[str, Any], picture: str, kept: str, note: str = "") -> str:
    """The page of everything that was run; `kept` is the file of the rows, `note` what is to be known of them."""
    known, rows = settings(), told["rows"]
    found = cells(rows)
    return _TEXT.format(
        machine=told["machine"]["words"],
        count=len(rows),
        startup=STARTUP_SECONDS,
        fleet=known.least_mean_replicas,
        off=known.truth_off,
        warm=known.warm_up_seconds / 60.0,
        grids="\n".join(map(_grid, NAMES)),
        parts=_parts(rows),
        note=note,
        summary=summary(found),
        verdict=verdict(found),
        picture=picture,
        tables="".join(map(_section, found)),
        rows=kept,
    )


def _grid(rule: str) -> str:
    """What a rule was tuned over: its options that differ between settings, with the values of each."""
    options = grid(rule)
    columns = {each.name: [getattr(option, each.name) for option in options] for each in fields(options[0])}  # type: ignore[arg-type]
    varied = {name: sorted({value for value in column if isinstance(value, float)}) for name, column in columns.items()}
    told = [f"`{name}` {', '.join(f'{value:g}' for value in values)}" for name, values in varied.items() if values[1:]]
    return f"| `{rule}` | {tuned(rule)} | {len(options)} | {'; '.join(told)} |"


def _parts(rows: Sequence[Row]) -> str:
    parts = sorted({row["minutes"] for row in rows if row["minutes"]})
    told = ", ".join(f"{part:g}" for part in parts)
    return f"Of some traces only the first {told} minutes were played, where a table says so.\n" if parts else ""


def _section(cell: Cell) -> str:
    slo = f"TTFT {cell.ttft_target:.2f} s and TPOT {1000 * cell.tpot_target:.0f} ms"
    part = f", its first {cell.minutes:g} minutes" if cell.minutes else ""
    title = f"\n### {cell.scenario}, start-up {cell.startup:g} s{part}\n"
    heads = "".join(f" {level:.1%} |" for level in LEVELS)
    lines = [
        title,
        f"{slo} for each of {cell.requests:,.0f} requests. {_of_seeds(cell.seeds)}{_only(cell)}{_alone(cell)}\n",
        f"| rule |{heads} best | at GPU-hours |",
        f"|---|{'---|' * (len(LEVELS) + 2)}",
        *map(_line, cell.by_policy),
        *_saved(cell),
    ]
    return "\n".join(lines) + "\n"


def _of_seeds(seeds: tuple[int, ...]) -> str:
    told = ", ".join(map(str, seeds))
    return f"Means of seeds {told}." if len(seeds) > 1 else f"Of seed {told} alone: single runs are noisy."


def _only(cell: Cell) -> str:
    return " No other rule was run." if [name for name, _ in cell.by_policy] == [OWN_RULE] else ""


def _alone(cell: Cell) -> str:
    """What no count of replicas reaches, as a prompt alone takes longer than its target."""
    found = [row["in_time_alone"] for row in cell.rows if "in_time_alone" in row]
    if not found or min(found) >= _NEARLY_ALL:
        return ""
    return f" At most {min(found):.2%} can be in time: the other prompts take too long even alone on a replica."


def _saved(cell: Cell) -> Iterator[str]:
    """What following the ratio of prompts to answers saves, beside what it could at most."""
    by_policy = dict(cell.by_policy)
    own, fixed = by_policy.get(OWN_RULE, []), by_policy.get(FIXED_RATIO, [])
    if not (own and fixed):
        return
    ceiling = fixed[0]["ceiling"]
    saved = []
    for level in LEVELS:
        ours, theirs = hours_at(own, level), hours_at(fixed, level)
        if ours is not None and theirs is not None:
            part = 1.0 - ours / theirs
            saved.append(f"{part:.1%} at {level:.1%} ({part / ceiling:.0%} of the ceiling)")
    yield (
        f"\nIn a fluid model, a fleet whose ratio of prefill to decode replicas follows the traffic needs {ceiling:.1%}"
        f" fewer GPU-hours than one at the best fixed ratio, {fixed[0]['ratio']:.3f} prefill replicas for each that"
        f" decodes. That is the most that following it can save. Against itself at the best of {len(fixed)} fixed"
        f" settings, Weft saves {'; '.join(saved) or 'nothing, as no attainment is reached by both'}."
    )


def _line(entry: tuple[str, list[Row]]) -> str:
    policy, rows = entry
    if not rows:
        return f"| {policy} |{' - |' * (len(LEVELS) + 2)}"
    name = f"**{policy}**" if policy == OWN_RULE else policy
    top = max(rows, key=lambda row: (row["attainment"], -row["gpu_hours"]))
    reached = "".join(f" {told_hours(hours_at(rows, level))} |" for level in LEVELS)
    return f"| {name} |{reached} {_attained(top['attainment'])} | {top['gpu_hours']:.0f} |"


def _attained(part: float) -> str:
    """Cut off and not rounded: 98.997 % are not 99."""
    return f"{math.floor(part * 10_000.0 + 1e-6) / 10_000.0:.2%}"
