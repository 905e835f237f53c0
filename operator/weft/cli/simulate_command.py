"""`weft simulate`: read, simulate each policy on the same requests, and print or draw what came out."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from weft.catalog import load
from weft.cli.failure import CommandFailure
from weft.cli.simulate_html import simulation_html
from weft.cli.simulate_oracle import ORACLE, oracle_gpu_hours, oracle_outcome
from weft.cli.simulate_page import as_data, as_page
from weft.cli.simulate_report import Report
from weft.cli.simulating import case_of
from weft.cli.terminal import Format, print_data, show, working
from weft.cli.whole_files import write_whole
from weft.twin.policies import NAMES, default
from weft.twin.simulation import WEFT, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from weft.cli.simulating import Case, Wishes
    from weft.cli.world import World
    from weft.twin.outcome import Outcome

    Progress = Callable[[float], None]

POLICIES = (WEFT, *NAMES, ORACLE)
_ASSUMED = "no --fabric: simulated on an empty cluster with 64 nodes of the planned accelerator"


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """Policies by name, how to answer, and where the page goes."""

    policies: tuple[str, ...]
    form: Format
    html: Path | None


def run_simulate(options: SimulateOptions, wishes: Wishes, documents: list[dict[str, Any]], world: World) -> None:
    """Simulate and tell; raises `CommandFailure` for what cannot be simulated."""
    policies = _known(options.policies)
    if options.html is not None and not options.html.parent.is_dir():
        raise CommandFailure(f"cannot write {options.html}: there is no such folder")  # told before any work
    with working("planning" if wishes.trace is not None else "asking Prometheus, and planning"):
        case = case_of(wishes, documents, world, load())
    outcomes = tuple(_outcomes(case, policies))
    report = Report(
        resource=case.resource,
        trace=case.words,
        seconds=case.trace.seconds,
        seed=wishes.seed,
        outcomes=outcomes,
        faults=tuple((fault.at, fault.node) for fault in case.setting.faults),
        oracle_gpu_hours=oracle_gpu_hours(case),
    )
    if options.html is not None:
        write_whole(options.html, simulation_html(report).encode())
    if options.form is not Format.table:
        print_data(as_data(report), options.form)
    else:
        show(*([_ASSUMED] if world.imagined else []), *as_page(report))


def _known(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in POLICIES:
            near = get_close_matches(name, POLICIES, 1)
            perhaps = f", perhaps {near[0]}" if near else ""
            raise CommandFailure(f"there is no policy {name!r:.80}{perhaps}: there are {', '.join(POLICIES)}")
    return tuple(dict.fromkeys(names)) or (WEFT,)


def _outcomes(case: Case, policies: Sequence[str]) -> Iterator[Outcome]:
    for name in policies:
        with _telling(name) as progress:
            if name == ORACLE:
                yield oracle_outcome(case, progress)
            else:
                yield simulate(case.setting, None if name == WEFT else default(name).policy(), progress)


@contextmanager
def _telling(policy: str) -> Iterator[Progress]:
    """A bar with the time that is left on a terminal; else one line, once it takes long."""
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
    """Nobody watches."""
