"""How long `make test` and `.ci/run` take in a fresh clone of what is committed.

With nothing cached: binaries of the cluster, images, Go's modules and builds and pip's wheels are all made anew, in a
folder that is removed afterwards (20 GB for `.ci/run`). Debian packages that are installed stay installed.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.commands import run
from bench.result import Result

REPOSITORY = Path(__file__).parents[1]
MINUTE_SECONDS = 60.0
OF_AN_OUTER_MAKE = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")


@dataclass(frozen=True, slots=True)
class Suite:
    """A command to be timed in a clone. `cached` takes the user's caches as they are."""

    name: str
    command: tuple[str, ...]
    cached: bool
    limit_seconds: float


TEST, CI = ("make", "test"), (".ci/run",)
SUITES = (
    Suite("test-cold", TEST, cached=False, limit_seconds=12 * MINUTE_SECONDS),
    Suite("test-cached", TEST, cached=True, limit_seconds=4 * MINUTE_SECONDS),
    Suite("ci-cold", CI, cached=False, limit_seconds=60 * MINUTE_SECONDS),
    Suite("ci-cached", CI, cached=True, limit_seconds=20 * MINUTE_SECONDS),
)


def measure(suite: Suite, repository: Path = REPOSITORY) -> tuple[Result, ...]:
    """Seconds of one run."""
    with TemporaryDirectory(prefix="weft-bench-") as folder:
        clone = Path(folder) / "weft"
        subprocess.run(["git", "clone", "--quiet", repository, clone], check=True)
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=clone, check=True, capture_output=True, text=True)
        environment = dict(os.environ) if suite.cached else without_caches(Path(folder) / "caches")
        ended = run(suite.command, clone, {k: v for k, v in environment.items() if k not in OF_AN_OUTER_MAKE})
    details: dict[str, float | str] = {"commit": commit.stdout.strip()[:12]}
    return (Result(suite.name, round(ended.seconds, 1), "s", suite.limit_seconds, details, ended.problem),)


def without_caches(folder: Path) -> dict[str, str]:
    """This environment, with an empty place for every cache."""
    places = {
        "WEFT_CACHE": "weft",
        "XDG_CACHE_HOME": "",
        "PIP_CACHE_DIR": "pip",
        "GOCACHE": "go-build",
        "GOMODCACHE": "go-modules",
    }
    inherited = {key: value for key, value in os.environ.items() if key != "KUBEBUILDER_ASSETS"}
    return {**inherited, **{key: str(folder / place) for key, place in places.items()}}
