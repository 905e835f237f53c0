"""Where each question is answered: the maps at the heads of packages are whole."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import weft

HOME = Path(str(weft.__file__)).parent
OF_PACKAGES = sorted(head.parent.name for head in HOME.glob("*/__init__.py"))
INSIDE = sorted(f"{outer}.{head.parent.name}" for outer in OF_PACKAGES for head in (HOME / outer).glob("*/__init__.py"))


@pytest.mark.parametrize("package", [*OF_PACKAGES, *INSIDE])
def test_every_module_of_a_package_stands_in_its_map_once(package: str) -> None:
    """A new one says what it answers, and beside whom; one that is gone is named no more. So do packages inside it."""
    found = importlib.import_module(f"weft.{package}")
    home = Path(str(found.__file__)).parent
    modules = [path.stem for path in home.glob("[a-z]*.py")] + [head.parent.name for head in home.glob("*/__init__.py")]
    named = re.findall(r"`([a-z_]+)`", found.__doc__ or "")
    assert sorted(modules) == sorted(named)
