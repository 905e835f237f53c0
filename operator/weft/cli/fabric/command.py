"""`weft fabric`: reads the fabric, finds who holds what, and prints or draws it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.cli.cluster.running import running
from weft.cli.cluster.sitting import seat
from weft.cli.fabric.data import fabric_data
from weft.cli.fabric.html import fabric_html
from weft.cli.fabric.page import fabric_page
from weft.cli.files.whole import refuse_to_replace_what_is_no_page, refuse_unwritable, write_whole
from weft.cli.telling.terminal import Format, print_data, show
from weft.fabric import build_fabric

if TYPE_CHECKING:
    from pathlib import Path

    from weft.cli.cluster.running import Running
    from weft.cli.cluster.sitting import Sitting
    from weft.cli.cluster.world import World


def run_fabric(world: World, form: Format, html: Path | None) -> None:
    """Print the fabric, and write the HTML page if one is asked for."""
    refuse_unwritable(html)
    refuse_to_replace_what_is_no_page(html)
    found = seated(world)
    sitting = found.sitting
    if found.running.unread:
        sys.stderr.write(f"weft: pools are named by their pods alone, as {found.running.unread}\n")
    if html is not None:
        write_whole(html, fabric_html(sitting, _told(world)).encode())
    if form is Format.table:
        show(fabric_page(sitting))
    else:
        print_data(fabric_data(sitting), form)


@dataclass(frozen=True, slots=True)
class Seated:
    """Who holds which GPUs, with the pools that are known."""

    sitting: Sitting
    running: Running


def seated(world: World) -> Seated:
    """Read the pools, and find what everybody holds."""
    found = running(world)
    fabric = build_fabric(world.nodes, world.pods, load(), world.reports)
    return Seated(seat(fabric, world.pods, found, world.pool_names), found)


def _told(world: World) -> str:
    where = world.cluster.server if world.cluster is not None else "a file"
    return f"Read from {where} on {datetime.now(UTC):%Y-%m-%d at %H:%M} UTC."
