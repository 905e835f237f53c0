"""The node itself: pods run on it as on any other, and nothing is left of it in the end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.node import missing_tools
from e2e.cluster.node_engines import GPU
from e2e.cluster.prometheus import PrometheusMissingError, PrometheusServer
from e2e.cluster.waiting import eventually
from e2e.team import Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.node import RealNode
    from e2e.team import Team

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

FIXTURES = Path(__file__).with_name("fixtures")
CGROUPS = Path("/sys/fs/cgroup")
ASK_THE_API_SERVER = """\
import ssl, urllib.request
account = "/var/run/secrets/kubernetes.io/serviceaccount/"
trust = ssl.create_default_context(cafile=account + "ca.crt")
request = urllib.request.Request("https://kubernetes.default.svc/api")
request.add_header("Authorization", "Bearer " + open(account + "token").read())
print(urllib.request.urlopen(request, context=trust).status)
"""


@pytest.fixture
def small(team: Team) -> Iterator[Team]:
    """The team's namespace with a small pod in it that answers HTTP, by itself and behind its Service."""
    team.kubectl("apply", "-f", str(FIXTURES / "small-pod.yaml"))
    team.kubectl("wait", "pod/small", "--for=condition=Ready", "--timeout=120s")
    team.service_address("small")
    yield team
    team.kubectl("delete", "pod/small", "--now")


def test_the_node_is_ready_and_offers_gpus(node: RealNode, team: Team) -> None:
    found = json.loads(team.kubectl("get", "node", node.options.name, "-o", "json"))
    (ready,) = (one for one in found["status"]["conditions"] if one["type"] == "Ready")
    assert ready["status"] == "True"
    assert found["status"]["allocatable"][GPU] == str(node.options.gpus)
    assert found["metadata"]["labels"].items() >= node.options.labels.items()


def test_a_pod_finds_services_by_name_and_the_api_server_by_its_account(small: Team) -> None:
    fetch = f"import urllib.request as u; print(u.urlopen('http://small.{small.namespace}.svc.cluster.local').status)"
    assert small.kubectl("exec", "small", "--", "python3", "-c", fetch).strip() == "200"
    assert small.kubectl("exec", "small", "--", "python3", "-c", ASK_THE_API_SERVER).strip() == "200"


def test_a_pod_can_be_reached_and_read_from_outside(small: Team) -> None:
    """Weft's operator runs beside the node in these tests: it has to reach pods, and so do clients of Services."""
    pod = json.loads(small.kubectl("get", "pod", "small", "-o", "json"))
    assert Endpoint(pod["status"]["podIP"], 8000).metrics() == "small_pod_up 1\n"
    assert Endpoint(*small.service_address("small")).metrics() == "small_pod_up 1\n"
    assert small.kubectl("logs", "small").startswith("serving\n")


def test_prometheus_scrapes_pods_of_pools_under_the_usual_labels(node: RealNode, small: Team) -> None:
    try:
        server = PrometheusServer.start(node.cluster, small.namespace)
    except PrometheusMissingError as missing:
        pytest.skip(str(missing))
    with server:
        eventually(lambda: server.scraped_pods() == {"small"}, "the pod is scraped", timeout_seconds=60)
        query = f"{server.url}/api/v1/query?query=small_pod_up"
        with urllib.request.urlopen(query, timeout=10) as answer:  # noqa: S310 - our own http address
            (series,) = json.load(answer)["data"]["result"]
    labels = {"namespace": small.namespace, "pod": "small", "container": "server"}
    assert series["metric"].items() >= labels.items()


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_nothing_outlives_the_process_that_started_a_node(end: signal.Signals) -> None:
    if lacking := missing_tools():
        pytest.skip(f"no real node: this machine lacks {', '.join(lacking)}")
    with subprocess.Popen([sys.executable, "-m", "e2e.cluster.node"], stderr=subprocess.PIPE, text=True) as starter:
        assert starter.stderr is not None
        kubeconfig = next(line for line in starter.stderr if line.startswith("export ")).strip().partition("=")[2]
        directory = Path(kubeconfig).parents[1]
        assert processes_about(directory) > 5
        starter.send_signal(end)
    eventually(lambda: processes_about(directory) == 0, "every process has ended", timeout_seconds=60)
    assert str(directory) not in Path("/proc/self/mountinfo").read_text()
    eventually(lambda: not interface(directory).exists(), "the cable is gone", timeout_seconds=60)

    if end is signal.SIGKILL:  # folders cannot end by themselves
        assert directory.exists()
        subprocess.run([sys.executable, "-m", "e2e.cluster.node", "down"], check=True)
    assert not directory.exists()
    assert list(CGROUPS.glob(f"*/weft-node-{directory.name}")) == []


def processes_about(directory: Path) -> int:
    """Processes whose command line names the node's folder, as those of every part of it do."""
    return sum(str(directory) in command_line(process) for process in Path("/proc").glob("[0-9]*"))


def command_line(process: Path) -> str:
    try:
        return (process / "cmdline").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def interface(directory: Path) -> Path:
    return Path("/sys/class/net") / f"weft-host-{directory.name}"
