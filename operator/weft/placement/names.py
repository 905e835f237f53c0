"""The order of names in which `tray-2` comes before `tray-10`."""

from __future__ import annotations

import functools
import re

NAMES = 1 << 16  # nodes and domains of a large cluster; every pass asks for the same ones


@functools.lru_cache(maxsize=NAMES)
def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key in which numbers inside a name count as numbers."""
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part)
