"""Everything that a scrape tells of one pass: names, types, help, labels and values, in a golden file.

`WEFT_GOLDEN=write` writes the file anew, for changes that are meant.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tests.control.test_traffic_gauges import SEEN
from tests.decide.world import pool, pool_spec
from tests.monitoring.operating import operating
from weft.control.metrics.telemetry import Telemetry
from weft.domain.pool_memory import Outlier, Outliers
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import Calibration
from weft.domain.snapshot import Caveat
from weft.domain.status import Condition
from weft.domain.workload import Slo

if TYPE_CHECKING:
    from weft.domain.decision import Decisions
    from weft.domain.snapshot import Snapshot

GOLDEN = Path(__file__).parent / "golden" / "exposition.txt"
OF_TIME = ("weft_decision_seconds", "weft_snapshot_age", "weft_loop_lag")  # and each `_created`


def everything() -> tuple[Snapshot, Decisions]:
    """A pass in which every gauge of pools, splits and the fabric has a value, and some have what must stay absent."""
    snapshot, decisions = operating()
    stalled = (
        Condition("Ready", "False", Explanation(Reason.FrontNotAuthorized, "no account")),
        Condition("Stalled", "True", Explanation(Reason.PodRefused, "no")),
        Condition("Placed", "False", Explanation(Reason.NoSlot, "as the status had it before this decision")),
    )
    leaving = pool("leaving", replace(pool_spec(1), slo=Slo(ttft=((50, 0.5),))))
    odd = (*SEEN.caveats, *SEEN.caveats, Caveat('says "x" \\ and\nmore', "tpot"))
    traffic = replace(SEEN, ttft=((50, 0.2), (95, 0.3)), transfer_seconds=0.01, arrivals_at_front=False, caveats=odd)
    learning = decisions.memory["uid-chat"].calibration
    assert learning is not None
    factors = Calibration(1.1234567, 0.9, 3, ttft_tail=1.5, tpot_tail=None)
    named = [(2, Reason.SlowerThanSiblings), (3, Reason.CutOffFromPrefill)]
    found = tuple(Outlier(replica, f"chat-{replica}-0", 800.0, 1.75, 1000.0, why=why) for replica, why in named)
    learnt = replace(
        decisions.memory["uid-chat"], calibration=replace(learning, factors=factors), outliers=Outliers(1000.0, found)
    )
    seen = snapshot.observations | dict.fromkeys(("uid-pd-prefill", "uid-pd-decode", "uid-leaving"), traffic)
    return (
        replace(
            snapshot,
            pools=(*snapshot.pools, replace(leaving, deleting=True, conditions=stalled)),
            splits=tuple(replace(each, conditions=stalled) for each in snapshot.splits),
            observations=seen,
        ),
        replace(
            decisions,
            memory={**decisions.memory, "uid-chat": learnt},
            notes=(Explanation(Reason.LabelsContradict, "a"), Explanation(Reason.LabelsContradict, "b")),
        ),
    )


def told(telemetry: Telemetry) -> list[str]:
    """The page's lines, sorted, without what is of the time of the day."""
    lines = telemetry.text().decode().splitlines()
    return sorted(line for line in lines if not any(name in line for name in OF_TIME) and "_created" not in line)


def test_a_scrape_tells_all_of_a_pass_as_it_is_recorded() -> None:
    telemetry = Telemetry()
    telemetry.show(*everything())
    if os.environ.get("WEFT_GOLDEN") == "write":
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text("".join(f"{line}\n" for line in told(telemetry)), encoding="utf-8")
    assert GOLDEN.read_text(encoding="utf-8").splitlines() == told(telemetry)


def test_no_gauge_of_a_pass_is_missing_from_the_recorded_page() -> None:
    """A gauge without a value there could change unseen."""
    families = text_string_to_metric_families(GOLDEN.read_text(encoding="utf-8"))
    of_a_pass = ("weft_pool_", "weft_split_", "weft_fabric_", "weft_calibration")
    shown = {name for name in _types() if name.startswith(of_a_pass)}
    assert shown == {
        sample.name for family in families for sample in family.samples if sample.name.startswith(of_a_pass)
    }


def _types() -> set[str]:
    return {line.split()[2] for line in Telemetry().text().decode().splitlines() if line.startswith("# TYPE")}
