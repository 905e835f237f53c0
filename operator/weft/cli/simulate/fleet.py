"""The report of several resources that were simulated together, as plain data or for people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from weft.cli.simulate.page import data_of, heading, without_nan
from weft.cli.simulate.report import USUAL, Figures, at_its_worst, of_least, percent, time, times_least
from weft.cli.simulate.series import clock
from weft.cli.telling.tables import headed_table
from weft.domain.texts.figures import counted, digits, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from weft.cli.simulate.report import Report
    from weft.twin.outcome import Shortage, SimulationOutcome

Json = dict[str, Any]
_MOST_TOLD = 12  # shortages on a terminal; the JSON has all


@dataclass(frozen=True, slots=True, eq=False)
class FleetReport:
    """A report of each resource, all with outcomes of the same policies; `gpus` is the size of the whole cluster."""

    reports: tuple[Report, ...]
    gpus: int

    @property
    def first(self) -> Report:
        return self.reports[0]

    @property
    def policies(self) -> list[str]:
        """Names of the policies, in the order in which they were given."""
        return [outcome.policy for outcome in self.first.outcomes]

    @property
    def alone(self) -> bool:
        """Whether there is only one policy, and so nothing to compare."""
        return self.first.alone

    def outcomes(self, place: int) -> tuple[SimulationOutcome, ...]:
        """Return the outcomes of one policy, one for each resource."""
        return tuple(report.outcomes[place] for report in self.reports)

    @property
    def oracle_gpu_hours(self) -> float | None:
        """The least GPU-hours for all resources together: the sum of those that are known; None without any."""
        known = [each.oracle_gpu_hours for each in self.reports if each.oracle_gpu_hours is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums of all resources under one policy; `attainment` is the fraction of all requests that met their SLO.

    `meets` is whether every SLO holds, None without requests. `most_held` is the most GPUs held at a moment of the
    timeline.
    """

    requests: int
    completed: int
    retried: int
    attainment: float
    meets: bool | None
    gpu_hours: float
    cost: float
    changes: int
    most_held: int

    @classmethod
    def of(cls, outcomes: Sequence[SimulationOutcome]) -> Totals:
        figures = [Figures.of(outcome) for outcome in outcomes]
        asked = [each for each in figures if each.requests]
        requests = sum(each.requests for each in asked)
        attained = sum(each.attainment * each.requests for each in asked)
        return cls(
            requests=requests,
            completed=sum(each.completed for each in asked),
            retried=sum(outcome.retried for outcome in outcomes),
            attainment=attained / requests if requests else math.nan,
            meets=all(each.meets for each in asked) if asked else None,
            gpu_hours=sum(outcome.gpu_hours for outcome in outcomes),
            cost=sum(outcome.cost for outcome in outcomes),
            changes=sum(each.changes for each in figures),
            most_held=max(map(sum, zip(*map(held, outcomes), strict=True)), default=0),
        )


def held(outcome: SimulationOutcome) -> list[int]:
    """Return the GPUs of a resource at each moment of the timeline, whatever shape it had then."""
    return [moment.gpus for moment in outcome.timeline]


def shortages(fleet: FleetReport, place: int) -> list[tuple[str, Shortage]]:
    """Return (resource, shortage) under one policy, by time."""
    found = [
        (report.resource, each)
        for report, outcome in zip(fleet.reports, fleet.outcomes(place), strict=True)
        for each in outcome.shortages
    ]
    return sorted(found, key=lambda each: each[1].at)


HEADS = (
    "within the SLO",
    f"TTFT p{USUAL}",
    f"TPOT p{USUAL}",
    "GPU-hours",
    "x least",
    "cost in H100-hours",
    "changes",
    "failed",
)


@dataclass(frozen=True, slots=True)
class Row:
    """One resource under one policy, as texts for `HEADS`; `title` is in a resource's first row only; `all` for sums.

    `meets` is whether the SLO holds, None without requests.
    """

    title: str
    policy: str
    cells: tuple[str, ...]
    meets: bool | None


def rows(fleet: FleetReport) -> Iterator[Row]:
    """Yield the rows of each resource, and of all together."""
    for report in fleet.reports:
        for place, outcome in enumerate(report.outcomes):
            yield _row("" if place else report.resource, report, outcome)
    for place in range(len(fleet.policies)):
        yield _total("" if place else "all", fleet, place)


def _row(title: str, report: Report, outcome: SimulationOutcome) -> Row:
    figures = Figures.of(outcome)
    cells = (
        percent(figures.attainment),
        time(figures.ttft_at(USUAL)),
        time(figures.tpot_at(USUAL)),
        digits(outcome.gpu_hours),
        times_least(report, outcome),
        digits(outcome.cost),
        f"{figures.changes:,}",
        f"{figures.failed:,}",
    )
    return Row(title, outcome.policy, cells, figures.meets if figures.requests else None)


def _total(title: str, fleet: FleetReport, place: int) -> Row:
    totals, least = Totals.of(fleet.outcomes(place)), fleet.oracle_gpu_hours
    cells = (
        percent(totals.attainment),
        "",
        "",
        digits(totals.gpu_hours),
        of_least(totals.gpu_hours, least, meets=totals.meets),
        digits(totals.cost),
        f"{totals.changes:,}",
        f"{totals.requests - totals.completed:,}",
    )
    return Row(title, fleet.policies[place], cells, totals.meets)


# ------------------------------------------------------------------------------------------------------------ as data


def as_fleet_data(fleet: FleetReport) -> Json | list[Json]:
    """Return JSON-like data: an object for one policy, a list for several; unknown values are null."""
    found = [without_nan(_data(fleet, place)) for place in range(len(fleet.policies))]
    return found[0] if fleet.alone else found


def _data(fleet: FleetReport, place: int) -> Json:
    outcomes = fleet.outcomes(place)
    totals, first = Totals.of(outcomes), outcomes[0]
    return {
        "policy": first.policy,
        "seed": fleet.first.seed,
        "seconds": first.seconds,
        "warm_up_seconds": first.warm_up,
        "requests": totals.requests,
        "completed": totals.completed,
        "failed": totals.requests - totals.completed,
        "retried": totals.retried,
        "slo_attainment": totals.attainment,
        "slo_met": totals.meets,
        "gpus": fleet.gpus,
        "most_gpus_held": totals.most_held,
        "gpu_hours": totals.gpu_hours,
        "oracle_gpu_hours": fleet.oracle_gpu_hours,
        "cost": totals.cost,
        "replica_changes": totals.changes,
        "wall_seconds": first.wall_seconds,
        "faults": [{"at_seconds": at, "node": node} for at, node in fleet.first.faults],
        "resources": [data_of(report, outcome) for report, outcome in zip(fleet.reports, outcomes, strict=True)],
    }


# --------------------------------------------------------------------------------------------------------- for people


def as_fleet_page(fleet: FleetReport) -> list[RenderableType]:
    """Show for a terminal what was asked, a row for each resource and one for all, and the shortages."""
    took = ", ".join(seconds(outcome.wall_seconds) for outcome in fleet.first.outcomes)
    return [
        Text(f"{len(fleet.reports)} resources on {fleet.gpus} GPUs", style="bold"),
        *_asked(fleet),
        *faults_line(fleet),
        "",
        _table(fleet),
        "",
        *_told(fleet),
        f"simulated in {took}",
    ]


def _asked(fleet: FleetReport) -> Iterator[str]:
    for report in fleet.reports:
        yield report.resource
        yield from (f"  {line}" for line in heading(report, faults=False))


def faults_line(fleet: FleetReport) -> list[str]:
    """Return a line with the nodes that fail, if any."""
    fails = ", ".join(f"{node} at {clock(at)}" for at, node in fleet.first.faults)
    return [f"fails: {fails}"] if fails else []


def _table(fleet: FleetReport) -> Table:
    found = headed_table("", *([] if fleet.alone else ["policy"]), *HEADS, right=HEADS, gap=3)
    for row in rows(fleet):
        part, *others, lost = row.cells
        colour = "" if row.meets is None else "bold green" if row.meets else "bold red"
        who = [] if fleet.alone else [row.policy]
        missed = Text(lost, style="" if lost in {"0", "-"} else "red")
        found.add_row(row.title, *who, Text(part, style=colour), *others, missed)
    return found


def _told(fleet: FleetReport) -> Iterator[RenderableType]:
    """Yield how full the cluster was, and when resources had fewer replicas than they wanted."""
    for place, policy in enumerate(fleet.policies):
        most = Totals.of(fleet.outcomes(place)).most_held
        yield f"{'' if fleet.alone else f'{policy}: '}at most {most} of {counted(fleet.gpus, 'GPU')} were held"
        found = shortages(fleet, place)
        if found:
            yield _lacking(found[:_MOST_TOLD])
        if len(found) > _MOST_TOLD:
            yield f"  {len(found) - _MOST_TOLD} more times somebody had less than it wanted: -o json has all"


def _lacking(found: Sequence[tuple[str, Shortage]]) -> Table:
    table = Table(box=None, padding=(0, 2), show_header=False)
    for column in range(3):
        table.add_column(no_wrap=column < 2)  # noqa: PLR2004 - only words are wrapped
    for resource, each in found:
        table.add_row(f"{clock(each.at)} to {clock(each.until)}", resource, words_of(resource, each))
    return table


def words_of(resource: str, shortage: Shortage) -> str:
    """Return the reason of a shortage, with the name of the half for a split."""
    half = "" if resource.endswith(f"/{shortage.pool}") else f"{shortage.pool} "
    return f"{half}{shortage.explanation.reason.value}, {at_its_worst(shortage)}"
