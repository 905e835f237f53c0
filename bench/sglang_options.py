"""Write which long options the server of SGLang has in which release, read from its published wheels.

    pip download --no-deps --dest wheels sglang==0.5.23
    python bench/sglang_options.py wheels/sglang-*.whl > operator/weft/catalog/sglang_options.yaml

Nothing of a wheel is imported: options are the names given to `add_argument` and, from 0.5.12 on, the annotated fields
of the classes that hold them, whose names are the options unless their `Arg` says otherwise.
"""

from __future__ import annotations

import ast
import re
import sys
import zipfile
from itertools import chain
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SOURCES = re.compile(r"^sglang/srt/(server_args|arg_groups/fields/\w+)\.py$")
_VERSION = re.compile(r"sglang-(?P<version>[^-]+)-")
_HEADER = """\
# Options of `python3 -m sglang.launch_server` by release: written by bench/sglang_options.py, do not edit.
#
# Source: sglang/srt/server_args.py and arg_groups/fields in the wheels of these versions on PyPI:
# {versions}.
# Each group was there in every one of them from `since` on, until `until` where that is named, both included.
"""


def options_of(wheel: str) -> set[str]:
    """The long options that one wheel's server takes."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if _SOURCES.match(name)]
        trees = [ast.parse(archive.read(name)) for name in names]
    return {option for tree in trees for option in chain(_added(tree), _annotated(tree)) if option.startswith("--")}


def _added(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            yield from _texts(node.args)


def _annotated(tree: ast.AST) -> Iterator[str]:
    """Options of fields annotated as `A[type, "help"]` or `A[type, Arg(...)]`."""
    for node in ast.walk(tree):
        match node:
            case ast.AnnAssign(
                target=ast.Name(id=field),
                annotation=ast.Subscript(value=ast.Name(id="A"), slice=ast.Tuple(elts=[_, about, *_])),
            ):
                yield from _of_field(field, about)
            case _:
                pass


def _of_field(field: str, about: ast.expr) -> Iterator[str]:
    given = {each.arg: each.value for each in about.keywords} if isinstance(about, ast.Call) else {}
    if "no_cli" in given:
        return
    named = list(_texts([given["cli_name"]])) if "cli_name" in given else ["--" + field.replace("_", "-")]
    aliases = given.get("aliases")
    yield from (*named, *(_texts(aliases.elts) if isinstance(aliases, ast.List) else ()))
    if "BooleanOptionalAction" in ast.dump(about):
        yield from (name.replace("--", "--no-", 1) for name in named)


def _texts(nodes: Iterable[ast.expr]) -> Iterator[str]:
    return (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def groups(found: dict[tuple[int, ...], set[str]]) -> list[dict[str, Any]]:
    """Options by the releases that have them, each without a gap: `until` is left out where that is the last."""
    releases = sorted(found)
    spans: dict[tuple[int, int], list[str]] = {}
    for option in sorted(set().union(*found.values())):
        having = [option in found[release] for release in releases]
        begun = (at for at, has in enumerate(having) if has and not (at and having[at - 1]))
        for first in begun:
            ended = next((at for at in range(first, len(having)) if not having[at]), len(having))
            spans.setdefault((first, ended - 1), []).append(option)
    return [_group(releases, *span, options) for span, options in sorted(spans.items())]


def _group(releases: list[tuple[int, ...]], first: int, last: int, options: list[str]) -> dict[str, Any]:
    until = {} if last == len(releases) - 1 else {"until": _text(releases[last])}
    return {"since": _text(releases[first]), **until, "options": options}


def _text(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))


def main(wheels: list[str]) -> None:
    """Print the table of some wheels, of which none may be a later build of another's release."""
    named = {match["version"]: wheel for wheel in wheels if (match := _VERSION.search(wheel))}
    found = {_order(version.partition(".post")[0]): options_of(wheel) for version, wheel in named.items()}
    sys.stdout.write(_HEADER.format(versions=", ".join(sorted(named, key=_order))))
    table = {"releases": [_text(release) for release in sorted(found)], "groups": groups(found)}
    sys.stdout.write(yaml.safe_dump(table, sort_keys=False, width=110, default_flow_style=None))


if __name__ == "__main__":
    main(sys.argv[1:])
