"""Requests at the very beginning of a trace find what stands by then, as those a moment later do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.simulated import ROWS, data
from tests.cli.terminal import listed, node, pool, written

if TYPE_CHECKING:
    from pathlib import Path

REQUESTS = 60


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool of which three replicas stand as declared."""
    monkeypatch.chdir(tmp_path)
    load = {"requestsPerSecond": 40, "inputTokens": {"mean": 1000}, "outputTokens": {"mean": 200}}
    written(tmp_path / "pool.yaml", pool(workload=load, slo={"ttft": {"p95": "500ms"}, "tpot": {"p95": "30ms"}}))
    written(tmp_path / "nodes.yaml", listed(node("board-0")))


def at(seconds: float, policy: str, tmp_path: Path) -> Any:  # noqa: ANN401 - JSON
    """The result for so many requests at once, and one a second after them."""
    rows = [f"{seconds},1000,200"] * REQUESTS + [f"{second},1000,200" for second in range(1, 30)]
    (tmp_path / "trace.csv").write_text(ROWS + "\n".join(rows) + "\n")
    found = data("--policy", policy, "--retries", "0", trace="trace.csv")
    return found[0] if isinstance(found, list) else found


@pytest.mark.parametrize("policy", ["static", "weft"])
def test_a_batch_at_0_is_served_as_one_a_moment_later(policy: str, tmp_path: Path) -> None:
    """A fleet that shrank before the trace lost them all; one that did not gave them all to one replica."""
    first, later = (at(seconds, policy, tmp_path) for seconds in (0.0, 0.001))
    assert (first["failed"], later["failed"]) == (0, 0)
    assert first["slo_attainment"] == pytest.approx(later["slo_attainment"])
    assert first["ttft_seconds"]["p95"] == pytest.approx(later["ttft_seconds"]["p95"], rel=0.01)
