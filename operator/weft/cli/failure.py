"""How the command line ends when it cannot do what was asked.

| exit code | meaning |
|---|---|
| 0 | done, and the answer is yes |
| 1 | done, and the answer is no: no shape, no slot, not ready |
| 2 | the input is wrong: a file, a field, an option |
| 3 | the cluster cannot be reached or refuses |
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from weft.domain.errors import WeftError

if TYPE_CHECKING:
    from collections.abc import Iterator

ANSWER_IS_NO = 1
INPUT_IS_WRONG = 2
CLUSTER_REFUSES = 3


class CommandFailure(Exception):  # noqa: N818 - it is how a command ends, not a fault of ours
    """One sentence for the person at the terminal, saying what to do, and the exit code."""

    def __init__(self, message: str, exit_code: int = INPUT_IS_WRONG) -> None:
        """Keep both; `main` prints and exits."""
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


@contextmanager
def failures_become_one_sentence() -> Iterator[None]:
    """Print a failure as one line on stderr and exit with its code; a broken pipe ends quietly."""
    try:
        yield
    except CommandFailure as failure:
        Console(stderr=True, soft_wrap=True, highlight=False).print(f"[bold red]weft:[/] {failure.message}")
        sys.exit(failure.exit_code)
    except WeftError as error:
        Console(stderr=True, soft_wrap=True, highlight=False).print(
            f"[bold red]weft:[/] {error.reason}: {error.message}"
        )
        sys.exit(INPUT_IS_WRONG)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
