"""A pool whose engine hangs: its processes live, and nothing of it is answered any more."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from e2e.team import Endpoint, a_team_on

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.node import RealNode
    from e2e.team import Json, Team


@dataclass(frozen=True, slots=True)
class Frozen:
    """A pool of one replica that served and was frozen."""

    NAME = "frozen"

    team: Team
    pod: Json
    since: float  # epoch seconds


@contextlib.contextmanager
def a_frozen_pool(node: RealNode) -> Iterator[Frozen]:
    """In a namespace of its own, as minutes pass before anything happens to it: other tests run meanwhile."""
    with a_team_on(node) as team:
        rollout = {"drainTimeout": "5s"}  # what hangs has nothing to finish
        team.apply(team.pool(Frozen.NAME, rollout=rollout))
        team.wait_for("wpool", Frozen.NAME, "Ready")
        Endpoint(*team.service_address(Frozen.NAME)).complete()
        (pod,) = team.pods(Frozen.NAME)
        _freeze(pod)
        yield Frozen(team, pod, time.time())


def _freeze(pod: Json) -> None:
    """From outside: the first process of a container cannot be stopped by one beside it."""
    (status,) = (each for each in pod["status"]["containerStatuses"] if each["name"] == "engine")
    container = status["containerID"].removeprefix("containerd://")
    processes = [group.parent for group in Path("/proc").glob("[0-9]*/cgroup") if container in _words(group)]
    assert processes, f"no process of {container}"
    for process in processes:
        os.kill(int(process.name), signal.SIGSTOP)


def _words(group: Path) -> str:
    """Of a process that may be gone meanwhile."""
    try:
        return group.read_text()
    except OSError:
        return ""
