"""How a simulation is shown: policies side by side for people, or plain data for programs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from weft.cli.simulate.oracle import ORACLE, does_as
from weft.cli.simulate.report import PERCENTS, Figures, at_its_worst, percent, slo_words, time, times_least
from weft.cli.simulate.series import clock
from weft.domain.texts.figures import agreeing, counted, digits, request_rate, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from weft.cli.simulate.report import Report
    from weft.domain.reasons import Explanation
    from weft.twin.outcome import DecisionEvent, Shortage, SimulationOutcome

Json = dict[str, Any]
_MOST_TOLD = 12  # shortages on a terminal; the JSON has all


def as_data(report: Report) -> Json | list[Json]:
    """Return JSON-like data: an object for one policy, a list for several; unknown values are null."""
    found = [without_nan(data_of(report, outcome)) for outcome in report.outcomes]
    return found[0] if report.alone else found


def data_of(report: Report, outcome: SimulationOutcome) -> Json:
    """Return the data of one policy, where unknown values are still NaN."""
    figures = Figures.of(outcome)
    return {
        "policy": outcome.policy,
        "resource": report.resource,
        "model": outcome.model,
        "trace": report.trace,
        "seed": report.seed,
        "seconds": outcome.seconds,
        "warm_up_seconds": outcome.warm_up,
        "start_up_seconds": report.start_up_seconds,
        "slo": {"ttft_seconds": _targets(outcome.slo.ttft), "tpot_seconds": _targets(outcome.slo.tpot)},
        "requests": figures.requests,
        "completed": figures.completed,
        "failed": figures.failed,
        "too_long": report.too_long,
        "left_out": report.left_out,
        "unfinished": figures.unfinished,
        "retried": outcome.retried,
        "slo_attainment": figures.attainment,
        "slo_met": figures.meets if figures.requests else None,
        "ttft_seconds": _percentiles(figures.ttft),
        "tpot_seconds": _percentiles(figures.tpot),
        "gpu_hours": outcome.gpu_hours,
        "oracle_gpu_hours": report.oracle_gpu_hours,
        "cost": outcome.cost,
        "replica_changes": figures.changes,
        "wall_seconds": outcome.wall_seconds,
        "faults": [{"at_seconds": at, "node": node} for at, node in report.faults],
        "pools": list(_pools(outcome)),
        "reasons": [_reason(each) for each in outcome.told],
        "shortages": [_shortage(each) for each in outcome.shortages],
    }


def _targets(targets: tuple[tuple[int, float], ...]) -> Json:
    return {f"p{percentile}": target for percentile, target in targets}


def _reason(told: DecisionEvent) -> Json:
    return {"at_seconds": told.at, "pool": told.pool, **_explained(told.explanation)}


def _shortage(shortage: Shortage) -> Json:
    return {
        "at_seconds": shortage.at,
        "until_seconds": shortage.until,
        "worst_at_seconds": shortage.worst_at,
        "pool": shortage.pool,
        **_explained(shortage.explanation),
    }


def _explained(explanation: Explanation) -> Json:
    return {"reason": explanation.reason.value, "message": explanation.message}


def _percentiles(values: tuple[float, ...]) -> Json:
    return {f"p{percentile}": value for percentile, value in zip(PERCENTS, values, strict=True)}


def _pools(outcome: SimulationOutcome) -> Iterator[Json]:
    for place, pool in enumerate(outcome.pools):
        samples = [moment.pools[place] for moment in outcome.timeline]
        yield {
            "name": pool.name,
            "role": pool.role.value,
            "shape": pool.shape,
            "accelerator": pool.accelerator,
            "gpus_per_replica": pool.gpus,
            "gpu_hours": pool.gpu_seconds / 3600.0,
            "cost": pool.cost,
            "replica_changes": pool.changes,
            "most_replicas_wanted": max((sample.desired for sample in samples), default=None),
            "most_replicas_ready": max((sample.ready for sample in samples), default=None),
        }


def without_nan(value: Any) -> Any:  # noqa: ANN401 - whatever JSON holds
    """Replace NaN and infinity, which JSON does not have, by None."""
    if isinstance(value, dict):
        return {name: without_nan(each) for name, each in value.items()}
    if isinstance(value, list):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_page(report: Report) -> list[RenderableType]:
    """Show for a terminal what was asked, a column for each policy, and how long the simulation took."""
    took = ", ".join(seconds(outcome.wall_seconds) for outcome in report.outcomes)
    table: list[RenderableType] = ["", _table(report), "", *_as_other(report), *_lacking(report)]
    return [Text(report.resource, style="bold"), *heading(report), *table, f"simulated in {took}"]


def _as_other(report: Report) -> list[str]:
    """Say which policy's run the oracle shares, where no counts that it tried meet the SLO for less."""
    other = does_as(report.outcomes)
    return [f"{ORACLE} does as {other}: of what it tried, nothing meets the SLO for less"] if other else []


def _lacking(report: Report) -> Iterator[str]:
    """Yield when a policy had fewer replicas than it wanted, and why."""
    found = [(outcome, each) for outcome in report.outcomes for each in outcome.shortages]
    for outcome, each in found[:_MOST_TOLD]:
        who = "" if report.alone else f"{outcome.policy}: "
        why = f"{each.explanation.reason.value}, {at_its_worst(each)}"
        yield f"{who}{clock(each.at)} to {clock(each.until)}  {each.pool}: {why}"
    if len(found) > _MOST_TOLD:
        yield f"{len(found) - _MOST_TOLD} more times a pool had less than it wanted: -o json has all"


def heading(report: Report, *, faults: bool = True) -> list[str]:
    """Return lines with what was asked and how long starts take, and with notes on rows, lengths and failing nodes."""
    outcome = report.first
    every = len(outcome.came)
    spread = f"in {seconds(report.seconds)}, {request_rate(every / report.seconds)}" if report.seconds else "at once"
    warm_up = f"; the first {seconds(outcome.warm_up)} do not count" if outcome.warm_up > 0 else ""
    came = f": {every:,} request{'s' if every != 1 else ''} {spread}" if every else ""
    shapes = dict.fromkeys(f"{pool.name} {pool.shape} of {counted(pool.gpus, 'GPU')}" for pool in outcome.pools)
    lines = [
        f"{outcome.model} as {', '.join(shapes)}",
        f"{report.trace}{came}{warm_up}",
        f"SLO: {slo_words(outcome.slo)}",
        f"a start takes {seconds(report.start_up_seconds)} on a node that has the image",
    ]
    if report.left_out:
        lines.append(left_out(report.left_out))
    if report.too_long:
        lines.append(_too_long(report))
    fails = ", ".join(f"{node} at {clock(at)}" for at, node in report.faults) if faults else ""
    return [*lines, f"fails: {fails}"] if fails else lines


def left_out(rows: int) -> str:
    """Say how many rows have no prompt or no answer, as those of failed requests in a log."""
    verb, that = agreeing(rows, "row is", "rows are"), "without tokens of a prompt or of an answer"
    return f"{rows:,} {verb} left out, {that}: such are failed requests in a log"


def _too_long(report: Report) -> str:
    many = report.too_long > 1
    who = f"{report.too_long:,} requests are longer" if many else "1 request is longer"
    return (
        f"{who} than the {report.most_tokens:,} tokens that a replica takes, and {'fail' if many else 'fails'} at once"
    )


def _table(report: Report) -> Table:
    figures = [Figures.of(outcome) for outcome in report.outcomes]
    table = Table(box=None, padding=(0, 3, 0, 0), show_header=True)
    table.add_column("", style="dim", no_wrap=True)
    for outcome in report.outcomes:
        table.add_column(outcome.policy, justify="right", no_wrap=True)
    table.add_row("within the SLO", *map(_within, figures))
    for name, kind in (("TTFT", "ttft"), ("TPOT", "tpot")):
        for place, percentile in enumerate(PERCENTS):
            table.add_row(f"{name} p{percentile}", *(time(getattr(each, kind)[place]) for each in figures))
    table.add_row("GPU-hours", *(digits(outcome.gpu_hours) for outcome in report.outcomes))
    if report.oracle_gpu_hours is not None:
        table.add_row("  times the least", *(times_least(report, outcome) for outcome in report.outcomes))
    table.add_row("  counted until", *(seconds(outcome.seconds) for outcome in report.outcomes))
    table.add_row("cost in H100-hours", *(digits(outcome.cost) for outcome in report.outcomes))
    table.add_row("changes of replicas", *(str(each.changes) for each in figures))
    table.add_row("failed requests", *(_failed(each) for each in figures))
    if any(each.unfinished for each in figures):
        table.add_row("unfinished at the end", *(str(each.unfinished) for each in figures))
    table.add_row("retried requests", *(str(outcome.retried) for outcome in report.outcomes))
    return table


def _within(figures: Figures) -> Text:
    return Text(percent(figures.attainment), style="bold green" if figures.meets else "bold red")


def _failed(figures: Figures) -> Text:
    return Text(str(figures.failed), style="red" if figures.failed else "")
