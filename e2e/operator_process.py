"""The operator as users run it: a process of its own, under the service account and the roles that are shipped."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from prometheus_client.parser import text_string_to_metric_families

from e2e.cluster import build
from e2e.cluster.ports import free_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from prometheus_client import Metric

    from e2e.cluster.control_plane import ControlPlane
    from e2e.cluster.processes import Process

REPOSITORY = Path(__file__).parents[1]
SYSTEM_NAMESPACE = "weft-system"
SERVICE_ACCOUNT = "weft-controller"
# Processes inherit nothing, and what worktrees share as installed in a virtual environment is the code of one of them.
OF_THIS_TREE = {"PYTHONPATH": os.pathsep.join((str(REPOSITORY / "operator"), str(REPOSITORY)))}
READY_SECONDS = 120.0  # usually 2; it starts beside engines, too, which take all that a machine has
GRACE_SECONDS = 10.0


def kubectl(cluster: ControlPlane, *words: str | Path) -> str:
    """Standard output of kubectl as the administrator; raises RuntimeError with its standard error."""
    program = build.ensure(["kubectl"])["kubectl"]
    command = [str(word) for word in (program, "--kubeconfig", cluster.kubeconfig, *words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"kubectl {' '.join(command[3:])}: {done.stderr.strip()}")
    return done.stdout


def install(cluster: ControlPlane, manifests: str = "manifests/base", *, pod_logs: bool = False) -> None:
    """Apply CRDs, namespace, roles and bindings as a user does; the Deployment is left at zero pods."""
    kubectl(cluster, "apply", "--server-side", "-k", REPOSITORY / manifests)
    kubectl(cluster, "-n", SYSTEM_NAMESPACE, "scale", "deployment", "weft-controller", "--replicas=0")
    if pod_logs:
        kubectl(cluster, "apply", "--server-side", "-k", REPOSITORY / "manifests" / "pod-logs")
    for name in ("inferencepools", "pdsplits"):
        kubectl(cluster, "wait", "--for=condition=Established", f"crd/{name}.weft.dev", "--timeout=120s")
        kubectl(cluster, "get", f"{name}.weft.dev", "--all-namespaces")  # tries again while it is told to


@dataclass(frozen=True, slots=True)
class OperatorProcess:
    """One operator of a cluster, and a context that ends it; `port` serves its probes and metrics on loopback."""

    process: Process
    port: int

    @classmethod
    def start(
        cls,
        cluster: ControlPlane,
        options: Sequence[str] = (),
        name: str = "weft",
        kubeconfig: Path | None = None,
    ) -> OperatorProcess:
        """Start it and return when it is ready; `install` must have run.

        It is the shipped service account unless a kubeconfig says otherwise. Its log is `name`.log in the cluster's
        folder; a name is free again once its process has ended.
        """
        port = free_port()
        identity = kubeconfig or cluster.kubeconfig_for_service_account(SYSTEM_NAMESPACE, SERVICE_ACCOUNT)
        command = [sys.executable, "-m", "weft.cli", "run", "--plain-logs", "--kubeconfig", str(identity)]
        listen = ["--host", "127.0.0.1", "--port", str(port)]
        process = cluster.processes.start(name, [*command, *listen, *options], OF_THIS_TREE, GRACE_SECONDS)
        started = cls(process, port)
        process.wait_until(started.is_ready, READY_SECONDS)
        return started

    def stop(self) -> float:
        """End it as Kubernetes does, by SIGTERM and SIGKILL after the grace; gives the seconds that took."""
        begun = time.monotonic()
        self.process.stop()
        return time.monotonic() - begun

    def kill(self) -> None:
        """End it without a chance to finish anything."""
        self.process.kill()

    def resume(self) -> None:
        """Start it again with the same options, and return when it is ready."""
        self.process.start()
        self.process.wait_until(self.is_ready, READY_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End it, unless that happened already."""
        self.process.stop()

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self.process.running

    def is_ready(self) -> bool:
        """Whether /readyz says so."""
        return self.answer("/readyz") is not None

    def is_healthy(self) -> bool:
        """Whether /healthz says so."""
        return self.answer("/healthz") is not None

    def answer(self, path: str) -> str | None:
        """Body of a successful GET, or None."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as response:
                text: str = response.read().decode()
                return text
        except urllib.error.HTTPError as refusal:
            refusal.close()
            return None
        except OSError:
            return None

    def metric(self, name: str, **labels: str) -> float:
        """Sum of the samples of that name with at least these labels; AssertionError when there is none."""
        found = self._samples(self._families(), name, labels)
        assert found, f"{self.process.name} exports no {name} with {labels}"
        return sum(found)

    def counted(self, name: str, **labels: str) -> float:
        """What a counter has counted; 0 while it is exported without these labels, which come with the first count."""
        families = self._families()
        assert any(f"{family.name}_total" == name for family in families), f"{self.process.name} has no counter {name}"
        return sum(self._samples(families, name, labels))

    def _families(self) -> list[Metric]:
        text = self.answer("/metrics")
        assert text is not None, f"{self.process.name} does not answer:\n{self.process.tail()}"
        return [*text_string_to_metric_families(text)]

    @staticmethod
    def _samples(families: Iterable[Metric], name: str, labels: Mapping[str, str]) -> list[float]:
        samples = (sample for family in families for sample in family.samples)
        return [each.value for each in samples if each.name == name and labels.items() <= each.labels.items()]
