"""Where a name is imported from: what a package offers has one address for all other packages."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import weft

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = Path(str(weft.__file__)).parent


def imported() -> Iterator[tuple[Path, str, list[str]]]:
    """Each file, and each module of ours that it imports names of, with these."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("weft."):
                yield path, node.module, [each.name for each in node.names]


def test_what_a_package_offers_is_imported_from_the_package() -> None:
    """Modules inside it may be moved then; what it does not offer is imported by the name of its module."""
    past_it = [
        f"{path.relative_to(SOURCES)}: from {module} import {name}"
        for path, module, names in imported()
        if path.relative_to(SOURCES).parts[0] != (package := module.split(".")[1]) and module.count(".") > 1
        for name in names
        if name in getattr(importlib.import_module(f"weft.{package}"), "__all__", ())
    ]
    assert past_it == []


def test_a_name_with_an_underscore_stays_in_its_module() -> None:
    private = [
        f"{path.relative_to(SOURCES)}: from {module} import {name}"
        for path, module, names in imported()
        for name in names
        if name.startswith("_") and name != "__version__"
    ]
    assert private == []
