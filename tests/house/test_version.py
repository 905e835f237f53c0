"""One version, in `weft.__version__`; all else says the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from weft import __version__

REPOSITORY = Path(__file__).parents[2]


def text(path: str) -> str:
    return (REPOSITORY / path).read_text()


def test_the_package_is_built_as_that_version() -> None:
    command = [sys.executable, "-m", "hatchling", "version"]
    built = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=50)
    assert __version__ == built.stdout.strip()


def test_the_chart_installs_that_version() -> None:
    assert __version__ == yaml.safe_load(text("charts/weft/Chart.yaml"))["appVersion"]


def test_the_manifests_and_the_words_about_images_name_that_version() -> None:
    for path in ("manifests/operator/deployment.yaml", "Dockerfile", "README.md"):
        assert f"/weft:{__version__}" in text(path), path
