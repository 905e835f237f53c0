"""How the command line ends when it cannot do what was asked: one sentence on stderr, and an exit code.

| exit code | meaning |
|---|---|
| 0 | done, and the answer is yes |
| 1 | done, and the answer is no: no shape, none that meets the SLO, no slot, too small a budget, not ready |
| 2 | the input is wrong: a file, a field, a name, an option |
| 3 | the cluster cannot be reached, or refuses |
| 4 | a fault of Weft itself, with a traceback for the report |
| 130 | interrupted |
"""

from __future__ import annotations

import sys
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weft.cli import INTERRUPTED
from weft.cli.ends.usage import usage_sentence
from weft.domain.errors import Blocked, Bug, Retry, WeftError

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER_IS_NO = 1
INPUT_IS_WRONG = 2
CLUSTER_REFUSES = 3
FAULT_OF_OURS = 4


class CommandFailure(Exception):  # noqa: N818 - it is how a command ends, not a fault of ours
    """One sentence for the user that says what to do, with the exit code."""

    def __init__(self, message: str, exit_code: int = INPUT_IS_WRONG) -> None:
        """Store both; the command group prints the message and exits."""
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


@contextmanager
def failures_become_one_sentence() -> Iterator[None]:
    """Print any exception as one line on stderr, and exit with its code."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the last place where anything can be said about it
        sentence, exit_code = _ending(error)
        if exit_code == FAULT_OF_OURS:
            traceback.print_exception(error)
        _complain(sentence)
        sys.exit(exit_code)


def _ending(error: Exception) -> tuple[str, int]:
    if isinstance(error, CommandFailure):
        return error.message, error.exit_code
    if isinstance(error, WeftError) and not isinstance(error, Bug):
        refused = isinstance(error, Blocked | Retry)
        return f"{error.reason}: {error.message}", CLUSTER_REFUSES if refused else INPUT_IS_WRONG
    if hasattr(error, "format_message"):  # a wrong command line; typer keeps the classes to itself
        return usage_sentence(error), INPUT_IS_WRONG
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}", INPUT_IS_WRONG
    return "this is a fault of Weft: please report it with the lines above", FAULT_OF_OURS


def _complain(sentence: str) -> None:
    from rich.console import Console
    from rich.text import Text

    line = Text("weft: ", style="bold red").append(" ".join(sentence.split()), style="not bold default")
    Console(stderr=True, soft_wrap=True, highlight=False).print(line)
