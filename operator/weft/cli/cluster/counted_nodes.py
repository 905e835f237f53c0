"""Nodes by count and kind, such as `4xH100,18xGB200`: a cluster that exists on paper, or whose dump is not at hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weft.cli.ends.failure import CommandFailure
from weft.cli.files.reading import STANDARD_INPUT
from weft.domain.errors import Invalid

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.domain.hardware import Accelerator

MOST_NODES = 5000
_TIMES = r"\s*[xX*\u00d7]\s*"
_EACH = rf"([0-9]{{1,9}}){_TIMES}(?:([0-9]{{1,9}}){_TIMES})?([A-Za-z][\w-]*)"
_COUNTED = re.compile(rf"\s*{_EACH}\s*(,\s*{_EACH}\s*)*", re.ASCII)
_NO_PATH = re.compile(r"[\w\s,:*\u00d7-]{1,100}")
_TESTS_ONLY = "cpu"


class _Counted(NamedTuple):
    """One kind as it was typed: nodes, GPUs of each (empty: the usual number), and the name of the accelerator."""

    nodes: str
    gpus: str
    name: str


def is_counted(text: str) -> bool:
    """Whether the text counts nodes, as `4xH100`, `4 * H100` or `4x8xH100` do, and is the name of no file."""
    return _COUNTED.fullmatch(text) is not None and not Path(text).exists()


def counted_nodes(text: str, catalog: Catalog) -> list[tuple[Accelerator, int]]:
    """Return each kind with its number of nodes.

    Raises `CommandFailure` for an unknown kind, for wrong counts, and for the stand-in of tests unless it is named by
    its label.
    """
    found = []
    for each in map(_Counted._make, re.findall(_EACH, text)):
        kind = _kind(each, text, catalog)
        if each.gpus and int(each.gpus) != kind.gpus_per_node:
            raise CommandFailure(
                f"--fabric {text}: a node with {kind.name} is counted with {kind.gpus_per_node} GPUs, not {each.gpus}: "
                f"write {each.nodes}x{kind.name}, or give a file with the nodes"
            )
        found.append((kind, int(each.nodes)))
    if len({kind.name for kind, _ in found}) < len(found):
        raise CommandFailure(f"--fabric {text}: an accelerator is named twice: add its nodes up")
    if min(count for _, count in found) < 1 or sum(count for _, count in found) > MOST_NODES:
        raise CommandFailure(f"--fabric {text}: give 1 to {MOST_NODES} nodes in all, and at least one of each kind")
    return found


def _kind(each: _Counted, text: str, catalog: Catalog) -> Accelerator:
    for_tests = next((one for one in catalog.accelerators if one.vendor == _TESTS_ONLY), None)
    if for_tests is not None and each.name.casefold() == for_tests.products[0].casefold():
        return for_tests
    try:
        kind = catalog.accelerator(each.name)
    except Invalid as error:
        raise CommandFailure(f"--fabric {text}: {error.message}") from error
    if kind is for_tests:
        raise CommandFailure(
            f"--fabric {text}: {kind.name} stands for a GPU in tests, and engines are not planned for CPUs: name an "
            f"accelerator, such as H100, or {kind.products[0]} if you want the stand-in"
        )
    return kind


def refuse_a_miscount(text: str) -> None:
    """Raise `CommandFailure` with the form of a count where a text that is no path names no file either."""
    if _NO_PATH.fullmatch(text) and text != STANDARD_INPUT and not Path(text).exists():
        raise CommandFailure(
            f"cannot read {text}: there is no such file; empty nodes are written as a count and an accelerator, such "
            "as 4xH100 for four nodes of eight GPUs, or 18xGB200,2xH200"
        )
