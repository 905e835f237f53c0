"""`python -m e2e.cluster` gives a person a cluster that stays until it is taken down."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from e2e.cluster import build
from e2e.cluster.processes import ProcessIdentity
from e2e.cluster.waiting import eventually
from tests.cluster.conftest import NEEDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.apiserver, pytest.mark.timeout(400)]  # two starts, of a minute each on a busy machine
REPOSITORY = Path(__file__).parents[2]


class Shell:
    """A person's shell whose cache is empty but for the binaries."""

    def __init__(self, cache: Path, assets: Path) -> None:
        self.state = cache / "clusters" / "default"
        self._environment = {**os.environ, "WEFT_CACHE": str(cache), "KUBEBUILDER_ASSETS": str(assets)}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "e2e.cluster", *arguments]
        return subprocess.run(
            command, cwd=REPOSITORY, env=self._environment, capture_output=True, text=True, check=False
        )

    def kubectl(self, *arguments: str) -> str:
        kubectl = build.ensure(["kubectl"])["kubectl"]
        command = [str(kubectl), "--kubeconfig", str(self.state / "kubeconfig"), *arguments]
        return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def shell(binaries: None, tmp_path: Path) -> Iterator[Shell]:
    assets = tmp_path / "assets"
    assets.mkdir()
    for name, path in build.ensure(NEEDED).items():
        (assets / name).symlink_to(path)
    shell = Shell(tmp_path / "cache", assets)
    yield shell
    shell.run("down")


def test_a_cluster_goes_up_once_and_down(shell: Shell) -> None:
    assert shell.run("status").returncode == 1
    first = shell.run("up", "--h200=1", "--racks=0", "--plain=0")
    assert first.returncode == 0, first.stderr
    assert f"export KUBECONFIG={shell.state / 'kubeconfig'}" in first.stdout
    assert "node/h200-0" in shell.kubectl("get", "nodes", "-o", "name")
    holder = ProcessIdentity.read(shell.state / "holder")
    assert first.stdout == shell.run("up").stdout
    assert holder == ProcessIdentity.read(shell.state / "holder")
    assert shell.run("status").returncode == 0
    assert shell.run("down").returncode == 0
    assert holder is not None
    assert not holder.alive
    assert not list(shell.state.iterdir())
    assert shell.run("down").stdout == "no cluster runs\n"


def test_what_it_prints_installs_the_resources_and_an_example(shell: Shell) -> None:
    """Who has never seen Weft needs no other page to get there, and none to end it."""
    printed = shell.run("up", "--h200=1", "--racks=0", "--plain=0").stdout
    for command in re.findall(r"kubectl (apply -k .*?)(?: +#.*)?$", printed, re.MULTILINE):
        shell.kubectl(*command.split())
    shell.kubectl("wait", "--for=condition=Established", "crd", "--all")
    for command in re.findall(r"kubectl (apply -f .*?)(?: +#.*)?$", printed, re.MULTILINE):
        shell.kubectl(*command.split())
    assert "inferencepool.weft.dev/coding-agent\n" == shell.kubectl("get", "inferencepools.weft.dev", "-o", "name")
    assert re.search(r"^cluster-down:", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert "stop it with: make cluster-down" in printed


def test_down_cleans_up_after_a_crash_and_up_starts_anew(shell: Shell) -> None:
    shell.run("up", "--h200=1", "--racks=0", "--plain=0")
    crashed = ProcessIdentity.read(shell.state / "holder")
    assert crashed is not None
    os.kill(crashed.pid, signal.SIGKILL)
    eventually(_ended(crashed), "the holder is dead")
    assert shell.run("down").returncode == 0
    assert not list(shell.state.iterdir())
    again = shell.run("up", "--h200=1", "--racks=0", "--plain=0")
    assert again.returncode == 0, again.stderr


def _ended(process: ProcessIdentity) -> Callable[[], bool]:
    return lambda: not process.alive
