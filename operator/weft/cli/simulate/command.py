"""`weft simulate`: reads, simulates each policy on the same requests, and prints or draws the outcomes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from weft.catalog import load
from weft.cli.ends.failure import CommandFailure
from weft.cli.files.whole import refuse_to_replace_what_is_no_page, refuse_unwritable, write_whole
from weft.cli.simulate.fleet import FleetReport, as_fleet_data, as_fleet_page
from weft.cli.simulate.fleet_html import fleet_html
from weft.cli.simulate.html import simulation_html
from weft.cli.simulate.oracle import ORACLE, no_dearer, oracle_gpu_hours, oracle_outcome, refused
from weft.cli.simulate.page import as_data, as_page, left_out
from weft.cli.simulate.report import Report
from weft.cli.simulate.setting import cases_of
from weft.cli.simulate.simulated_clock import freeze_told
from weft.cli.telling.terminal import Format, print_data, remark, show, working
from weft.domain.texts.figures import agreeing, counted
from weft.twin.policies import NAMES, default, lacking
from weft.twin.policies.static import Static
from weft.twin.simulation import WEFT, simulate_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from weft.cli.cluster.world import World
    from weft.cli.simulate.setting import SimulationCase
    from weft.cli.simulate.wishes import SimulationWishes
    from weft.twin.outcome import SimulationOutcome

    Progress = Callable[[float], None]

POLICIES = (WEFT, *NAMES, ORACLE)
_ASSUMED = "no --fabric: simulated on an empty cluster with 64 nodes of the planned accelerator"


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """Policies by name, the output format, and the file for the HTML page."""

    policies: tuple[str, ...]
    form: Format
    html: Path | None


def run_simulate(
    options: SimulateOptions, wishes: SimulationWishes, documents: list[dict[str, Any]], world: World
) -> None:
    """Simulate and show the outcomes; raises `CommandFailure` for what cannot be simulated."""
    policies = _known(options.policies)
    refuse_unwritable(options.html)
    refuse_to_replace_what_is_no_page(options.html)
    with working("reading requests, and planning" if wishes.trace else "asking Prometheus, and planning"):
        cases = cases_of(wishes, documents, world, load())
    for case in cases:
        _remark_on(case)
    if len(cases) > 1 and ORACLE in policies:
        raise CommandFailure(f"--policy {ORACLE} knows the requests of one resource: say with --pool of which")
    report = _together(_reports(cases, tuple(_outcomes(cases, policies))), cases)
    if options.html is not None:
        write_whole(options.html, _html(report).encode())
    if options.form is not Format.table:
        print_data(_data(report), options.form)
    else:
        show(*([_ASSUMED] if world.imagined else []), *_page(report))


def _remark_on(case: SimulationCase) -> None:
    """Say on stderr how the trace was read, how it differs from its file, and what the clock makes of a freeze."""
    for sentence in case.trace.told:
        remark(f"{case.words}: {sentence}")
    if case.trace.left_out:
        remark(f"{case.words}: {left_out(case.trace.left_out)}")
    if case.trace.reordered:
        count = case.trace.reordered
        stood, were = counted(count, "request"), agreeing(count, "was", "were")
        remark(f"{case.words}: {stood} stood below later ones and {were} put in order of time")
    frozen = freeze_told(case)
    if frozen is not None:
        remark(frozen)


def _together(reports: tuple[Report, ...], cases: tuple[SimulationCase, ...]) -> Report | FleetReport:
    if len(reports) == 1:
        return reports[0]
    return FleetReport(reports, sum(count for node in cases[0].setting.nodes for _, count in node.allocatable))


def _data(report: Report | FleetReport) -> Any:  # noqa: ANN401 - JSON
    return as_data(report) if isinstance(report, Report) else as_fleet_data(report)


def _page(report: Report | FleetReport) -> list[RenderableType]:
    return as_page(report) if isinstance(report, Report) else as_fleet_page(report)


def _html(report: Report | FleetReport) -> str:
    return simulation_html(report) if isinstance(report, Report) else fleet_html(report)


def _reports(
    cases: tuple[SimulationCase, ...], outcomes: tuple[tuple[SimulationOutcome, ...], ...]
) -> tuple[Report, ...]:
    """Make a report of each resource, with its outcome under each policy."""
    return tuple(_report(case, tuple(each[case.place] for each in outcomes)) for case in cases)


def _report(case: SimulationCase, outcomes: tuple[SimulationOutcome, ...]) -> Report:
    too_long, most_tokens = refused(case)
    return Report(
        resource=case.resource,
        trace=case.words,
        seconds=case.trace.seconds,
        seed=case.setting.seed,
        outcomes=no_dearer(outcomes),
        start_up_seconds=round(max(_start_seconds(case)), 3),
        faults=tuple((fault.at, fault.node) for fault in case.setting.faults),
        oracle_gpu_hours=oracle_gpu_hours(case),
        too_long=too_long,
        most_tokens=most_tokens,
        left_out=case.trace.left_out,
    )


def _start_seconds(case: SimulationCase) -> list[float]:
    """Return the seconds of a start of each pool once the image is pulled."""
    return [case.setting.start_of(pool.key).engine_seconds for pool, _ in case.planned.pools]


def _known(typed: Sequence[str]) -> tuple[str, ...]:
    """Return each policy once, in the order in which they were typed: repeated, or parted by commas."""
    names = [name.strip().lower() for each in typed for name in each.split(",")]
    for name in names:
        if name not in POLICIES:
            near = get_close_matches(name, POLICIES, 1)
            perhaps = f", perhaps {near[0]}" if near else ""
            raise CommandFailure(f"there is no policy {name!r:.80}{perhaps}: there are {', '.join(POLICIES)}")
        missing = lacking(name) if name in NAMES else None
        if missing is not None:
            raise CommandFailure(f"--policy {missing}")
    return tuple(dict.fromkeys(names)) or (WEFT,)


def _outcomes(cases: tuple[SimulationCase, ...], policies: Sequence[str]) -> Iterator[tuple[SimulationOutcome, ...]]:
    """Yield the outcomes of each policy, one for each resource."""
    for name in policies:
        with _telling(name) as progress:
            if name == ORACLE:
                yield (oracle_outcome(cases[0], progress),)
            else:
                own = () if name == WEFT else tuple(default(name).policy() for _ in cases)
                setting = replace(cases[0].setting, begins_at_peak=name == Static.name)
                yield simulate_together(setting, own, progress)


@contextmanager
def _telling(policy: str) -> Iterator[Progress]:
    """Show a progress bar with the time left on a terminal; else one line, once it takes long."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        with working(f"simulating {policy}"):
            yield _nothing
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("simulating {task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(policy, total=1.0)
        yield lambda done: bars.update(task, completed=done)


def _nothing(_: float) -> None:
    """Ignore the progress."""
