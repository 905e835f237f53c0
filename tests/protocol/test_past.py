"""`weft run --prometheus-url` looks for the days of pools that it knows nothing of, beside everything else."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

from e2e.cluster.waiting import eventually
from tests.cli.terminal import weft
from tests.observe.every_day_the_same import EveryDayTheSame, listening
from tests.protocol.scripted_server import ScriptedServer
from tests.protocol.test_moves_option import Cluster, operator, two_halves

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def pools_asked_about() -> set[str]:
    return {name for name in ("first", "second") for each in EveryDayTheSame.asked if f'"{name}-' in each["query"]}


def knows_the_past(records: Path) -> bool:
    """Whether the latest record has the days of both."""
    latest = max(records.glob("pass-*.json.gz"), default=None)
    known = json.loads(gzip.decompress(latest.read_bytes()))["snapshot"].get("pasts", {}) if latest is not None else {}
    return known.keys() >= {"uid-first", "uid-second"}


def test_each_pool_is_asked_about_while_decisions_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found is in the records of decisions, which are replayed as they were."""
    monkeypatch.setattr(EveryDayTheSame, "asked", [])
    records = tmp_path / "records"
    with (
        ScriptedServer() as server,
        listening() as url,
        operator(Cluster(server, two_halves()), tmp_path, f"--prometheus-url={url}", f"--record={records}"),
    ):
        eventually(lambda: pools_asked_about() == {"first", "second"}, "Prometheus is asked", timeout_seconds=60)
        eventually(lambda: knows_the_past(records), "decisions know of it")
    assert len(EveryDayTheSame.asked) <= 3  # `large` may have its engine by then; nobody is asked about twice
    replayed = weft("replay", str(records))
    assert (0, "") == (replayed.code, replayed.err)
    assert "replayed, all decided as recorded" in replayed.out
