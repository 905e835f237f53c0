"""Nodes by count and kind, such as `4xH100,18xGB200`: a cluster that exists on paper, or whose dump is not at hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.ends.failure import CommandFailure
from weft.domain.errors import Invalid

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.hardware import Accelerator

MOST_NODES = 5000
_EACH = r"([0-9]{1,9})x([A-Za-z][\w-]*)"
_COUNTED = re.compile(rf"{_EACH}(,{_EACH})*", re.ASCII)


def is_counted(text: str) -> bool:
    """Whether the text counts nodes, and is the name of no file that is there."""
    return _COUNTED.fullmatch(text) is not None and not Path(text).exists()


def counted_nodes(text: str, catalog: Catalog) -> list[tuple[Accelerator, int]]:
    """Return each kind with its number of nodes; raises `CommandFailure` for an unknown kind and for a wrong count."""
    try:
        found = [(catalog.accelerator(kind), int(count)) for count, kind in re.findall(_EACH, text)]
    except Invalid as error:
        raise CommandFailure(f"--fabric {text}: {error.message}") from error
    if len({kind.name for kind, _ in found}) < len(found):
        raise CommandFailure(f"--fabric {text}: an accelerator is named twice: add its nodes up")
    if min(count for _, count in found) < 1 or sum(count for _, count in found) > MOST_NODES:
        raise CommandFailure(f"--fabric {text}: give 1 to {MOST_NODES} nodes in all, and at least one of each kind")
    return found
