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
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SOURCES = re.compile(r"^sglang/srt/(server_args|arg_groups/fields/\w+)\.py$")
_VERSION = re.compile(r"sglang-(?P<version>[^-]+)-")
_HEADER = (
    "# Long options of SGLang's server, by the releases that have them, of those that were looked at.\n"
    "# Source: the wheels of these releases on PyPI, `sglang/srt/server_args.py` and `sglang/srt/arg_groups/fields`,\n"
    "# read by bench/sglang_options.py.\n"
)


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


def main(wheels: list[str]) -> None:
    """Print the table of some wheels."""
    found = {match["version"]: options_of(wheel) for wheel in wheels if (match := _VERSION.search(wheel))}
    releases = sorted(found, key=_order)
    groups: dict[str, list[str]] = {}
    for option in sorted(set().union(*found.values())):
        having = [release for release in releases if option in found[release]]
        groups.setdefault(" ".join(having), []).append(option)
    in_order = dict(sorted(groups.items(), key=lambda group: (-len(group[0].split()), group[0])))
    sys.stdout.write(_HEADER + yaml.safe_dump({"releases": releases, "options": in_order}, sort_keys=False, width=120))


if __name__ == "__main__":
    main(sys.argv[1:])
