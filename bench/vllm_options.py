"""`python -m bench.vllm_options SDIST ...`: which options `vllm serve` takes in which release, from vLLM's own sources.

The source distributions of PyPI are read and not run. The same files give the same `catalog/vllm_options.yaml`.
"""

from __future__ import annotations

import argparse
import ast
import re
import tarfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from weft.catalog.limits import numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Release = tuple[int, ...]
Span = tuple[int, int]  # positions of the first and the last release of a run, among those that were read

TARGET = Path(__file__).parent.parent / "operator" / "weft" / "catalog" / "vllm_options.yaml"
HEADER = """\
# Options of `vllm serve` by release: written by `python -m bench.vllm_options`, do not edit.
#
# Source: vllm/engine/arg_utils.py and cli_args.py of the source distributions of `releases` on PyPI (0.15 has none).
# Each group was there in every one of them from `since` on, until `until` where that is named, both included.
"""
_PARSERS = re.compile(r"vllm-[^/]+/vllm/(engine/arg_utils|entrypoints/(\w+/)?cli_args)\.py")
_OPTION = re.compile(r"--?[A-Za-z][A-Za-z0-9-]*")
_NAME = re.compile(r"vllm-([0-9.]+)\.(?:tar\.gz|tgz)")


def main() -> None:
    """Read the files and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sdists", type=Path, nargs="+", help="vllm-0.32.0.tar.gz and so on, one of each release")
    parser.add_argument("--output", type=Path, default=TARGET)
    arguments = parser.parse_args()
    found = {release_of(path): frozenset(options_of(path)) for path in arguments.sdists}
    arguments.output.write_text(HEADER + written(found), encoding="utf-8")
    last = max(found)
    print(f"{len(found)} releases; {len(found[last])} options in {_text(last)}: {arguments.output}")


def release_of(path: Path) -> Release:
    """The release of a source distribution; raises ValueError for a file of another name."""
    match = _NAME.fullmatch(path.name)
    release = numbers(match[1]) if match else None
    if release is None:
        message = f"{path} is not named like vllm-0.32.0.tar.gz"
        raise ValueError(message)
    return release


def options_of(path: Path) -> Iterator[str]:
    """Options that the parsers of one source distribution define."""
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if _PARSERS.fullmatch(member.name) else None
            if file is not None:
                yield from options_in(file.read().decode())


def options_in(source: str) -> Iterator[str]:
    """Names that the parser is given, and a field of the server's own arguments each, as the parser names them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name in {"add_cli_args", "make_arg_parser"}:
            yield from filter(_OPTION.fullmatch, _texts(node))
        elif isinstance(node, ast.ClassDef) and node.name in {"FrontendArgs", "BaseFrontendArgs"}:
            yield from (f"--{name.replace('_', '-')}" for name in _fields(node))


def _texts(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def _fields(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            yield each.target.id


def written(found: Mapping[Release, frozenset[str]]) -> str:
    """The table as YAML: options that came and went together are one group."""
    releases = sorted(found)
    groups: dict[Span, list[str]] = defaultdict(list)
    for option in sorted(frozenset().union(*found.values())):
        for span in _runs([at for at, release in enumerate(releases) if option in found[release]]):
            groups[span].append(option)
    table: dict[str, Any] = {
        "releases": [_text(release) for release in releases],
        "groups": [_group(releases, span, groups[span]) for span in sorted(groups)],
    }
    return yaml.safe_dump(table, sort_keys=False, width=140, default_flow_style=None)


def _runs(positions: list[int]) -> Iterable[Span]:
    """Positions as runs without a gap."""
    breaks = [(before, after) for before, after in pairwise(positions) if after > before + 1]
    begins = [positions[0], *(after for _, after in breaks)]
    ends = [*(before for before, _ in breaks), positions[-1]]
    return zip(begins, ends, strict=True)


def _group(releases: list[Release], span: Span, options: list[str]) -> dict[str, Any]:
    begin, end = span
    until = {"until": _text(releases[end])} if end < len(releases) - 1 else {}
    return {"since": _text(releases[begin]), **until, "options": options}


def _text(release: Release) -> str:
    return ".".join(map(str, release))


if __name__ == "__main__":
    main()
