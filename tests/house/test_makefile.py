"""`make` says what it does before it takes long: an environment takes a minute, in which pip says nothing."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def recipe(target: str) -> list[str]:
    """What `make` would run for it, if nothing were there."""
    command = ["make", "--always-make", "--dry-run", "--no-print-directory", target]
    return subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.mark.parametrize("target", [".venv/.from-requirements-dev", ".venv-predictors/.from-requirements-predictors"])
def test_packages_are_announced_before_they_are_installed(target: str) -> None:
    steps = recipe(target)
    before = [first for first, second in pairwise(steps) if "--require-hashes" in second and "pip install" in second]
    assert any("packages of" in each for each in steps[: steps.index(before[0]) + 1])


def test_setup_ends_with_what_to_do_next() -> None:
    assert "ready: .venv/bin/weft -h" in recipe("setup")[-1]
