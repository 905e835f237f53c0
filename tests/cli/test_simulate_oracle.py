"""`--policy oracle`: near what was asked, and never dearer than another policy that meets the SLO beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.cli.outcomes import Made
from tests.cli.terminal import listed, node, pool, weft, written
from weft.cli.simulate.oracle import does_as, no_dearer
from weft.cli.simulate.page import as_page
from weft.cli.simulate.report import Report
from weft.cli.telling.terminal import show
from weft.domain.workload import Slo

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from weft.twin.outcome import SimulationOutcome

EASY, HARD = Slo(ttft=((95, 60.0),)), Slo(ttft=((99, 0.001),))
BURSTS = "burst:rate=10,times=5,every=300,lasting=60,seconds=600,isl=1200,osl=250"


def outcome(policy: str, hours: float, *, meets: bool = True) -> SimulationOutcome:
    made = Made(policy, slo=EASY if meets else HARD).outcome()
    only = replace(made.pools[0], gpu_seconds=3600.0 * hours)
    return replace(made, pools=(only,))


def shown(*outcomes: SimulationOutcome) -> tuple[tuple[str, float], ...]:
    return tuple((each.policy, each.gpu_hours) for each in no_dearer(outcomes))


def test_bursts_shorter_than_a_start_cost_the_oracle_little_more_than_the_least(tmp_path: Path) -> None:
    """Replicas are ordered so that they are there, though starts take longer or shorter than the median."""
    file = written(tmp_path / "pool.yaml", pool(slo={"ttft": {"p95": "500ms"}, "tpot": {"p95": "30ms"}}))
    boards = written(tmp_path / "nodes.yaml", listed(*(node(f"board-{place}") for place in range(4))))
    where = ("-f", file, "--fabric", boards, "--trace", BURSTS, "--warm-up", "250")
    ending = weft("simulate", *where, "--policy", "oracle", "-o", "json")
    found: Any = json.loads(ending.out)
    assert found["slo_met"] is True
    assert found["gpu_hours"] < 1.6 * found["oracle_gpu_hours"]


def test_what_meets_the_slo_for_less_is_what_the_oracle_does() -> None:
    assert (("weft", 2.0), ("hpa", 3.0), ("oracle", 2.0)) == shown(
        outcome("weft", 2.0), outcome("hpa", 3.0), outcome("oracle", 2.5)
    )


def test_an_oracle_that_misses_the_slo_does_as_one_that_meets_it() -> None:
    assert (("oracle", 2.0), ("weft", 2.0)) == shown(outcome("oracle", 1.0, meets=False), outcome("weft", 2.0))


def test_a_cheap_miss_is_nothing_to_follow() -> None:
    assert (("weft", 1.0), ("oracle", 2.5)) == shown(outcome("weft", 1.0, meets=False), outcome("oracle", 2.5))
    assert (("weft", 1.0), ("oracle", 2.5)) == shown(
        outcome("weft", 1.0, meets=False), outcome("oracle", 2.5, meets=False)
    )


def test_whose_run_it_is_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    weft_, oracle = outcome("weft", 2.0), outcome("oracle", 2.5)
    assert does_as((weft_, oracle)) is None
    same = no_dearer((weft_, oracle))
    assert "weft" == does_as(same)
    show(*as_page(Report("InferencePool/chat", "day:rate=8", 3600.0, 7, same)))
    assert "oracle does as weft" in capsys.readouterr().out
