"""`python -m bench.converge_pods`: how long 1,000 pods take on the real API server, 250 replicas of four pods each.

One embedded control plane with 1,134 simulated nodes. The operator runs twice: with a limit of 200 writes per second
that lets nothing through at once, and with the limits that it has by default. Some minutes; prints one JSON document.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import Any

from bench.machine import this_machine
from bench.scheduler import USUAL, say
from bench.scheduler_bench import stage
from bench.scheduler_bench.demand import TRAYS_PER_RACK, Scenario
from bench.scheduler_bench.runs import Case, Limit, run
from e2e.cluster.presets import nvl72_rack

SCENARIO = Scenario("thousand", "250 replicas of 4 pods", (4,) * 250)
RACKS = 63  # four replicas of four trays fit into one of 18
STEADY = Limit(200, 1)
AIM_SECONDS = 20.0  # under the first of the limits: a pod takes two writes, so that ten seconds are the least
FIGURES = ("decided_after_seconds", "all_created_seconds", "all_bound_seconds", "all_ready_seconds")
COUNTS = ("pods_created", "writes", "writes_per_pod", "placed", "gangs")


def measure() -> list[dict[str, Any]]:
    """A row for each limit."""
    nodes = [tray for rack in range(RACKS) for tray in nvl72_rack(f"rack-{rack:02}", trays=TRAYS_PER_RACK)]
    rows = []
    say(f"starting a control plane with {len(nodes)} simulated nodes")
    with stage.cluster(nodes) as cluster:
        for number, limit in enumerate((STEADY, USUAL), 1):
            load = round(os.getloadavg()[0], 2)
            row = run(cluster, Case(SCENARIO, "weft", limit), f"thousand-{number}")
            rows.append({**asdict(limit), **{name: row[name] for name in (*FIGURES, *COUNTS)}, "load_before": load})
            say(summary(rows[-1]))
    return rows


def summary(row: dict[str, Any]) -> str:
    """One line about a row."""
    told = ", ".join(f"{name.removesuffix('_seconds').replace('_', ' ')} {row[name]} s" for name in FIGURES)
    return f"{row['per_second']} writes/s, burst {row['burst']}: {told}; {row['writes_per_pod']} writes a pod"


if __name__ == "__main__":
    print(json.dumps({"machine": asdict(this_machine()), "aim_seconds": AIM_SECONDS, "rows": measure()}, indent=2))
