"""Where each question is answered: the maps at the heads of large packages are whole."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest


@pytest.mark.parametrize("package", ["decide", "observe", "scaling"])
def test_every_module_of_a_package_stands_in_its_map_once(package: str) -> None:
    """A new one says what it answers, and beside whom; one that is gone is named no more."""
    found = importlib.import_module(f"weft.{package}")
    modules = [path.stem for path in Path(str(found.__file__)).parent.glob("[a-z]*.py")]
    named = re.findall(r"`([a-z_]+)`", found.__doc__ or "")
    assert sorted(modules) == sorted(named)
