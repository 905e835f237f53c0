"""Completion in shells: the script that `weft completion` prints, and the answers that it asks `weft` for.

Typer has both, but only with options that write to a user's files.
"""

from __future__ import annotations

import os
from enum import StrEnum

from weft.cli.telling.terminal import write

ASKS = "_WEFT_COMPLETE"  # the environment variable in which the script says what it wants to know


class Shell(StrEnum):
    """A shell that can complete."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def write_script(shell: Shell) -> None:
    """Write the script that makes a shell complete what follows `weft`."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # its public module re-exports it

    write(f"{get_completion_script(prog_name='weft', complete_var=ASKS, shell=shell.value)}\n")


def be_ready_to_complete() -> None:
    """Let typer answer the shell if that is what asks: it reads the environment by itself."""
    if ASKS in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]  # as above

        completion_init()
