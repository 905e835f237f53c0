"""A real API server ends watches of pods and nodes when it is asked to, which shows that they told everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from e2e.cluster.waiting import eventually
from weft.observe.api_server.reading import Reader
from weft.observe.informers.cluster import WATCH_SECONDS, ClusterCache

if TYPE_CHECKING:
    from e2e.cluster.control_plane import ControlPlane


@pytest.mark.timeout(120)
def test_a_quiet_cluster_is_known_without_another_list(control_plane: ControlPlane) -> None:
    """ADR 0129. The next list is due after five minutes."""
    with control_plane.api_client() as api:
        cache = ClusterCache(Reader(api), (), lambda _: None)
        cache.start()
        try:
            eventually(lambda: cache.synced, "it is synced")
            for _ in range(2):
                eventually(lambda: cache.blind_seconds > WATCH_SECONDS - 3.0, "time passes")
                eventually(
                    lambda: cache.blind_seconds < WATCH_SECONDS / 2.0, "a watch ended in time", timeout_seconds=40
                )
        finally:
            cache.stop(5)
