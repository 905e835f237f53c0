"""A constant load on the twin, with engines that calibrate what capacity rests on: it settles within an hour."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.terminal import pool, weft, written

if TYPE_CHECKING:
    from pathlib import Path


def simulated(folder: Path, tpot: str, declared: int, trace: str) -> Any:  # noqa: ANN401 - JSON
    """Weft's answer to a trace, on L40S whose time per token is 22 ms when they are idle."""
    body = pool(model="meta-llama/Llama-3.1-8B-Instruct")
    body["spec"] |= {
        "slo": {"ttft": {"p95": "500ms"}, "tpot": {"p95": tpot}},
        "scaling": {"minReplicas": 1, "maxReplicas": 40},
        "workload": {
            "requestsPerSecond": declared,
            "inputTokens": {"mean": 1200, "p95": 4000},
            "outputTokens": {"mean": 250, "p95": 800},
            "prefixHitPercent": 30,
        },
    }
    file = written(folder / "chat.yaml", body)
    ending = weft("simulate", "-f", file, "--fabric", "12xL40S", "--trace", trace, "--start-up", "110", "-o", "json")
    assert ending.code == 0, ending.err
    return json.loads(ending.out)


def test_a_load_that_begins_is_not_taken_for_twice_as_much(tmp_path: Path) -> None:
    """A first measurement halves the work of a request, as capacity grows for present lengths alone: 12 were wanted."""
    found = simulated(tmp_path, "60ms", 12, "poisson:rate=12,seconds=240,isl=1200,osl=250")
    assert found["pools"][0]["most_replicas_wanted"] <= 9


@pytest.mark.timeout(600)
def test_a_constant_load_next_to_a_target_changes_its_count_once_at_most_after_an_hour(tmp_path: Path) -> None:
    """Where a step of 5 % of lengths, or of 2 % of a factor, is 15 % of capacity; with others of chance, up to two."""
    found = simulated(tmp_path, "30ms", 20, "poisson:rate=4,seconds=6000,isl=1200,osl=250")
    assert len([each for each in found["reasons"] if each["at_seconds"] > 3600.0]) <= 1
