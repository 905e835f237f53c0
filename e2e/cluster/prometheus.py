"""A Prometheus that scrapes engine pods, as one beside a production cluster does.

    with PrometheusServer.start(cluster) as server:
        ...  # server.url

It scrapes pods that belong to a pool. Their series carry the usual labels `namespace`, `pod` and `container`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import yaml

from e2e.cluster.ports import free_port
from e2e.cluster.processes import Supervisor
from e2e.cluster.prometheus_targets import TargetFile

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from e2e.cluster.control_plane import ControlPlane

SCRAPE_SECONDS = 2
START_TIMEOUT_SECONDS = 90.0  # a busy machine takes far longer than others


class PrometheusMissingError(RuntimeError):
    """There is no prometheus command on PATH."""


@dataclass(frozen=True, slots=True)
class PrometheusServer:
    """A running server; made by `start`."""

    url: str
    processes: Supervisor
    targets: TargetFile
    directory: Path

    @classmethod
    def start(cls, cluster: ControlPlane, namespace: str | None = None) -> PrometheusServer:
        """Scrape pods that belong to a pool, in one namespace or in all. Answers queries when it returns.

        Raises PrometheusMissingError, and ProcessFailedError with the end of its log when it does not come up.
        """
        require_prometheus()
        address = f"127.0.0.1:{free_port()}"
        directory = cluster.directory / f"prometheus-{address.rpartition(':')[2]}"
        directory.mkdir(parents=True)
        configuration = directory / "prometheus.yaml"
        targets = TargetFile(directory / "targets.json", cluster.api_client(), namespace)
        configuration.write_text(yaml.safe_dump(scraping(directory / "targets.json")))
        server = cls(f"http://{address}", Supervisor(directory), targets, directory)
        try:
            targets.start()
            process = server.processes.start("prometheus", command(configuration, directory, address))
            process.wait_until(lambda: is_ready(server.url), START_TIMEOUT_SECONDS)
        except BaseException:  # Ctrl-C while starting, too
            server.stop()
            raise
        return server

    def scraped_pods(self) -> set[str]:
        """Names of the pods whose last scrape worked."""
        url = f"{self.url}/api/v1/targets?state=active"
        with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own http address
            targets = json.load(answer)["data"]["activeTargets"]
        return {target["labels"]["pod"] for target in targets if target["health"] == "up"}

    def stop(self) -> None:
        """End it and remove its data. Safe to call twice."""
        self.targets.stop()
        self.processes.stop_all()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        """Return the running server."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()


def require_prometheus() -> None:
    """Raise PrometheusMissingError where there is none."""
    if shutil.which("prometheus") is None:
        raise PrometheusMissingError("prometheus is not on PATH; install it (Debian: apt install prometheus)")


def command(configuration: Path, directory: Path, address: str) -> tuple[str, ...]:
    """Run it with its data in `directory`/data."""
    return (
        "prometheus",
        f"--config.file={configuration}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=warn",
    )


def scraping(targets: Path, every: str = f"{SCRAPE_SECONDS}s") -> dict[str, Any]:
    """Return the configuration that scrapes the targets in a file."""
    discovery = {"files": [str(targets)], "refresh_interval": "5s"}  # and at once when the file changes
    return {
        "global": {"scrape_interval": every, "scrape_timeout": every},
        "scrape_configs": [{"job_name": "engines", "file_sd_configs": [discovery]}],
    }


def is_ready(url: str) -> bool:
    """Whether it answers queries."""
    with (
        contextlib.suppress(urllib.error.URLError, OSError),
        urllib.request.urlopen(f"{url}/-/ready", timeout=5) as answer,  # noqa: S310 - our own http address
    ):
        return bool(answer.status == 200)
    return False
