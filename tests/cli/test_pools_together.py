"""What `weft plan` and `weft simulate` say of a pool behind a router of Weft's: its replicas carry more together."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.terminal import pool, weft, written

if TYPE_CHECKING:
    from pathlib import Path

RATE = 60


def file(folder: Path, router: str) -> str:
    """A pool whose answers long prompts hold up, without headroom."""
    body = pool()
    body["spec"] |= {
        "workload": {
            "requestsPerSecond": RATE,
            "inputTokens": {"mean": 12000, "p95": 24000},
            "outputTokens": {"mean": 200},
        },
        "slo": {"tpot": {"p95": "40ms"}},
        "shape": {"tensorParallel": 1},
        "placement": {"accelerators": ["H100"]},
        "router": {"type": router},
        "scaling": {"maxReplicas": 200, "headroomPercent": 0},
    }
    return written(folder / f"{router}.yaml", body)


def planned(folder: Path, router: str) -> dict[str, Any]:
    (found,) = json.loads(weft("plan", "-f", file(folder, router), "-o", "json").out)
    (only,) = found["pools"]
    return dict(only)


def test_fewer_run_and_each_gets_its_part_of_the_rate(tmp_path: Path) -> None:
    apart, together = (planned(tmp_path, router)["study"] for router in ("None", "Managed"))
    assert together["bill"]["replicas"] < apart["bill"]["replicas"]
    assert together["ratePerReplica"] * together["bill"]["replicas"] == pytest.approx(RATE)


def test_what_each_serves_is_told_alone_and_beside_the_others(tmp_path: Path) -> None:
    said = " ".join(weft("plan", "-f", file(tmp_path, "Managed")).out.split())
    found = re.search(r"capacity ([\d.]+) requests/s alone, each of (\d+) behind their router ([\d.]+)", said)
    assert found is not None
    assert float(found[3]) > float(found[1])
    assert float(found[3]) * int(found[2]) >= 0.99 * RATE
    assert "behind their router" not in weft("plan", "-f", file(tmp_path, "None")).out


def test_a_rule_that_counts_by_the_model_counts_on_the_same(tmp_path: Path) -> None:
    """`static` runs what the busiest minute needs, all the time."""
    hours = []
    for router in ("None", "Managed"):
        asked = (
            "simulate",
            "-f",
            file(tmp_path, router),
            "--trace",
            f"poisson:rate={RATE},seconds=60,isl=12000,osl=200",
            "--policy",
            "static",
        )
        hours.append(json.loads(weft(*asked, "-o", "json").out)["gpu_hours"])
    assert hours[1] < hours[0]
