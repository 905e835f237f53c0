"""What `weft plan` says of prefill halves that share a queue: as many as run serve what they are planned for."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.cli.terminal import split, weft, written

if TYPE_CHECKING:
    from pathlib import Path

RATE = 40


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A split whose first tokens are due soon after what an idle replica takes, without headroom."""
    body = split()
    body["spec"] |= {
        "workload": {
            "requestsPerSecond": RATE,
            "inputTokens": {"mean": 4000, "p95": 6000},
            "outputTokens": {"mean": 300},
        },
        "slo": {"ttft": {"p95": "400ms"}, "tpot": {"p95": "40ms"}},
        "shape": {"tensorParallel": 1},
        "placement": {"accelerators": ["H100"]},
        "engine": {"name": "VLLM", "resources": {"rdma": {"resource": "rdma/ib", "count": 1}}},
        "scaling": {"maxReplicas": 64, "headroomPercent": 0},
    }
    return written(tmp_path / "split.yaml", body)


def test_no_replica_is_said_to_be_missing_where_they_carry_more_together(file: str) -> None:
    ending = weft("plan", "-f", file)
    said = " ".join(ending.out.split())
    assert "behind their router" in said
    assert "they serve" not in said


def test_each_gets_its_part_of_the_rate(file: str) -> None:
    (planned,) = json.loads(weft("plan", "-f", file, "-o", "json").out)
    prefill = planned["pools"][0]
    alone, study = prefill["plan"]["capacityRequestsPerSecond"], prefill["study"]
    assert study["bill"]["replicas"] * alone < 0.95 * RATE
    assert study["ratePerReplica"] * study["bill"]["replicas"] == pytest.approx(RATE)


def test_what_each_serves_is_told_alone_and_beside_the_others(file: str) -> None:
    (planned,) = json.loads(weft("plan", "-f", file, "-o", "json").out)
    alone = planned["pools"][0]["plan"]["capacityRequestsPerSecond"]
    replicas = planned["pools"][0]["study"]["bill"]["replicas"]
    said = " ".join(weft("plan", "-f", file).out.split())
    found = re.search(rf"capacity ([\d.]+) requests/s alone, each of {replicas} behind their router ([\d.]+)", said)
    assert found is not None
    assert float(found[1]) == pytest.approx(alone, rel=0.01)
    assert float(found[2]) * replicas >= 0.99 * RATE
