"""The limit of a test is about the test: what it stands on, such as a control plane, has limits of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
CASES = """
import pytest

@pytest.fixture
def control_plane():
    return None

def test_usual(control_plane):
    pass

@pytest.mark.timeout(90)
def test_slow(control_plane):
    pass

@pytest.mark.timeout(90)
def test_alone():
    pass
"""
LIMITS = """
def pytest_collection_modifyitems(items):
    for item in items:
        mark = item.get_closest_marker("timeout")
        print(item.name, *mark.args, *mark.kwargs.items())
"""


def test_the_start_of_a_control_plane_is_no_time_of_the_first_test_that_uses_it(tmp_path: Path) -> None:
    shutil.copy(REPOSITORY / "conftest.py", tmp_path)
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "limits.py").write_text(LIMITS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{tmp_path}", "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-s", "-p", "limits", str(tmp_path)]
    told = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    lines = [line for line in told.splitlines() if line.startswith("test_")]
    without_fixtures = ("func_only", True)
    assert lines == [f"test_usual {without_fixtures}", f"test_slow 90 {without_fixtures}", "test_alone 90"]
