"""An operator's metrics that have something in all of them, and a Prometheus that scrapes them as the page says."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from e2e.cluster.ports import free_port
from e2e.cluster.processes import Supervisor
from e2e.cluster.prometheus import START_TIMEOUT_SECONDS, command, is_ready, require_prometheus
from tests.control.test_traffic_gauges import SEEN
from tests.decide.test_splits import half, split_world
from tests.decide.world import external, pool, pool_spec
from weft.control.metrics.telemetry import Telemetry
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import Condition
from weft.domain.workload import Role, Slo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.decision import Decisions
    from weft.domain.snapshot import Snapshot

Json = dict[str, Any]

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
ALERTS = REPOSITORY / "charts" / "weft" / "files" / "alerts.yaml"


def scrape_jobs() -> dict[str, Json]:
    """The jobs on the page by name."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    (config,) = [yaml.safe_load(block) for block in blocks if block.startswith("scrape_configs")]
    return {job["job_name"]: job for job in config["scrape_configs"]}


def operating() -> tuple[Snapshot, Decisions]:
    """A split, and a pool that others scale, with traffic and targets, that has no room for all of its replicas."""
    world = split_world(half(Role.Prefill), half(Role.Decode))
    slo = Slo(ttft=((95, 0.8),), tpot=((95, 0.04),))
    world.pools["chat"] = pool("chat", replace(pool_spec(8, external(6)), slo=slo))
    ready = Condition("Ready", "True", Explanation(Reason.Serving, "all of them"))
    for _ in range(4):
        world.turn()
    world.pools["chat"] = replace(world.pools["chat"], conditions=(ready,))
    world.splits["pd"] = replace(world.splits["pd"], conditions=(ready,))
    seen = replace(SEEN, ttft=((95, 0.3),), kv_usage=0.5)
    snapshot = replace(world.snapshot(), observations={"uid-chat": seen})
    return snapshot, world.decide()


class Exposed:
    """An operator that decides at each scrape, writes, fails, and has one replica more from time to time."""

    def __init__(self) -> None:
        """Nothing is scraped yet."""
        self.telemetry = Telemetry()
        self._snapshot, self._decisions = operating()
        self._scrapes = 0

    def page(self) -> bytes:
        """The next scrape."""
        self._scrapes += 1
        telemetry, decisions = self.telemetry, self._decisions
        more = [replace(each, status=replace(each.status, desired_replicas=self._scrapes)) for each in decisions.pools]
        assert telemetry.show(self._snapshot, replace(decisions, pools=tuple(more))) in (None, {})
        telemetry.decision_seconds.observe(0.02)
        telemetry.count_write("Pod", "create")
        telemetry.failures.labels("converge", "PodRefused").inc()
        telemetry.failures.labels("decide", "Bug").inc()
        telemetry.loop_lag.set(0.001)
        telemetry.snapshot_age.set(1.0)
        return telemetry.text()


@contextmanager
def scraped(directory: Path) -> Iterator[str]:
    """The URL of a Prometheus that scrapes it four times a second as the page says, and evaluates the alerts."""
    require_prometheus()
    exposed = Exposed()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(exposed))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    supervisor = Supervisor(directory)
    try:
        configuration, address = directory / "prometheus.yaml", f"127.0.0.1:{free_port()}"
        configuration.write_text(yaml.safe_dump(_configuration(server.server_address[1])))
        process = supervisor.start("prometheus", command(configuration, directory, address))
        process.wait_until(lambda: is_ready(f"http://{address}"), START_TIMEOUT_SECONDS)
        yield f"http://{address}"
    finally:
        supervisor.stop_all()
        server.shutdown()
        server.server_close()
        thread.join()


def _configuration(port: int) -> Json:
    often = {"evaluation_interval": "250ms"}
    return {"global": often, "rule_files": [str(ALERTS)], "scrape_configs": [_job(port)]}


def _job(port: int) -> Json:
    """The operator's job, with a target as Kubernetes discovery tells of it."""
    job = {key: value for key, value in scrape_jobs()["weft"].items() if not key.startswith("kubernetes")}
    labels = {"pod_label_app_kubernetes_io_name": "weft-controller", "pod_container_port_name": "http"}
    found = {f"__meta_kubernetes_{key}": value for key, value in labels.items()} | {"namespace": "weft-system"}
    return job | {
        "scrape_interval": "250ms",
        "scrape_timeout": "250ms",
        "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": found}],
    }


def _handler(exposed: Exposed) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(exposed.page())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
