"""Where each question of deciding is answered: the map at the head of the package is whole."""

from __future__ import annotations

import re
from pathlib import Path

import weft.decide


def test_every_module_of_deciding_stands_in_its_map_once() -> None:
    """A new one says in which step of a pass it comes; one that is gone is named no more."""
    modules = [path.stem for path in Path(weft.decide.__file__).parent.glob("[a-z]*.py")]
    named = re.findall(r"`([a-z_]+)`", weft.decide.__doc__ or "")
    assert sorted(modules) == sorted(named)
