"""What a replica's pods look like on every release of its engine: one file a shape, of the differences.

A golden file has the pods on one release. Here are those on all others that planning lets have the shape, as what
differs from that file; the image is the same, so that only what Weft says to the engine is in it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from difflib import unified_diff
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.render.nim_shapes import NIM_SHAPES
from tests.render.planned import RELEASES, is_planned
from tests.render.shapes import SHAPES
from weft.domain.errors import Invalid
from weft.render import render_pods

GOLDEN = Path(__file__).parent / "golden"
NAMES = [name for name in SHAPES if name not in NIM_SHAPES]  # a NIM's release is that of its image


def pods_on(name: str, version: str) -> tuple[dict[str, Any], ...] | str:
    """The pods, or why there are none."""
    record = SHAPES[name]
    assert record.status.plan is not None
    engine = replace(record.status.plan.engine, version=version)
    status = replace(record.status, engine=engine, plan=replace(record.status.plan, engine=engine))
    at = replace(record, status=status)
    if not is_planned(record, version):
        return "not planned"
    try:
        return render_pods(at, at.status.assignments[0])
    except Invalid as refused:
        return f"refused: {refused}"


def differences(name: str) -> str:
    """For each run of releases whose pods are alike: which these are, and what differs from the golden file."""
    plan = SHAPES[name].status.plan
    assert plan is not None
    golden = (GOLDEN / f"{name}.yaml").read_text().splitlines()
    told = []
    for pods, group in groupby(RELEASES[plan.engine.name], lambda version: pods_on(name, version)):
        releases = list(group)
        told += [
            "# " + " to ".join(dict.fromkeys((releases[0], releases[-1]))),
            *(beside(golden, pods) or [f"as {name}.yaml"]),
            "",
        ]
    return "\n".join(told)


def beside(golden: list[str], pods: tuple[dict[str, Any], ...] | str) -> list[str]:
    """Lines that differ, with one around them."""
    if isinstance(pods, str):
        return [pods]
    there = yaml.safe_dump_all(pods, sort_keys=False, width=120).splitlines()
    return list(unified_diff(golden, there, n=1, lineterm=""))[2:]


@pytest.mark.parametrize("name", NAMES)
def test_pods_on_each_release_are_as_recorded(name: str) -> None:
    """`WEFT_GOLDEN=write` records them, once `test_pods.py` has recorded its own."""
    path, actual = GOLDEN / "releases" / f"{name}.diff", differences(name)
    if os.environ.get("WEFT_GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(actual)
    assert path.read_text() == actual


def test_every_shape_has_a_release_with_the_pods_of_its_golden_file() -> None:
    alike = [name for name in NAMES if f"as {name}.yaml" in (GOLDEN / "releases" / f"{name}.diff").read_text()]
    assert alike == NAMES


def test_no_file_is_left_of_a_shape_that_is_gone() -> None:
    assert {path.stem for path in (GOLDEN / "releases").iterdir()} == set(NAMES)
