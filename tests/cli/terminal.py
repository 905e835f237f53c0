"""The command line as a shell sees it, and files to give it."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml
from typer.testing import CliRunner

from weft.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

Json = dict[str, Any]

# More than the limit of most tests: where others use the machine, a start takes as long as it has to.
LONGEST_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def complaints(self) -> list[str]:
        """The lines on stderr, besides what takes long enough to be named: `weft: planning ...`."""
        return [line for line in self.err.splitlines() if not line.endswith(" ...")]

    @property
    def sentence(self) -> str:
        """The one complaint."""
        lines = self.complaints
        assert len(lines) == 1, self.err
        assert lines[0].startswith("weft: ")
        return lines[0]


def weft(*arguments: str, stdin: str | bytes | None = None) -> Ending:
    """Run a command in this process: no start-up to wait for."""
    result = CliRunner().invoke(app, list(arguments), input=stdin, prog_name="weft")
    return Ending(result.exit_code, result.stdout, result.stderr)


def shell(*arguments: str, **environment: str) -> Ending:
    """Run a command in a process of its own, as a shell does."""
    done = subprocess.run(
        [sys.executable, "-m", "weft.cli", *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_SECONDS,
    )
    return Ending(done.returncode, done.stdout, done.stderr)


def pool(name: str = "chat", model: str = "meta-llama/Llama-3.1-8B-Instruct", **spec: object) -> Json:
    """An InferencePool; `spec` adds fields."""
    return {
        "apiVersion": "weft.dev/v1alpha1",
        "kind": "InferencePool",
        "metadata": {"name": name},
        "spec": {
            "model": {"id": model},
            "workload": {"requestsPerSecond": 4, "inputTokens": {"mean": 1000}, "outputTokens": {"mean": 200}},
            **spec,
        },
    }


def split(name: str = "reasoner") -> Json:
    """A PDSplit of a small model."""
    return {**pool(name), "kind": "PDSplit"}


def half(name: str, of: str) -> Json:
    """A pool as a cluster lists it beside the split that it is a half of."""
    body = pool(name, role="Decode")
    owner = {"apiVersion": body["apiVersion"], "kind": "PDSplit", "name": of, "uid": "u-1", "controller": True}
    return {**body, "metadata": {"name": name, "ownerReferences": [owner]}}


def node(name: str, product: str = "NVIDIA-H200", gpus: int = 8, clique: str | None = None) -> Json:
    """A Node as kubectl prints it."""
    found = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.product": product,
        **({"nvidia.com/gpu.clique": clique} if clique else {}),
    }
    devices = {"nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": found},
        "spec": {},
        "status": {
            "capacity": devices,
            "allocatable": devices,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name: str, node_name: str, gpus: int) -> Json:
    """Somebody's pod that holds GPUs."""
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"nodeName": node_name, "containers": [{"name": "main", "resources": limits}]},
        "status": {"phase": "Running"},
    }


def listed(*items: Json) -> Json:
    """What `kubectl get ... -o yaml` prints for several objects."""
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def written(path: Path, *documents: Json) -> str:
    """A YAML file of some documents."""
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return str(path)
