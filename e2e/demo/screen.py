"""What a person sees while the demo runs: a live picture on a terminal, plain lines anywhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from rich.columns import Columns
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from weft.domain.texts.figures import seconds

if TYPE_CHECKING:
    from types import TracebackType

    from rich.console import RenderableType

    from e2e.demo.timeline import Timeline

COLORS = ("blue", "cyan", "magenta", "yellow", "green", "red")
PLAIN_EVERY_SECONDS = 5.0
REASONS_SHOWN = 8
WORDY_COLUMNS = 110  # of a terminal: in a narrower one the words for a pool would make a column of their letters
HEADINGS = ("pool", "kind · model · shape", "requests/s", "ready", "desired", "TTFT p95 / SLO", "TPOT p95 / SLO")
HELD, FREE, SILENT = "■", "□", "✗"
MARKS = f"{HELD} a GPU in the color of its pool  {FREE} free  {SILENT} node that does not answer"


def clock(moment: float) -> str:
    """`2:05`, of seconds."""
    return f"{int(moment) // 60}:{int(moment) % 60:02d}"


class Screen:
    """Shows the newest sample of a timeline."""

    def __init__(self, console: Console | None = None) -> None:
        """Decide by the console whether pictures or lines are shown."""
        self.console = console or Console(highlight=False)
        self._live: Live | None = None
        self._last_line = float("-inf")
        self._told = 0

    def __enter__(self) -> Self:
        """Take the terminal, if it is one."""
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=4, transient=True)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the terminal back."""
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
            self._live = None

    def say(self, text: str) -> None:
        """One line that stays."""
        self.console.print(text, soft_wrap=True, markup=False)

    def show(self, timeline: Timeline) -> None:
        """The newest sample."""
        if self._live is not None:
            self._live.update(picture(timeline, self.console.width))
        else:
            self._print_lines(timeline)

    def _print_lines(self, timeline: Timeline) -> None:
        for event in timeline.events[self._told :]:
            self.say(f"{clock(event['t'])} {event['what']} {event['reason']}: {event['message']}")
        self._told = len(timeline.events)
        sample = timeline.samples[-1]
        if sample["t"] - self._last_line < PLAIN_EVERY_SECONDS:
            return
        self._last_line = sample["t"]
        words = [_plain_words(pool.name, sample["pools"].get(pool.name, {})) for pool in timeline.pools]
        self.say(f"{clock(sample['t'])} GPUs {sample['gpus_used']}/{sample['gpus_total']}  {'  '.join(words)}")


def _plain_words(name: str, sample: dict[str, Any]) -> str:
    ttft = sample.get("ttft")
    felt = f" TTFT p95 {seconds(ttft)}" if ttft is not None else ""
    return f"{name} {sample.get('rate') or 0:.1f}/s ready {sample.get('ready', 0)}/{sample.get('desired', 0)}{felt}"


def picture(timeline: Timeline, columns: int) -> RenderableType:
    """Fabric, pools and the latest reasons; 24 lines of 80 columns hold all of it."""
    colors = {pool.name: COLORS[index % len(COLORS)] for index, pool in enumerate(timeline.pools)}
    sample = timeline.samples[-1]
    title = f"Weft demo {clock(sample['t'])}  GPUs {sample['gpus_used']} of {sample['gpus_total']}"
    domains = timeline.fabric[-1]["domains"] if timeline.fabric else []
    return Group(
        Panel(Columns([_domain(domain, colors) for domain in domains], padding=(0, 3)), title=title, subtitle=MARKS),
        _pools(timeline, sample, colors, wordy=columns >= WORDY_COLUMNS),
        Panel(_reasons(timeline, colors), title="reasons"),
    )


def _domain(domain: dict[str, Any], colors: dict[str, str]) -> Text:
    text = Text(f"{domain['name']} {domain['accelerator']}\n", style="dim")
    for index, node in enumerate(domain["nodes"]):
        held = [name for name, count in node["held"] for _ in range(count)]
        for gpu in range(node["total"]):
            text.append(
                HELD if gpu < len(held) else FREE, style=colors.get(held[gpu], "white") if gpu < len(held) else "dim"
            )
        if not node["ready"]:
            text.append(SILENT, style="bold red")
        text.append("\n" if index % 6 == 5 else " ")
    text.rstrip()
    return text


def _pools(timeline: Timeline, sample: dict[str, Any], colors: dict[str, str], *, wordy: bool) -> Table:
    table = Table(expand=True, header_style="bold", box=None)
    for heading in HEADINGS:
        if wordy or heading != HEADINGS[1]:
            table.add_column(
                heading, justify="left" if heading in HEADINGS[:2] else "right", no_wrap=heading != HEADINGS[1]
            )
    for pool in timeline.pools:
        now = sample["pools"].get(pool.name, {})
        table.add_row(
            Text(pool.name, style=f"bold {colors[pool.name]}"),
            *([pool.subtitle] if wordy else []),
            f"{now.get('rate') or 0:.1f}",
            str(now.get("ready", 0)),
            str(now.get("desired", 0)),
            _against(now.get("ttft"), pool.ttft),
            _against(now.get("tpot"), pool.tpot),
        )
    return table


def _against(value: float | None, target: tuple[int, float] | None) -> Text:
    if value is None:
        return Text("-", style="dim")
    if target is None:
        return Text(seconds(value))
    told = f"{seconds(value)} / {seconds(target[1])}"
    return Text(told, style="green" if value <= target[1] else "red")


def _reasons(timeline: Timeline, colors: dict[str, str]) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for event in timeline.events[-REASONS_SHOWN:]:
        text.append(f"{clock(event['t'])} ", style="dim")
        text.append(f"{event['what']} ", style=colors.get(event["what"], "white"))
        text.append(f"{event['reason']}: ", style="bold").append(f"{event['message']}\n")
    text.rstrip()
    return text
