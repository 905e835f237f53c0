"""A command waits only for what it uses: Python loads nothing else before it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.terminal import node, pool, shell, written

if TYPE_CHECKING:
    from pathlib import Path

CLIENTS = {"aiohttp", "kopf", "kubernetes", "prometheus_api_client", "requests", "urllib3"}
READERS = {"pydantic", "yaml"}


def loaded(*arguments: str) -> set[str]:
    """Packages that Python loads for a command that succeeds."""
    ending = shell(*arguments, PYTHONPROFILEIMPORTTIME="1")
    assert ending.code == 0, ending.err
    lines = [line for line in ending.err.splitlines() if line.startswith("import time:")]
    found = {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}
    assert "weft" in found
    return found


def test_help_waits_for_no_client_and_no_parser() -> None:
    assert set() == loaded("--help") & (CLIENTS | READERS)


def test_a_plan_from_files_waits_for_no_client(tmp_path: Path) -> None:
    resources, nodes = written(tmp_path / "pool.yaml", pool()), written(tmp_path / "nodes.yaml", node("board-0"))
    found = loaded("plan", "-f", resources, "--fabric", nodes)
    assert found > READERS
    assert set() == found & CLIENTS


def test_a_fabric_from_a_file_waits_for_no_client(tmp_path: Path) -> None:
    found = loaded("fabric", "-f", written(tmp_path / "nodes.yaml", node("board-0")))
    assert set() == found & CLIENTS
