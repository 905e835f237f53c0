"""A real Prometheus, set up as the page and the chart say, scrapes what Weft would read itself, and nothing else."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from e2e.cluster.ports import free_port
from e2e.cluster.processes import Supervisor
from e2e.cluster.prometheus import START_TIMEOUT_SECONDS, command, is_ready, require_prometheus
from tests.charts.conftest import find_tools
from tests.monitoring.discovery import META, discovered, fronts, others, pod_label, read_by_weft, replicas
from tests.monitoring.operating import scrape_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.monitoring.discovery import Series

Json = dict[str, Any]

PATIENCE_SECONDS = 20.0


def of_the_page() -> list[Json]:
    """The plain job of engines."""
    return [scrape_jobs()["weft-engines"]]


def of_the_chart() -> list[Json]:
    """What the Prometheus Operator makes of the PodMonitor: for each endpoint its own rules, then those of it."""
    objects = find_tools().render_chart("podMonitor.enabled=true")
    spec = objects["PodMonitor", "weft-system", "weft-engines"]["spec"]
    return [
        {"job_name": endpoint["port"], "relabel_configs": [*_rules(spec["selector"]["matchLabels"], endpoint)]}
        for endpoint in spec["podMetricsEndpoints"]
    ]


def _rules(selected: dict[str, str], endpoint: Json) -> Iterator[Json]:
    yield {"action": "drop", "source_labels": [f"{META}pod_phase"], "regex": "(Failed|Succeeded)"}
    for key, value in selected.items():
        yield {"action": "keep", "source_labels": [f"{META}{pod_label(key)}"], "regex": value}
    yield {"action": "keep", "source_labels": [f"{META}pod_container_port_name"], "regex": endpoint["port"]}
    yield {"source_labels": [f"{META}namespace"], "target_label": "namespace"}
    yield {"source_labels": [f"{META}pod_name"], "target_label": "pod"}
    for rule in endpoint.get("relabelings", ()):
        yield {re.sub(r"[A-Z]", lambda upper: f"_{upper[0].lower()}", key): value for key, value in rule.items()}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("jobs", [of_the_page, of_the_chart], ids=["page", "chart"])
def test_prometheus_scrapes_what_weft_asks_it_for(jobs: Callable[[], list[Json]], tmp_path: Path) -> None:
    """Each engine on its server's path, under the labels of the queries; no front's API, no rank without a server."""
    assert read_by_weft() == scraped(jobs(), tmp_path)


def scraped(jobs: list[Json], directory: Path) -> set[Series]:
    """The targets of a Prometheus with these jobs; its discovery is a file."""
    require_prometheus()
    bodies = [*(body for each in replicas().values() for body in each), *fronts(), *others()]
    file = directory / "targets.json"
    file.write_text(json.dumps([target for body in bodies for target in discovered(body)]))
    own = {"scrape_interval": "1h", "file_sd_configs": [{"files": [str(file)]}]}
    kept = [{key: value for key, value in job.items() if not key.startswith("kubernetes")} | own for job in jobs]
    configuration, address = directory / "prometheus.yaml", f"127.0.0.1:{free_port()}"
    configuration.write_text(yaml.safe_dump({"scrape_configs": kept}))
    supervisor = Supervisor(directory)
    try:
        process = supervisor.start("prometheus", command(configuration, directory, address))
        process.wait_until(lambda: is_ready(f"http://{address}"), START_TIMEOUT_SECONDS)
        return active(f"http://{address}", len(jobs))
    finally:
        supervisor.stop_all()


def active(url: str, jobs: int) -> set[Series]:
    """Its targets, once every job has some."""
    found: list[Json] = []
    end = time.monotonic() + PATIENCE_SECONDS
    while len({each["scrapePool"] for each in found}) < jobs:
        assert time.monotonic() < end, f"only these have targets: {found}"
        with urllib.request.urlopen(f"{url}/api/v1/targets?state=active", timeout=10) as answer:  # noqa: S310 - ours
            found = json.load(answer)["data"]["activeTargets"]
    return {(each["scrapeUrl"], each["labels"]["namespace"], each["labels"]["pod"]) for each in found}
