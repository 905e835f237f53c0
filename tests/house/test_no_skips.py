"""CI skips nothing: under `--no-skips` every way to skip fails, and says what was skipped."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
CASES = """
import pytest

@pytest.fixture
def absent():
    pytest.skip("the fixture is absent")

def test_by_hand():
    pytest.skip("by hand")

@pytest.mark.skipif(True, reason="by a marker")
def test_by_a_marker():
    pass

def test_by_a_fixture(absent):
    pass

def test_that_passes():
    pass
"""
MODULE = "import pytest\npytest.skip('the whole module', allow_module_level=True)\n"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Make a suite of tests that skip, under the project's conftest."""
    shutil.copy(REPOSITORY / "conftest.py", tmp_path)
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "test_module.py").write_text(MODULE)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    return tmp_path


def closing_line(suite: Path, *options: str) -> tuple[int, str, str]:
    """Exit status, closing counts and everything that pytest printed."""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-rs", "--continue-on-collection-errors", *options, str(suite)]
    done = subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True, check=False)
    counts = re.search(r"=+ (.*) in [\d.]+s", done.stdout.splitlines()[-1])
    return done.returncode, counts[1] if counts else "", done.stdout


def test_without_the_option_a_skip_is_a_skip(suite: Path) -> None:
    assert (0, "1 passed, 4 skipped") == closing_line(suite)[:2]


def test_with_it_every_skip_fails_with_its_reason(suite: Path) -> None:
    status, counts, output = closing_line(suite, "--no-skips")
    assert (1, "1 failed, 1 passed, 3 errors") == (status, counts)
    for reason in ("by hand", "by a marker", "the fixture is absent", "the whole module"):
        assert f"--no-skips: Skipped: {reason}" in output


def test_ci_asks_for_it() -> None:
    assert "PYTEST_ADDOPTS=--no-skips" in (REPOSITORY / ".ci" / "run").read_text()
