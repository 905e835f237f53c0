"""Weft, installed once for all tests that need a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st

from tests.installed import InstalledWeft

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.cluster.control_plane import ControlPlane


@pytest.fixture(scope="session", autouse=True)
def _patterns() -> None:
    """Load what Hypothesis loads when it is first used: pytest rewrites its assertions then.

    In the midst of a deep stack Python 3.11 fails at that: "AST constructor recursion depth mismatch".
    """
    st.from_regex("a").validate()


@pytest.fixture(scope="session")
def weft(control_plane: ControlPlane) -> InstalledWeft:
    """The shipped definitions and roles in the session's cluster; each test asks it for a place of its own."""
    return InstalledWeft(control_plane)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files whose tests may take longest go first, so that short ones fill the end when several workers share them."""
    longest: dict[Path, float] = {}
    for item in items:
        mark = item.get_closest_marker("timeout")
        longest[item.path] = max(longest.get(item.path, 0.0), mark.args[0] if mark and mark.args else 0.0)
    items.sort(key=lambda item: -longest[item.path])
