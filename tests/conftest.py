"""Weft, installed once for all tests that need a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.installed import InstalledWeft

if TYPE_CHECKING:
    from e2e.cluster.control_plane import ControlPlane


@pytest.fixture(scope="session")
def weft(control_plane: ControlPlane) -> InstalledWeft:
    """The shipped definitions and roles in the session's cluster; each test asks it for a place of its own."""
    return InstalledWeft(control_plane)
