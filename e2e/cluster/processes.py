"""Child processes with a log each, that never outlive the process that started them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

TAIL_LINES = 25
_WRAPPER = Path(__file__).with_name("die_with_parent.py")


class ProcessFailedError(RuntimeError):
    """A process ended, or was not ready in time; says which, and shows the end of its log."""

    def __init__(self, process: Process, what: str) -> None:
        super().__init__(f"{process.name} {what}; the end of {process.log}:\n{process.tail()}")


def tied_to_parent(command: Sequence[str | Path]) -> list[str]:
    """Return the command wrapped so that it dies with the thread that starts it."""
    return [sys.executable, "-I", "-S", str(_WRAPPER), str(os.getpid()), *map(str, command)]


@dataclass(frozen=True, slots=True)
class Command:
    """What to run: `environment` is complete, nothing is inherited."""

    argv: Sequence[str | Path]
    environment: Mapping[str, str]
    directory: Path


@dataclass(slots=True)
class Process:
    """One supervised command; it can be stopped and started again, as an outage does."""

    name: str
    command: Command
    log: Path
    spawner: ThreadPoolExecutor = field(repr=False)
    grace_seconds: float = 2.0  # from the request to end until it is killed
    _running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, unless it runs."""
        if not self.running:
            # The one thread of the spawner lives as long as its supervisor; the caller's thread may end sooner.
            self.spawner.submit(self._spawn).result()

    def _spawn(self) -> None:
        with self.log.open("ab") as log:
            self._running = subprocess.Popen(
                tied_to_parent(self.command.argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=dict(self.command.environment),
                cwd=self.command.directory,
                start_new_session=True,  # Ctrl-C reaches us alone, and we stop the rest in order
            )

    @property
    def pid(self) -> int:
        """The process id of its last start; 0 before the first."""
        return self._running.pid if self._running else 0

    @property
    def exit_code(self) -> int | None:
        """None while it runs and before its first start."""
        return self._running.poll() if self._running else None

    @property
    def running(self) -> bool:
        return self._running is not None and self._running.poll() is None

    def terminate(self) -> None:
        """Ask it to end, without waiting."""
        self._signal(signal.SIGTERM)

    def stop(self) -> None:
        """Ask it to end, and kill it after its grace. Does nothing when it does not run."""
        self.terminate()
        self.reap(time.monotonic() + self.grace_seconds)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        self.reap(time.monotonic() + 10)

    def reap(self, deadline: float) -> None:
        """Wait until `deadline` (monotonic) for its end, then kill it."""
        if self._running is None:
            return
        try:
            self._running.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._running.wait(10)

    def tail(self, lines: int = TAIL_LINES) -> str:
        """Return the last lines of its log."""
        with contextlib.suppress(FileNotFoundError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        return "(no log)"

    def wait_until(self, ready: Callable[[], bool], timeout_seconds: float) -> None:
        """Poll `ready`; raise ProcessFailedError when the process ends or the time is up."""
        deadline = time.monotonic() + timeout_seconds
        while not ready():
            if not self.running:
                raise ProcessFailedError(self, f"ended with code {self.exit_code} before it was ready")
            if time.monotonic() > deadline:
                raise ProcessFailedError(self, f"was not ready after {timeout_seconds:g} s")
            time.sleep(0.05)

    def _signal(self, number: signal.Signals) -> None:
        if self._running is not None and self._running.poll() is None:
            self._running.send_signal(number)


class Supervisor:
    """The processes of one cluster: started in order, stopped in reverse order, logs side by side."""

    def __init__(self, directory: Path, environment: Mapping[str, str] | None = None) -> None:
        """Keep logs in `directory`/logs; `environment` is added to PATH and a HOME inside `directory`."""
        self.directory = directory
        self.logs = directory / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._environment = isolated_environment(directory) | dict(environment or {})
        self._spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")
        self._processes: dict[str, Process] = {}

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        environment: Mapping[str, str] | None = None,
        grace_seconds: float = 2.0,
    ) -> Process:
        """Start a command under a name that no running process has; `environment` is added to the isolated one."""
        if name in self._processes:
            if self._processes[name].running:
                raise ValueError(f"{name} runs already")
            del self._processes[name]  # the new one is stopped before what was started earlier
        command = Command(tuple(argv), {**self._environment, **(environment or {})}, self.directory)
        process = Process(name, command, self.logs / f"{name}.log", self._spawner, grace_seconds)
        self._processes[name] = process  # before it starts: Ctrl-C breaks off the wait, not the start
        process.start()
        return process

    def __getitem__(self, name: str) -> Process:
        return self._processes[name]

    def __contains__(self, name: str) -> bool:
        return name in self._processes

    def __iter__(self) -> Iterator[Process]:
        return iter(tuple(self._processes.values()))

    def forget(self, name: str) -> None:
        """Stop a process and take it off the list, so that its name is free again."""
        self._processes.pop(name).stop()

    def stop_all(self) -> None:
        """Ask all to end, the last started first, and wait for each its grace at most. Safe to call twice."""
        if self._processes:
            self._spawner.submit(int).result()  # comes after a start whose wait was broken off
        asked = time.monotonic()
        for process in reversed(self._processes.values()):
            process.terminate()
        for process in reversed(self._processes.values()):
            process.reap(asked + process.grace_seconds)
        self._processes.clear()
        self._spawner.shutdown()


def isolated_environment(home: Path) -> dict[str, str]:
    """Return an environment that hides the machine's own kubeconfig and tool settings."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "TMPDIR": str(home), "LANG": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process by id and start time, since the system gives ids out again."""

    pid: int
    start_ticks: int

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Raise ProcessLookupError when there is no such process."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except FileNotFoundError as gone:
            raise ProcessLookupError(pid) from gone
        after_name = stat.rpartition(")")[2].split()  # a name may hold blanks and brackets
        if after_name[0] == "Z":
            raise ProcessLookupError(pid)
        return cls(pid, int(after_name[19]))

    @classmethod
    def read(cls, path: Path) -> ProcessIdentity | None:
        """Return the identity noted in a file; None when there is none that can be read."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            pid, start_ticks = map(int, path.read_text().split())
            return cls(pid, start_ticks)
        return None

    def write(self, path: Path) -> None:
        path.write_text(f"{self.pid} {self.start_ticks}\n")

    @property
    def alive(self) -> bool:
        with contextlib.suppress(ProcessLookupError):
            return ProcessIdentity.of(self.pid) == self
        return False
