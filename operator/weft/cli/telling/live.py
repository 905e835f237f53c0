"""A page that is refreshed until Ctrl-C."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.text import Text

from weft.cli.ends.failure import CommandFailure
from weft.cli.telling.terminal import console

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType


def keep_showing(first: RenderableType, look: Callable[[], RenderableType], seconds: float) -> None:
    """Show a page on the whole screen, refreshed every `seconds`; a failed refresh keeps it, with the reason below."""
    last = first
    with Live(last, console=console(), screen=True) as live:
        try:
            while True:
                time.sleep(seconds)
                try:
                    last = look()
                    live.update(last)
                except CommandFailure as failure:
                    live.update(Group(last, Text(f"\n{failure.message}", style="red")))
        except KeyboardInterrupt:
            return
