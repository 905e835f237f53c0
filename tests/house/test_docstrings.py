"""A text that stands alone is the docstring of what it belongs to: left behind elsewhere it tells nobody anything."""

from __future__ import annotations

import ast
from pathlib import Path

import weft

HAVE_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
PACKAGE = Path(str(weft.__file__)).parent


def texts_that_belong_to_nothing(source: str) -> list[int]:
    """Lines of texts that are no value, no docstring and not below an assignment that they describe."""
    found = []
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for before, each in zip([None, *body], body, strict=False) if isinstance(body, list) else ():
            value = each.value if isinstance(each, ast.Expr) else None
            alone = isinstance(value, ast.Constant) and isinstance(value.value, str)
            heads = before is None and isinstance(node, HAVE_DOCSTRINGS)
            if alone and not heads and not isinstance(before, ast.Assign | ast.AnnAssign):
                found.append(each.lineno)
    return found


def test_no_docstring_was_left_behind() -> None:
    modules = sorted(PACKAGE.rglob("*.py"))
    found = {
        path.relative_to(PACKAGE): texts_that_belong_to_nothing(path.read_text(encoding="utf-8")) for path in modules
    }
    assert {} == {name: lines for name, lines in found.items() if lines}


def test_one_that_was_is_found() -> None:
    source = '"""Of the module."""\nimport math\n\n"""Of what?"""\nPI = math.pi\n"""Of it."""\n'
    assert [4] == texts_that_belong_to_nothing(source)
