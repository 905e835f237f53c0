"""The group of commands: whatever any of them raises ends in one sentence and its exit code."""

from __future__ import annotations

import sys
from typing import Any

from typer.core import TyperGroup

from weft.cli.failure import failures_become_one_sentence


class Commands(TyperGroup):
    """Typer's group, but for how it ends."""

    def main(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 - the signature is typer's
        """Run one command and exit the process with its code."""
        with failures_become_one_sentence():
            sys.exit(super().main(*args, **{**options, "standalone_mode": False}) or 0)
