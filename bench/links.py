"""`python -m bench.links`: what a split over TCP makes of its links on the twin, as ADR 0091 tells it, in a minute.

Llama 70B on H200, on racks of GB200, and on both, with no devices for RDMA: each GPU has a link of 1.4 GB/s. Prompts of
1,000 tokens come in a day, a step and bursts, and those of 4,000 that are declared. `of hindsight` is GPU-hours over
those of the oracle.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

Json = dict[str, Any]
WARM_UP_SECONDS, LIMIT_SECONDS = 900, 600
START_UP_SECONDS = "110"  # of every run, as what is compared is the path between the halves
BOARDS, RACKS, TRAYS = 32, 4, 18
COLUMNS = ("fabric", "trace", "requests", "within the SLO %", "GPU-hours", "of hindsight", "TTFT p95 s", "TPOT p95 ms")
_CLIQUE = "7b968a6d-c8aa-45e1-9e07-e1e51be99c3"


class Run(NamedTuple):
    """A fabric and what comes."""

    fabric: str
    trace: str


RUNS = (
    Run("H200", "day:rate=10,peak=2,seconds=10800"),
    Run("GB200", "step:from=3,to=25,at=2400,seconds=7200"),
    Run("both", "burst:rate=8,times=3,every=1200,lasting=300,seconds=7200"),
    Run("H200", "poisson:rate=10,seconds=5400,isl=4000,osl=300"),
    Run("GB200", "step:from=2,to=10,at=2400,seconds=7200,isl=4000,osl=300"),
)
SPLIT: Json = {
    "apiVersion": "weft.dev/v1alpha1",
    "kind": "PDSplit",
    "metadata": {"name": "s70"},
    "spec": {
        "model": {
            "id": "meta-llama/Llama-3.3-70B-Instruct",
            "source": {"huggingFace": {"repository": "meta-llama/Llama-3.3-70B-Instruct"}},
        },
        "workload": {
            "requestsPerSecond": 10,
            "inputTokens": {"mean": 4000, "p95": 12000},
            "outputTokens": {"mean": 300, "p95": 900},
        },
        "slo": {"ttft": {"p95": "2s"}, "tpot": {"p95": "40ms"}},
    },
}


def fabric(name: str) -> Json:
    """The nodes: boards of eight H200, or racks of 72 GB200, or both."""
    boards = [_node(f"b{at:02}", "NVIDIA-H200", 8, {}) for at in range(BOARDS)]
    trays = [
        _node(f"r{rack}-t{at:02}", "NVIDIA-GB200", 4, {"nvidia.com/gpu.clique": f"{_CLIQUE}{rack}.1"})
        for rack in range(RACKS)
        for at in range(TRAYS)
    ]
    nodes = {"H200": boards, "GB200": trays, "both": [*boards, *trays]}[name]
    return {"apiVersion": "v1", "kind": "List", "items": nodes}


def _node(name: str, product: str, gpus: int, labels: dict[str, str]) -> Json:
    has = {"nvidia.com/gpu": str(gpus), "cpu": "128", "memory": "2000Gi", "pods": "110"}
    told = {"topology.kubernetes.io/zone": "a", "nvidia.com/gpu.product": product, **labels}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"capacity": has, "allocatable": has, "conditions": ready}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": told}, "status": status}


def simulated(run: Run, folder: Path) -> Json:
    """What `weft simulate` says of one run; raises `CalledProcessError` where it ends in failure."""
    files = {"-f": SPLIT, "--fabric": fabric(run.fabric)}
    wishes = []
    for place, (option, document) in enumerate(files.items()):
        path = folder / f"{run.fabric}-{place}.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        wishes += [option, str(path)]
    wishes += ["--trace", run.trace, "--warm-up", str(WARM_UP_SECONDS), "--start-up", START_UP_SECONDS, "-o", "json"]
    command = [sys.executable, "-m", "weft.cli", "simulate", *wishes]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=LIMIT_SECONDS, text=True)
    answer = json.loads(ended.stdout)
    found: Json = answer[0] if isinstance(answer, list) else answer
    return found


def row(run: Run, answer: Json) -> tuple[str, ...]:
    """One line of the table."""
    hours, least = answer["gpu_hours"], answer["oracle_gpu_hours"]
    figures = (
        f"{answer['requests']:,}",
        f"{100.0 * answer['slo_attainment']:.1f}",
        f"{hours:.1f}",
        f"{hours / least:.2f}",
        f"{answer['ttft_seconds']['p95']:.2f}",
        f"{1000.0 * answer['tpot_seconds']['p95']:.0f}",
    )
    return run.fabric, run.trace, *figures


def main() -> int:
    """Print the table."""
    table = Table(title="A split over TCP on the twin", title_justify="left", box=None)
    for place, column in enumerate(COLUMNS):
        table.add_column(column, justify="left" if place < len(Run._fields) else "right")
    with tempfile.TemporaryDirectory() as folder:
        for run in RUNS:
            table.add_row(*row(run, simulated(run, Path(folder))))
    Console(width=200).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
