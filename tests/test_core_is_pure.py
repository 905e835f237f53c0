"""Decide and converge are functions of their arguments: no clock, no randomness, no input or output of their own.

import-linter says which packages know each other; this says what the core may not take from the standard library.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import weft

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(weft.__file__).parent
CORE = (
    "api",
    "catalog",
    "converge",
    "decide",
    "domain",
    "engines",
    "fabric",
    "perf",
    "placement",
    "render",
    "scaling",
    "shaping",
)
TOUCHES_FILES = ("catalog/", "api/crd.py")  # reads its own tables; writes the definitions for `weft crds`

IMPURE_MODULES = frozenset(
    {"asyncio", "concurrent", "glob", "http", "io", "logging", "multiprocessing", "os", "random", "secrets", "select"}
    | {"shutil", "signal", "socket", "sqlite3", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid"}
    | {"warnings"}
)
FILE_MODULES = frozenset({"importlib", "pathlib"})
FILE_CALLS = frozenset({"open", "read_bytes", "read_text", "write_bytes", "write_text"})
WORLD_CALLS = frozenset({"breakpoint", "input", "print"})
CLOCK_CALLS = frozenset({"now", "today", "utcnow"})


def impurities(source: str, *, may_touch_files: bool = False) -> Iterator[str]:
    """Yield what a module takes from the world, each with its line."""
    for node in ast.walk(ast.parse(source)):
        for what in (*_imports(node, may_touch_files=may_touch_files), *_calls(node, may_touch_files=may_touch_files)):
            yield f"line {getattr(node, 'lineno', 0)}: {what}"


def _imports(node: ast.AST, *, may_touch_files: bool) -> Iterator[str]:
    forbidden = IMPURE_MODULES if may_touch_files else IMPURE_MODULES | FILE_MODULES
    for name in _imported(node):
        if name.split(".")[0] in forbidden or name.startswith("numpy.random"):
            yield f"imports {name}"


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _calls(node: ast.AST, *, may_touch_files: bool) -> Iterator[str]:
    forbidden = WORLD_CALLS if may_touch_files else WORLD_CALLS | FILE_CALLS
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in forbidden:
            yield f"calls {name}()"
        case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CLOCK_CALLS and _is_a_clock(value):
            yield f"reads the clock by {name}()"
        case ast.Call(func=ast.Attribute(attr=name)) if name in forbidden - WORLD_CALLS:
            yield f"calls .{name}()"
        case ast.Attribute(value=ast.Name(id="np" | "numpy"), attr="random"):
            yield "uses numpy's randomness"
        case ast.Global():
            yield "changes a global"
        case _:
            pass


def _is_a_clock(value: ast.expr) -> bool:
    return ast.unparse(value).split(".")[-1] in {"date", "datetime"}


def _core_modules() -> list[Path]:
    folders = [path for part in CORE for path in (PACKAGE / part).rglob("*.py")]
    files = [path for part in CORE if (path := PACKAGE / f"{part}.py").is_file()]
    return sorted((*folders, *files))


@pytest.mark.parametrize("part", CORE)
def test_every_part_of_the_core_is_looked_at(part: str) -> None:
    assert any(module.relative_to(PACKAGE).parts[0].removesuffix(".py") == part for module in _core_modules())


@pytest.mark.parametrize("module", _core_modules(), ids=lambda module: str(module.relative_to(PACKAGE)))
def test_the_core_takes_nothing_from_the_world(module: Path) -> None:
    may_touch_files = str(module.relative_to(PACKAGE)).startswith(TOUCHES_FILES)
    assert [] == list(impurities(module.read_text(), may_touch_files=may_touch_files))


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "import os.path",
        "from random import Random",
        "from urllib.request import urlopen",
        "def late():\n    import socket",
        "from pathlib import Path",
        "from numpy.random import default_rng",
        "import numpy as np\nnp.random.default_rng()",
        "open('state.json')",
        "path.read_text()",
        "print('deciding')",
        "from datetime import datetime\ndatetime.now(tz)",
        "import datetime\ndatetime.datetime.now()",
        "from datetime import date\ndate.today()",
        "def count():\n    global seen",
    ],
)
def test_impurity_is_noticed(source: str) -> None:
    assert any(impurities(source))


@pytest.mark.parametrize(
    "source",
    [
        "import math",
        "from datetime import datetime, timedelta\nlater = now + timedelta(seconds=1)",
        "from weft.domain import time",
        "from .time import window",
        "snapshot.now",
        "np.maximum(a, b)",
        "table.reads()",
    ],
)
def test_purity_is_not_doubted(source: str) -> None:
    assert [] == list(impurities(source))


def test_only_the_catalog_reads_files() -> None:
    source = "from importlib import resources\nresources.files('weft.catalog').joinpath('engines.yaml').read_text()"
    assert [] == list(impurities(source, may_touch_files=True))
    assert any(impurities(source))
