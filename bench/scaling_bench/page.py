"""docs/scaling.md from the results of runs. The prose has no measured figure of its own: each stands in a table."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING, Any

from bench.scaling_bench.frontiers import LEVELS, Cell, cells, hours_at
from bench.scaling_bench.scenarios import FIXED_RATIO, OWN_RULE, settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = dict[str, Any]
_NEARLY_ALL = 0.9995

_TEXT = """\
# Autoscaling beside other rules

Written by `python -m bench.scaling` ({machine}) from {count} runs. The same traffic goes to the same simulated engines
under every rule; Weft plans shapes and places for all of them, and only the count is the rule's. `bench/scenarios.yaml`
fixes everything that could flatter: replicas are pinned, traffic is multiplied until the mean fleet has {fleet:.0f}
replicas or more, engines are off the performance model by up to {off:.0%} in a way that no rule knows, the first
{warm:.0f} minutes do not count, and replicas are paid for from the moment that they hold GPUs until they let them go,
or the last request comes.
{parts}
A rule is no point but a frontier: its one knob of risk goes from cheap to safe. Weft's are what a user says of it: of
how many requests the targets are (`slo`: p50, p90 or p95 of the same seconds, p99 for TTFT of a split),
`headroomPercent`, and `riskPercent` where it is cheapest. Below are the GPU-hours for so many requests within both
targets, straight between two settings; a dash: none got there. *Best* is the most that any setting reached.
The oracle knows the future: its counts are chosen in hindsight by what true engines need, with replicas that start as
slowly, and with as little slack on top as reaches 95, 98 or 99 % in the same simulation.
Dynamo's planner is `dynamo` where its forecast is the last value. Where it has been run with another of its predictors
it has a row of its own: `dynamo-arima` has its default one. A predictor moves its floor, and not its steps by load.
A setting that is called *tuned* is one more on the frontier of its rule: of a grid of what its users set, the one with
the fewest GPU-hours for 99 % of requests, or else with the most requests, on made-up bursts with lengths as on the
trace that it is judged on, which it never saw (`--tune`).

![Requests within the SLO against GPU-hours, by rule]({picture})
{tables}
## Every run

{runs}
"""


def as_page(told: dict[str, Any], picture: str) -> str:
    """The page of everything that was run."""
    known, rows = settings(), told["rows"]
    return _TEXT.format(
        machine=told["machine"]["words"],
        count=len(rows),
        fleet=known.least_mean_replicas,
        off=known.truth_off,
        warm=known.warm_up_seconds / 60.0,
        parts=_parts(rows),
        picture=picture,
        tables="".join(map(_section, cells(rows))),
        runs="\n".join(_runs(rows)),
    )


def _parts(rows: Sequence[Row]) -> str:
    parts = sorted({row["minutes"] for row in rows if row["minutes"]})
    told = ", ".join(f"{part:g}" for part in parts)
    return f"Of some traces only the first {told} minutes were played, where a table says so.\n" if parts else ""


def _section(cell: Cell) -> str:
    slo = f"TTFT {cell.ttft_target:.2f} s and TPOT {1000 * cell.tpot_target:.0f} ms"
    part = f", its first {cell.minutes:g} minutes" if cell.minutes else ""
    title = f"\n## {cell.scenario}, start-up {cell.startup:g} s{part}\n"
    heads = "".join(f" {level:.1%} |" for level in LEVELS)
    lines = [
        title,
        f"{slo} for each of {cell.requests:,.0f} requests. {_of_seeds(cell.seeds)}{_alone(cell)}\n",
        f"| rule |{heads} best | at GPU-hours |",
        f"|---|{'---|' * (len(LEVELS) + 2)}",
        *map(_line, cell.by_policy),
        *_saved(cell),
    ]
    return "\n".join(lines) + "\n"


def _of_seeds(seeds: tuple[int, ...]) -> str:
    told = ", ".join(map(str, seeds))
    return f"Means of seeds {told}." if len(seeds) > 1 else f"Of seed {told} alone: single runs are noisy."


def _alone(cell: Cell) -> str:
    """What no count of replicas reaches, as a prompt alone takes longer than its target."""
    found = [row["in_time_alone"] for row in cell.rows if "in_time_alone" in row]
    if not found or min(found) >= _NEARLY_ALL:
        return ""
    return f" With a replica for each {min(found):.2%} would be in time, with all that one cache could know."


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
        f"\nAs a fluid, a fleet that follows the ratio of prompts to answers needs {ceiling:.1%} fewer GPU-hours than"
        f" one at the best fixed ratio, {fixed[0]['ratio']:.3f} prefill replicas for one that decodes: the ceiling of"
        f" what following it can save. Weft's rule saves, against itself at the best of {len(fixed)} fixed settings:"
        f" {'; '.join(saved) or 'nothing, as no attainment is reached by both'}."
    )


def _line(entry: tuple[str, list[Row]]) -> str:
    policy, rows = entry
    if not rows:
        return f"| {policy} |{' - |' * (len(LEVELS) + 2)}"
    name = f"**{policy}**" if policy == OWN_RULE else policy
    top = max(rows, key=lambda row: (row["attainment"], -row["gpu_hours"]))
    reached = "".join(f" {_told(hours_at(rows, level))} |" for level in LEVELS)
    return f"| {name} |{reached} {_attained(top['attainment'])} | {top['gpu_hours']:.0f} |"


def _told(hours: float | None) -> str:
    return "-" if hours is None else f"{hours:.0f}"


def _runs(rows: Sequence[Row]) -> Iterator[str]:
    yield "| scenario | rule | setting | start-up | seed | in SLO | GPU-hours | changes | TTFT p99 | TPOT p99 | took |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|"
    for row in sorted(rows, key=lambda row: (row["scenario"], row["startup_seconds"], row["policy"], row["point"])):
        times = "".join(f" {_seconds(row[name].get('p99'))} |" for name in ("ttft_seconds", "tpot_seconds"))
        setting = f"{'tuned' if row['of_grid'] else row['point'] + 1}"
        start = f"{row['startup_seconds']:g} s | {row['seed']}"
        figures = f"{_attained(row['attainment'])} | {row['gpu_hours']:.0f} | {row['changes']}"
        took = f"{row['wall_seconds']:.0f} s"
        yield f"| {row['scenario']} | {row['policy']} | {setting} | {start} | {figures} |{times} {took} |"
    yield f"\nOne run took {fmean(row['wall_seconds'] for row in rows):.0f} s on average." if rows else ""


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s" if value < 1 else f"{value:.1f} s"


def _attained(part: float) -> str:
    """Cut off and not rounded: 98.997 % are not 99."""
    return f"{math.floor(part * 10_000.0 + 1e-6) / 10_000.0:.2%}"
