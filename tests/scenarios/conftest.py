"""One cluster and one operator for all scenarios: the real process, as shipped, serving every namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.cluster.control_plane import ControlPlane, ControlPlaneOptions
from e2e.operator_process import OperatorProcess
from tests.installed import InstalledWeft
from tests.neighbours import install_neighbours

if TYPE_CHECKING:
    from collections.abc import Iterator

# Owner references that block deletion need a grant of their own where this is on.
ADMISSION = {"enable-admission-plugins": "OwnerReferencesPermissionEnforcement"}
# The HPA's metrics come from this machine's loopback, which only an ExternalName can name.
AGGREGATION = {"enable-aggregator-routing": "false"}

RESYNC_SECONDS = 1.0
OPTIONS = ("--tick", "1", "--metrics-interval", "1", "--resync", f"{RESYNC_SECONDS:g}")


@pytest.fixture(scope="package")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane where nobody else writes, so that its audit log is about these scenarios."""
    options = ControlPlaneOptions(api_server_flags={**ADMISSION, **AGGREGATION})
    with ControlPlane.start(options=options) as running:
        yield running


@pytest.fixture(scope="package")
def weft(control_plane: ControlPlane) -> InstalledWeft:
    """The shipped definitions and roles in it, beside the kinds of others that it reads where they are."""
    with control_plane.api_client() as api:
        install_neighbours(api)
    return InstalledWeft(control_plane)


@pytest.fixture(scope="module")
def operator(weft: InstalledWeft) -> Iterator[OperatorProcess]:
    """The operator that serves the whole cluster, while a module asks for it."""
    with OperatorProcess.start(weft.cluster, OPTIONS) as running:
        yield running
