"""A supervisor's processes have names; one name is one running process."""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.processes import Supervisor
from e2e.cluster.waiting import eventually
from e2e.operator_process import OF_THIS_TREE, REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SLEEPS = ("sleep", "60")


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    started = Supervisor(tmp_path)
    yield started
    started.stop_all()


def test_a_name_is_refused_while_its_process_runs(supervisor: Supervisor) -> None:
    supervisor.start("one", SLEEPS)
    with pytest.raises(ValueError, match="one runs already"):
        supervisor.start("one", SLEEPS)


def test_a_name_is_free_once_its_process_has_ended(supervisor: Supervisor) -> None:
    """Both write to the same log."""
    first = supervisor.start("one", ("echo", "first"))
    eventually(lambda: not first.running, "the first has ended")
    second = supervisor.start("one", ("echo", "second"))
    eventually(lambda: not second.running, "the second has ended")
    assert supervisor["one"] is second
    assert second.tail() == "first\nsecond"


def test_operators_of_a_worktree_run_its_own_code(supervisor: Supervisor) -> None:
    """A virtual environment that worktrees share has one of them installed."""
    where = supervisor.start("where", (sys.executable, "-c", "import sys; print(*sys.path[1:3])"), OF_THIS_TREE)
    eventually(lambda: not where.running, "it has told where it looks first")
    assert where.tail() == f"{REPOSITORY / 'operator'} {REPOSITORY}"


def test_a_start_that_ctrl_c_breaks_off_is_stopped_with_the_others(supervisor: Supervisor) -> None:
    """Ctrl-C reaches the thread that waits for a start; the one that starts goes on."""
    go_on = threading.Event()

    def ctrl_c_before_it_starts() -> None:
        eventually(lambda: "one" in supervisor, "it is known before it runs")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        go_on.wait(10)

    supervisor._spawner.submit(ctrl_c_before_it_starts)
    with pytest.raises(KeyboardInterrupt):
        supervisor.start("one", SLEEPS)
    process = supervisor["one"]
    threading.Timer(0.2, go_on.set).start()
    supervisor.stop_all()
    assert not process.running
