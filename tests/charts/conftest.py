"""helm and kubectl, the real ones, as the tests call them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from e2e.cluster import build
from e2e.cluster.control_plane import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts" / "weft"
NAMESPACE = "weft-system"

Objects = dict[tuple[str, str, str], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Tools:
    """Paths of the two programs."""

    helm: Path
    kubectl: Path

    def render_chart(self, *settings: str) -> Objects:
        """Objects of `helm template` with `--set` options."""
        options = [word for setting in settings for word in ("--set", setting)]
        return keyed(self.run(self.helm, "template", "weft", CHART, "-n", NAMESPACE, *options))

    def render_manifests(self, folder: str | Path) -> Objects:
        """Objects of one kustomization."""
        return keyed(self.run(self.kubectl, "kustomize", "--load-restrictor=LoadRestrictionsNone", REPOSITORY / folder))

    @staticmethod
    def run(*words: str | Path) -> str:
        """Standard output of a command; its standard error is in the failure."""
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout


def keyed(text: str) -> Objects:
    """Objects by kind, namespace and name."""
    documents = [body for body in yaml.load_all(text, Loader=yaml.CSafeLoader) if body]
    return {(one["kind"], one["metadata"].get("namespace", ""), one["metadata"]["name"]): one for one in documents}


@pytest.fixture(scope="session", name="tools")
def _tools() -> Tools:
    return find_tools()


def find_tools() -> Tools:
    """Built once into the cache like every other binary."""
    try:
        found = build.ensure(["helm", "kubectl"])
    except build.BinariesMissingError as missing:
        pytest.skip(f"no helm: {missing}")
    return Tools(found["helm"], found["kubectl"])


@pytest.fixture
def private_control_plane() -> Iterator[ControlPlane]:
    """A cluster of its own: the chart is cluster-wide, and other tests use ours."""
    with ControlPlane.start() as cluster:
        yield cluster
