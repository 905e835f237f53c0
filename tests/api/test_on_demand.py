"""`weft.api` loads each of its names when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import weft.api


@pytest.mark.parametrize("name", weft.api.__all__)
def test_every_name_is_there_and_its_module_knows_it(name: str) -> None:
    found = getattr(weft.api, name)
    assert (name, True) == (found.__name__, found.__module__.startswith("weft.api."))


def test_another_name_is_none_of_its() -> None:
    with pytest.raises(AttributeError, match=r"module 'weft\.api' has no attribute 'nothing'"):
        _ = weft.api.nothing


def test_a_body_without_a_status_waits_for_no_model_of_one() -> None:
    """What somebody writes has none; what the API server holds does."""
    code = """
import sys
from weft.api import parse_pool
parse_pool({"metadata": {"name": "a"}, "spec": {"model": {"id": "m"}}})
before = "weft.api.status" in sys.modules
parse_pool({"metadata": {"name": "a"}, "spec": {"model": {"id": "m"}}, "status": {"desiredReplicas": 1}})
print(before, "weft.api.status" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout == "False True\n"
