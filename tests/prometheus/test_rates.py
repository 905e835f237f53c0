"""What Prometheus itself makes of the query for the traffic of earlier days: each request once, whoever scraped it."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from e2e.cluster.prometheus import PrometheusMissingError, require_prometheus
from weft.observe.sources.prometheus import rate_of_all

if TYPE_CHECKING:
    from pathlib import Path

COUNTER = "vllm:request_success_total"
OTHER_NAME = "vllm_request_success_total"
A_SECOND = 2.0


def counted(name: str = COUNTER, pod: str = "chat-0a1b2-0-0", **labels: str) -> str:
    """A series that grows by two a second."""
    tags = {"namespace": "team", "pod": pod, "job": "pods", "instance": "10.0.0.1:8000", "engine": "0", **labels}
    return f"{name}{{{','.join(f'{key}={json.dumps(text)}' for key, text in tags.items())}}}"


@pytest.mark.parametrize(
    ("series", "times"),
    [
        ([counted()], 1),
        ([counted(finished_reason="stop"), counted(finished_reason="length")], 2),
        ([counted(), counted(pod="chat-0a1b2-1-0")], 2),
        ([counted(), counted(job="by-annotation", app="chat")], 1),
        ([counted(prometheus_replica="a"), counted(prometheus_replica="b")], 1),
        ([counted(), counted(job="by-annotation"), counted(pod="chat-0a1b2-1-0")], 2),
        ([counted(), counted(instance="10.0.0.1:8001", engine="1")], 2),
        ([counted(OTHER_NAME)], 1),
        ([counted(), counted(pod="search-0a1b2-0-0")], 1),
    ],
    ids=[
        "one",
        "two reasons",
        "two pods",
        "two jobs",
        "two servers",
        "two jobs of one of two pods",
        "two ranks at ports of their own",
        "underscores",
        "another pool",
    ],
)
def test_each_request_is_counted_once(tmp_path: Path, series: list[str], times: int) -> None:
    try:
        require_prometheus()
    except PrometheusMissingError as missing:
        pytest.skip(str(missing))
    expected = [{"labels": "{}", "value": A_SECOND * times}]
    query = {"expr": rate_of_all("team", "chat", (COUNTER,), 300.0), "eval_time": "10m", "exp_samples": expected}
    growth = f"0+{30 * A_SECOND:g}x40"
    told = [{"series": each, "values": growth} for each in series]
    test = {"interval": "30s", "input_series": told, "promql_expr_test": [query]}
    written = tmp_path / "rates.yaml"
    written.write_text(yaml.safe_dump({"evaluation_interval": "30s", "tests": [test]}))
    ran = subprocess.run(("promtool", "test", "rules", str(written)), check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
