"""Two operators with a Lease: one is paused past it and wakes up, one ends; each time the other goes on (F17)."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.presets import h200_boards
from e2e.cluster.waiting import eventually
from e2e.operator_process import OperatorProcess
from tests.manifests import install, load
from tests.scenarios.audit import writes
from tests.scenarios.conftest import OPTIONS
from weft.control.leading import LEASE_SECONDS

if TYPE_CHECKING:
    from e2e.cluster.control_plane import ControlPlane
    from tests.installed import InstalledWeft, Place

pytestmark = pytest.mark.timeout(240)

REFUSED_BY_THE_CLUSTER = 3


def test_the_other_one_goes_on_and_the_paused_one_writes_nothing(
    weft: InstalledWeft, control_plane: ControlPlane
) -> None:
    """It wakes up to a pool that it has not seen changed, with another operator at work on it.

    The first runs under the shipped roles, and the second as the administrator, so that the audit log tells them apart.
    """
    with control_plane.api_client() as api:
        install(api, load("standby"))
    place = weft.place("led", h200_boards(1))
    mine = (*OPTIONS, "--namespace", place.namespace, "--leader-elect")
    with ExitStack() as running:
        first = running.enter_context(OperatorProcess.start(control_plane, mine, "weft-first"))
        eventually(lambda: first.metric("weft_leader") == 1, "the first one leads")
        second = running.enter_context(
            OperatorProcess.start(control_plane, mine, "weft-second", control_plane.kubeconfig)
        )
        place.create_pool("chat", scaling={"minReplicas": 1})
        place.wait_ready("chat")
        assert second.metric("weft_leader") == 0
        assert second.is_healthy()

        os.kill(first.process.pid, signal.SIGSTOP)
        ask_for(place, 2)
        eventually(lambda: second.metric("weft_leader") == 1, "the second one leads", timeout_seconds=4 * LEASE_SECONDS)
        place.wait_ready("chat", 2)
        grow(place, 3)
        before = len(writes(control_plane))
        os.kill(first.process.pid, signal.SIGCONT)
        eventually(lambda: not first.running, "the first one has ended")
        assert first.process.exit_code == REFUSED_BY_THE_CLUSTER
        assert "another operator holds it: this one ends" in first.process.tail()
        assert len(writes(control_plane)) == before

        first.resume()
        assert first.metric("weft_leader") == 0
        second.stop()
        eventually(lambda: first.metric("weft_leader") == 1, "the first one leads again", timeout_seconds=LEASE_SECONDS)
        grow(place, 4)


def ask_for(place: Place, count: int) -> None:
    place.change_pool("chat", {"spec": {"scaling": {"minReplicas": count}}})


def grow(place: Place, count: int) -> None:
    """Until so many replicas serve."""
    ask_for(place, count)
    place.wait_ready("chat", count)
