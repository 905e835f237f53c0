"""Output for people and programs: answers on stdout, and on stderr a note while something takes long."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from weft.cli.ends.failure import CommandFailure
from weft.cli.telling.plain_marks import PLAIN_MARKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import Console, RenderableType
    from rich.status import Status
    from rich.table import Column

WIDTH_OF_A_PIPE = 180  # columns, when the output is no terminal
WIDER_THAN_ANY = 10_000
A_FEW_WORDS = 30  # least width of a column of sentences
PATIENCE_SECONDS = 1.5


class Format(StrEnum):
    """How an answer is printed."""

    table = "table"
    json = "json"
    yaml = "yaml"


def console() -> Console:
    """Make a console on the current stdout; wide when it is no terminal, so that lines stay whole.

    Plain strings are printed as they are: messages of a cluster are not markup.
    """
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDTH_OF_A_PIPE
    return Console(highlight=False, markup=False, emoji=False, width=width)


def show(*parts: RenderableType) -> None:
    """Print for people, without the trailing spaces that pad tables."""
    shown = console()
    usual = shown.width
    with shown.capture() as captured:
        for part in _each(parts):
            shown.width = usual
            shown.width = max(usual, _whole_width(part, shown))
            shown.print(part)
    write("".join(f"{line.rstrip()}\n" for line in captured.get().lstrip("\n").splitlines()))


def _each(parts: Iterable[RenderableType]) -> Iterator[RenderableType]:
    from rich.console import Group

    for part in parts:
        if isinstance(part, Group):
            yield from _each(part.renderables)
        else:
            yield part


def _whole_width(part: RenderableType, shown: Console) -> int:
    """Return the width at which a table cuts nothing: a narrower terminal breaks the lines; 0 for anything else.

    Columns that wrap keep room for a few words, those of numbers for the longest one.
    """
    from rich.measure import Measurement
    from rich.padding import Padding
    from rich.table import Table

    table = part.renderable if isinstance(part, Padding) else part
    if not isinstance(table, Table):
        return 0
    for column in table.columns:
        column.min_width = _least_width(column, shown)
    whole = Measurement.get(shown, shown.options.update(width=WIDER_THAN_ANY), part).minimum
    if whole > shown.width:
        for column in table.columns:
            column.width = column.min_width
    return whole


def _least_width(column: Column, shown: Console) -> int:
    from rich.measure import Measurement

    wide = shown.options.update(width=WIDER_THAN_ANY)
    measured = [Measurement.get(shown, wide, each) for each in (column.header, *column.cells)]
    longest, word = max(each.maximum for each in measured), max(each.minimum for each in measured)
    if column.no_wrap:
        return longest
    return word if column.justify == "right" else max(word, min(longest, A_FEW_WORDS))


def print_data(data: Any, form: Format) -> None:  # noqa: ANN401 - whatever the answer is
    """Print data for programs, as JSON or YAML."""
    if form is Format.json:
        write(f"{json.dumps(data, indent=2, allow_nan=False)}\n")
    else:
        import yaml

        write(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=WIDTH_OF_A_PIPE))


def write(text: str) -> None:
    """Write to stdout; a reader that leaves early, as `head` does, is fine. Other errors raise `CommandFailure`."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors=PLAIN_MARKS)
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise CommandFailure(f"cannot write the answer: {error.strerror}") from None


def remark(sentence: str) -> None:
    """Write a note for people to stderr, which no program reads."""
    sys.stderr.write(f"weft: {sentence}\n")


@contextmanager
def working(doing: str) -> Iterator[None]:
    """Say on stderr what takes long, once it does: with a spinner on a terminal, else in one line."""
    spinning: list[Status] = []
    timer = threading.Timer(PATIENCE_SECONDS, _tell, (spinning, doing))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # it may be starting the spinner right now
        for status in spinning:
            status.stop()


def _tell(spinning: list[Status], doing: str) -> None:
    """Start a spinner and hand it over; it is only loaded here, so that quick commands do not wait for it."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        sys.stderr.write(f"weft: {doing} ...\n")
        return
    spinning.append(console.status(f"{doing} ..."))
    spinning[0].start()
