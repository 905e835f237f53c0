"""A command waits only for what it uses: Python loads nothing else before it answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.cli.terminal import LONGEST_SECONDS, node, pool, shell, written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# In processor time, and by what is loaded: of the wall's clock nothing is asked, which others make ten times as long.
pytestmark = pytest.mark.timeout(300)

MOST_STARTS = 40
YARDS_PER_SECOND = 20_000  # where a yard of `tests/yardstick` takes 50 microseconds
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


TIMED = """
import time
from functools import partial
from tests.yardstick import _seconds, _yards
row = partial(_seconds, partial(_yards, {yards}), time.process_time)
before = row()
start = time.process_time()
import {modules}
spent = time.process_time() - start
print(spent / min(before, row()))
"""
TO_BEGIN = "weft.cli.main, weft.cli.files.reading, weft.cli.cluster.world, weft.cli.plan.planning"
TO_ANSWER = f"{TO_BEGIN}, weft.catalog, weft.decide, weft.cli.plan.page"


@pytest.mark.parametrize(
    ("modules", "seconds"),
    [
        ("weft.cli.main", 0.15),
        (TO_BEGIN, 0.3),
        (TO_ANSWER, 0.6),
    ],
    ids=["to understand the command", "to begin to plan", "to answer"],
)
def test_what_is_loaded_is_loaded_quickly(compiled: Path, modules: str, seconds: float) -> None:
    """Processor time in a fresh interpreter, until one start is that quick, against as many yards just around it.

    Others use the machine: a single yard finds a quiet moment, and neither a whole start nor a row as long does. The
    core is loaded once the input is understood, so that what is wrong by itself is told before.
    """
    code = TIMED.format(modules=modules, yards=round(seconds * YARDS_PER_SECOND))
    starts = (float(printed(code, cache=compiled)) for _ in range(MOST_STARTS))
    assert min(until_one_is_below(1.0, starts)) < 1.0


def until_one_is_below(limit: float, values: Iterator[float]) -> Iterator[float]:
    for value in values:
        yield value
        if value < limit:
            return


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where bytecode is kept, which an installed package has and a checkout may be told not to have."""
    return tmp_path_factory.mktemp("bytecode")


def printed(code: str, *arguments: str, cache: Path) -> str:
    """What a fresh interpreter prints."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**environment, "PYTHONPYCACHEPREFIX": str(cache)},
        capture_output=True,
        text=True,
        check=True,
        timeout=LONGEST_SECONDS,
    ).stdout


SEARCHED = f"""
import gc, weft.cli
searches = []
gc.callbacks.append(lambda phase, _: searches.append(phase))
import {TO_ANSWER}
print(searches)
"""


def test_cyclic_garbage_is_not_searched_for_while_what_plans_is_loaded(compiled: Path) -> None:
    assert "[]\n" == printed(SEARCHED, cache=compiled)


OPERATING = """
import gc
from weft.cli.ends.failure import CommandFailure
from weft.cli.main import run
of_commands = gc.get_threshold()
try:
    run(kubeconfig="/nowhere")
except CommandFailure:
    print(gc.get_threshold() < of_commands)
"""


def test_an_operator_keeps_less_garbage_than_a_command(compiled: Path) -> None:
    assert "True\n" == printed(OPERATING, cache=compiled)


TRACED = """
import json, sys, tracemalloc
tracemalloc.start()
from weft.catalog import load
from weft.cli.files.reading import load_documents
from weft.cli.plan.planning import plan_all
from weft.cli.cluster.world import world_of_file
import weft.cli.main, weft.decide
documents, world, catalog = load_documents(sys.argv[1]), world_of_file(sys.argv[2]), load()
tracemalloc.reset_peak()
before, _ = tracemalloc.get_traced_memory()
(planned,) = plan_all(documents, world, catalog, 0.0)
_, peak = tracemalloc.get_traced_memory()
shape = planned.pools[0][1].status.plan.shape
print(json.dumps([shape.accelerator, shape.gpus, before, peak]))
"""


def test_a_large_model_on_a_whole_rack_is_planned_in_little_memory(tmp_path: Path, compiled: Path) -> None:
    """A mixture of 671 billion parameters on 72 GPUs: under 100 MB with all that Python has loaded, 5 MB of it new."""
    rack = [node(f"tray-{tray:02d}", "NVIDIA-GB200", gpus=4, clique="rack.0") for tray in range(18)]
    files = written(tmp_path / "pool.yaml", pool(model="deepseek-ai/DeepSeek-V3")), written(tmp_path / "rack", *rack)
    accelerator, gpus, before, peak = json.loads(printed(TRACED, *files, cache=compiled))
    assert accelerator == "GB200"
    assert 4 <= gpus <= 72
    assert peak < 100e6
    assert peak - before < 5e6
