"""The group of commands: whatever any of them raises ends in one sentence and its exit code.

An option that takes one value is refused when it is given twice, as either could be meant.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.core import TyperGroup

from weft.cli.ends.failure import CommandFailure, failures_become_one_sentence
from weft.cli.ends.usage import perhaps
from weft.cli.typed.completing import ASKS, be_ready_to_complete

if TYPE_CHECKING:
    from collections.abc import Iterator


class Commands(TyperGroup):
    """Typer's group with our own way to end, and a check for repeated options."""

    def main(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the signature is typer's
        """Run one command and exit the process with its code."""
        _open_what_is_closed()
        be_ready_to_complete()
        with failures_become_one_sentence(), _readers_may_leave():
            sys.exit(super().main(*args, **{**options, "standalone_mode": False, "complete_var": ASKS}) or 0)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer keeps the classes to itself
        """Read `weft help COMMAND` as `weft COMMAND --help`."""
        return super().parse_args(ctx, [*args[1:2], "--help"] if args[:1] == ["help"] else args)

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401 - typer keeps the classes to itself
        """Return the options of `weft` itself, as its help shows them."""
        return _without_types(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - typer keeps the classes to itself
        """Return a command, whose help flows to any width and names no type for flags; None for an unknown name."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            command.help = "\n\n".join(" ".join(each.split()) for each in (command.help or "").split("\n\n"))
            _without_types(command.get_params(ctx))
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - typer keeps the classes to itself
        """Return the command with its name and arguments; raises `CommandFailure` for a repeated option.

        The same is raised for an unknown command.
        """
        if args[0] not in self.commands and not args[0].startswith("-"):
            known = list(self.commands)
            raise CommandFailure(
                f"there is no command {args[0]!r:.40}{perhaps(args[0].lower(), known)}: there are {', '.join(known)}"
            )
        name, command, rest = super().resolve_command(ctx, args)
        if (twice := _given_twice(command, rest)) is not None:
            raise CommandFailure(f"{twice} is given twice: give it once")
        return name, command, rest


def _without_types(options: Any) -> Any:  # noqa: ANN401 - typer keeps the classes to itself
    """Leave away `<bool>` behind flags, which would read as a value that they take."""
    for each in options:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return options


@contextmanager
def _readers_may_leave() -> Iterator[None]:
    """Exit with 0 where a reader of the help leaves early, as `head` does: the libraries that print it exit with 1."""
    try:
        yield
    except SystemExit as ending:
        if isinstance(ending.__context__, BrokenPipeError):
            sys.exit(0)
        raise


def _open_what_is_closed() -> None:
    """Open /dev/null for output streams that a shell closed with `>&-`, where Python has None.

    The same is done for an input closed with `<&-`, which then is empty.
    """
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - until the process ends
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - until the process ends


def _given_twice(command: Any, arguments: list[str]) -> str | None:  # noqa: ANN401 - a command of typer
    given = [each.partition("=")[0] for each in arguments]
    for option in command.params if command is not None else ():
        names = [*option.opts] if option.param_type_name == "option" else []
        if not getattr(option, "multiple", False) and sum(map(given.count, names)) > 1:
            return next(name for name in given if name in names)
    return None
