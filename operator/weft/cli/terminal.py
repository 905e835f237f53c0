"""What a person sees: answers on stdout, and on stderr a word while something takes long."""

from __future__ import annotations

import io
import json
import os
import sys
import threading
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from weft.cli.failure import CommandFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType
    from rich.status import Status

WIDTH_OF_A_PIPE = 180  # columns, when nobody watches a terminal
PATIENCE_SECONDS = 1.5


class Format(StrEnum):
    """How an answer is printed."""

    table = "table"
    json = "json"
    yaml = "yaml"


def console() -> Console:
    """A console on stdout as it is now; wide when it is no terminal, so that lines stay whole.

    Plain strings are printed as they are: the messages of a cluster are no markup.
    """
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDTH_OF_A_PIPE
    return Console(highlight=False, markup=False, emoji=False, width=width)


def show(*parts: RenderableType) -> None:
    """Print for people, without the spaces that pad tables."""
    shown = console()
    with shown.capture() as captured:
        for part in parts:
            shown.print(part)
    write("".join(f"{line.rstrip()}\n" for line in captured.get().lstrip("\n").splitlines()))


def print_data(data: Any, form: Format) -> None:  # noqa: ANN401 - whatever the answer is
    """Print for programs."""
    if form is Format.json:
        write(f"{json.dumps(data, indent=2, allow_nan=False)}\n")
    else:
        import yaml

        write(yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=WIDTH_OF_A_PIPE))


def write(text: str) -> None:
    """Write to stdout; a reader that leaves early, as `head` does, wants no more and no complaint."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without Unicode still shows the rest
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise CommandFailure(f"cannot write the answer: {error.strerror}") from None


def remark(sentence: str) -> None:
    """Say on stderr what a person should know and no program reads."""
    sys.stderr.write(f"weft: {sentence}\n")


@contextmanager
def working(doing: str) -> Iterator[None]:
    """Say on stderr what takes so long, once it does: a spinner on a terminal, else one line."""
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
    """Start a spinner and hand it over; what is quick does not wait for one to be loaded."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        sys.stderr.write(f"weft: {doing} ...\n")
        return
    spinning.append(console.status(f"{doing} ..."))
    spinning[0].start()
