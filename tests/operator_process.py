"""The operator as a process of its own: started, asked, stopped, killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from prometheus_client.parser import text_string_to_metric_families

from e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path


def free_port() -> int:
    """A port that nothing listens on at this moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass(slots=True)
class OperatorProcess:
    """`weft run` with a kubeconfig. Use as a context, or call `start` and `stop`; it may start again."""

    kubeconfig: Path
    log: Path
    arguments: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    def start(self, *, ready: bool = True) -> Self:
        """Start it and, unless told otherwise, wait until its caches are filled."""
        command = [sys.executable, "-m", "weft.cli", "run", "--kubeconfig", str(self.kubeconfig), "--plain-logs"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(self.port), *self.arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        if ready:
            eventually(lambda: self.status("/readyz") == 200, "the operator is ready", timeout_seconds=40)
        return self

    def stop(self) -> float:
        """End it as Kubernetes does; gives the seconds that took."""
        return self._end(signal.SIGTERM)

    def kill(self) -> float:
        """End it without a chance to finish anything."""
        return self._end(signal.SIGKILL)

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.poll() is None

    def status(self, path: str) -> int:
        """HTTP status of an endpoint, 0 while nothing listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            error.close()
            return int(error.code)
        except OSError:
            assert self.running, f"the operator ended: {self.log.read_text()[-4000:]}"
            return 0

    def metric(self, name: str, **labels: str) -> float:
        """Sum of the samples of that name with at least these labels, 0 when there is none."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        wanted = set(labels.items())
        return sum(s.value for s in samples if s.name == name and wanted <= set(s.labels.items()))

    def writes(self) -> float:
        """Everything that the API server took from it so far."""
        return self.metric("weft_writes_total")

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """End it, unless that happened already."""
        if self.running:
            self.stop()

    def _end(self, number: signal.Signals) -> float:
        assert self.process is not None
        begun = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(30)
        return time.monotonic() - begun
