"""The benchmark on the real scheduler: what counts as wedged, as a write, as placed, and what the page makes of it."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from bench import scheduler
from bench.scheduler_bench import demand, plain, pools
from bench.scheduler_bench.counting import Write, writes
from bench.scheduler_bench.page import aims, as_page
from bench.scheduler_bench.plot import as_svg
from bench.scheduler_bench.runs import Case, Limit, Seen, row
from bench.scheduler_bench.sightings import Gang, Sighting, gangs_of, placed, placed_trays, serving
from bench.scheduler_bench.trouble import victims
from bench.scheduler_bench.watching import take_in
from weft.api.parsing import parse_pool

if TYPE_CHECKING:
    from pathlib import Path

PAIR = demand.Scenario("pairs", "one pair", (2,))
WIDE = Limit(200, 400)


def gang(*pods: Sighting, size: int = 2) -> Gang:
    return Gang("g", size, pods)


def pod(bound: float | None, leaving: float | None = None, *, ready: float | None = None) -> Sighting:
    return Sighting("g", 2, bound, ready, leaving, is_ready=ready is not None)


class TestWedged:
    """Some pods bound for over a minute, the rest not."""

    @pytest.mark.parametrize(
        ("found", "wedged"),
        [
            (gang(pod(0.0), pod(1.0)), False),
            (gang(pod(0.0), pod(None)), True),
            (gang(pod(None), pod(None)), False),
            (gang(pod(0.0), pod(60.0)), False),
            (gang(pod(0.0), pod(60.5)), True),
            (gang(pod(0.0, 50.0), pod(None), pod(50.0), pod(51.0)), False),
            (gang(pod(0.0), pod(1.0, 30.0)), True),
            (gang(pod(0.0), pod(1.0, 30.0), pod(80.0)), False),
            (gang(pod(0.0, 40.0), pod(None), pod(45.0, 90.0), pod(None)), False),
        ],
        ids=[
            "whole",
            "one of two",
            "none",
            "a minute later",
            "more than a minute later",
            "given up and replaced",
            "one taken away",
            "one taken away and replaced",
            "twice for less than a minute",
        ],
    )
    def test_a_gang_is_wedged_when_it_holds_nodes_in_vain_for_over_a_minute(self, found: Gang, wedged: bool) -> None:  # noqa: FBT001 - the expected answer
        assert wedged == found.wedged(100.0)

    def test_the_longest_break_counts_and_not_the_last(self) -> None:
        found = gang(pod(0.0), pod(20.0, 90.0))
        assert 20.0 == found.longest_partial_seconds(100.0)

    @pytest.mark.parametrize("size", [1, 2])
    def test_a_gang_of_one_is_never_partly_bound(self, size: int) -> None:
        assert (0.0 if size == 1 else 100.0) == gang(pod(0.0), size=size).longest_partial_seconds(100.0)


class TestPlaced:
    """Whole gangs count, of each size as many as are wanted at most."""

    GANGS = gangs_of(
        [
            *(Sighting(f"a{number}", 2, 1.0, 2.0, None, is_ready=True) for number in (0, 0, 1, 1, 2)),
            *(Sighting("b", 1, 1.0, None) for _ in range(1)),
        ]
    )

    @pytest.mark.parametrize(("wanted", "whole"), [({2: 2, 1: 1}, 3), ({2: 1, 1: 1}, 2), ({2: 3}, 2), ({4: 1}, 0)])
    def test_by_size(self, wanted: dict[int, int], whole: int) -> None:
        assert whole == placed(self.GANGS, wanted, 10.0)

    def test_trays_are_of_whole_gangs_only(self) -> None:
        assert 5 == placed_trays(self.GANGS, {2: 3, 1: 1}, 10.0)

    def test_who_is_bound_and_not_ready_does_not_serve(self) -> None:
        assert 2 == serving(self.GANGS, {2: 3, 1: 1}, 10.0)

    def test_nobody_is_placed_before_the_last_pod_is(self) -> None:
        assert 0 == placed(self.GANGS, {2: 2}, 0.5)


def audit_line(user: str, verb: str, resource: str, **more: Any) -> str:  # noqa: ANN401 - fields of an audit event
    entry = {
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": user},
        "objectRef": {"resource": resource},
        "requestURI": "/api/v1/x?fieldManager=weft-decide&force=true",
        "requestReceivedTimestamp": "2026-01-01T00:00:01.500000Z",
        "stageTimestamp": "2026-01-01T00:00:01.750000Z",
        "responseStatus": {"code": 200},
    }
    return json.dumps(entry | more) + "\n"


class TestCounting:
    """Writes are what a client had carried out, and nobody else's."""

    def test_only_writes_of_that_user_that_were_carried_out(self, tmp_path: Path) -> None:
        log = tmp_path / "audit.log"
        log.write_text(
            audit_line("me", "create", "pods")
            + audit_line("me", "get", "pods")
            + audit_line("me", "create", "pods", responseStatus={"code": 409})
            + audit_line("scheduler", "create", "pods", objectRef={"resource": "pods", "subresource": "binding"})
            + audit_line("me", "patch", "x", objectRef={"resource": "inferencepools", "subresource": "status"})
        )
        found, _ = writes(log, "me", 0)
        assert [("create", "pods"), ("patch", "inferencepools/status")] == [(e.verb, e.resource) for e in found]
        assert "weft-decide" == found[0].manager
        assert 0.25 == pytest.approx(found[0].answered - found[0].asked)

    def test_what_came_before_the_run_and_half_a_line_do_not_count(self, tmp_path: Path) -> None:
        log = tmp_path / "audit.log"
        log.write_text(audit_line("me", "create", "pods"))
        begun = log.stat().st_size
        with log.open("a") as more:
            more.write(audit_line("me", "patch", "pods") + audit_line("me", "delete", "pods")[:-9])
        found, ended = writes(log, "me", begun)
        assert ["patch"] == [each.verb for each in found]
        assert begun < ended < log.stat().st_size


def test_a_pod_is_bound_once_and_leaves_when_it_is_asked_to() -> None:
    """Later events of the same kind change no time; a pod that is terminating holds nothing to speak of."""
    seen = Sighting("g", 1)
    body: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {}}
    take_in(seen, "ADDED", body, 1.0)
    assert (None, None, None) == (seen.bound, seen.ready, seen.leaving)
    ready = {"spec": {"nodeName": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    take_in(seen, "MODIFIED", body | {"spec": {"nodeName": "n"}}, 2.0)
    take_in(seen, "MODIFIED", body | ready, 3.0)
    take_in(seen, "MODIFIED", body | ready | {"metadata": {"deletionTimestamp": "now"}}, 4.0)
    take_in(seen, "DELETED", body | ready, 5.0)
    assert (2.0, 3.0, 4.0) == (seen.bound, seen.ready, seen.leaving)
    assert not seen.holds(4.0)


class TestDemand:
    """The same gangs for both, on 300 nodes."""

    def test_there_are_300_nodes_in_racks_of_at_most_18(self) -> None:
        racks = Counter(node.labels[demand.RACK_LABEL] for node in demand.nodes())
        assert 300 == racks.total()
        assert [18] * 16 + [12] == sorted(racks.values(), reverse=True)

    @pytest.mark.parametrize(("name", "pods"), [("pairs", 200), ("mixed", 294), ("trouble", 225)])
    def test_loads(self, name: str, pods: int) -> None:
        (scenario,) = (each for each in demand.SCENARIOS if each.name == name)
        assert pods == scenario.pods == sum(size * count for size, count in scenario.sizes.items())

    def test_pods_of_a_gang_ask_for_a_whole_tray_each_in_the_rack_of_their_own(self) -> None:
        first, second, other = plain.pods((2, 1))
        terms = [
            each["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
            for each in (first, second, other)
        ]
        assert terms[0] == terms[1] != terms[2]
        assert demand.RACK_LABEL == terms[0]["topologyKey"]
        assert {"nvidia.com/gpu": "4"} == first["spec"]["containers"][0]["resources"]["limits"]
        assert [("gang-000", 2), ("gang-000", 2), ("gang-001", 1)] == [*map(plain.identify, (first, second, other))]

    @pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
    def test_a_pool_asks_for_replicas_of_as_many_trays(self, size: int) -> None:
        body = pools.pool(size, 5)
        meta = {**body["metadata"], "namespace": "n", "uid": "u", "generation": 1, "creationTimestamp": None}
        parsed = parse_pool({**body, "metadata": {**meta, "creationTimestamp": "2026-01-01T00:00:00Z"}})
        assert parsed.problem is None
        assert parsed.spec is not None
        assert (size * 4, 5) == (parsed.spec.shape.tensor_parallel, parsed.spec.scaling.replicas)

    def test_trouble_meets_other_nodes_and_the_same_ones_in_every_run(self) -> None:
        trouble = demand.Trouble(foreign=1, per_second=1.0, at_seconds=0.0, cordoned=6, silent=4)
        cordoned, silent = victims(trouble)
        assert (6, 4, 10) == (len(cordoned), len(silent), len({*cordoned, *silent}))
        assert (cordoned, silent) == victims(trouble)


def seen(*sightings: Sighting, ended: float = 120.0, asked: float = 0.0) -> Seen:
    decided = Write("patch", "inferencepools/status", "weft-decide", 2.0, 2.1)
    events = Write("create", "events", "", 2.0, 2.1)
    created = [Write("create", "pods", "weft-converge", 3.0, 3.1) for _ in sightings]
    return Seen(asked, ended, gangs_of(sightings), (decided, events, *created))


class TestRows:
    """Figures of one run."""

    CASE = Case(PAIR, "weft", WIDE)

    def test_times_count_from_the_decision_and_writes_by_the_pods_asked_for(self) -> None:
        found = row(self.CASE, seen(pod(5.0, ready=9.0), pod(7.0, ready=8.0)))
        names = ("decided_after", "all_created", "first_bound", "all_bound", "all_ready")
        assert (2.0, 1.1, 3.0, 5.0, 7.0) == tuple(found[f"{name}_seconds"] for name in names)
        assert (1, 0, 1.5, 1) == (found["placed"], found["wedged"], found["writes_per_pod"], found["events"])

    def test_what_was_never_whole_has_no_time(self) -> None:
        found = row(self.CASE, seen(pod(5.0), pod(None)))
        assert (None, None, 0, 1) == tuple(
            found[name] for name in ("all_bound_seconds", "all_ready_seconds", "placed", "wedged")
        )

    def test_what_never_came_has_no_decision(self) -> None:
        found = row(self.CASE, Seen(0.0, 9.0, (), ()))
        assert found["all_created_seconds"] is None
        assert (None, 0, 0.0) == (found["decided_after_seconds"], found["placed"], found["writes_per_pod"])


def told(**weft: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of a row
    both = [pod(5.0, ready=9.0), pod(7.0, ready=8.0)]
    rows = [
        {**row(Case(replace(PAIR, name=name), placer, WIDE), seen(*both)), "load_average_before": 1.0}
        for name in ("pairs", "mixed")
        for placer in ("plain", "weft")
    ]
    rows[1] |= weft
    scenarios = [{"name": each.name, "says": each.says, "sizes": each.sizes} for each in demand.SCENARIOS]
    return {"machine": {"words": "a machine"}, "scenarios": scenarios, "rows": rows}


class TestPage:
    """What the rows are held against, and a page and a picture that hold every row."""

    @pytest.mark.parametrize(
        ("changed", "verdicts"),
        [
            ({}, ["met"] * 4),
            ({"all_bound_seconds": 7.6}, ["missed", "met", "met", "met"]),
            ({"all_bound_seconds": None}, ["missed", "met", "met", "met"]),
            ({"writes_per_pod": 3.1, "wedged": 1}, ["met", "missed", "missed", "met"]),
        ],
        ids=["all", "slower", "not all bound", "writes and wedged"],
    )
    def test_aims(self, changed: dict[str, Any], verdicts: list[str]) -> None:
        assert verdicts == [verdict for *_, verdict in aims(told(**changed)["rows"])]

    def test_of_several_runs_the_median_counts_and_the_worst_wedge(self) -> None:
        rows = told()["rows"][:2]
        repeated = [*rows, *(row | {"all_bound_seconds": 50.0, "wedged": 1} for row in rows), *rows]
        assert ["met", "met", "missed"] == [verdict for *_, verdict in aims(repeated)]

    def test_where_plain_pods_never_came_to_an_end_there_is_no_ratio_to_miss(self) -> None:
        known = told()
        known["rows"][0]["all_bound_seconds"] = None
        assert ("not all were bound", "met") == next(iter(aims(known["rows"])))[2:]

    def test_page_and_picture_come_from_the_same_rows(self) -> None:
        page, picture = as_page(told(), "p.svg"), as_svg(told())
        assert page.count("| weft |") == 3
        assert "prefers-color-scheme" in picture
        assert ET.fromstring(picture).tag.endswith("svg")  # noqa: S314 - our own
        assert picture == as_svg(told())


def test_the_first_scenario_runs_under_two_limits_and_plain_pods_come_first() -> None:
    found = [(each.placer, each.limit.per_second) for each in scheduler.cases(["pairs", "mixed"])]
    assert [*[("plain", 200), ("weft", 200)] * 3, ("plain", 20), ("weft", 20), ("plain", 200), ("weft", 200)] == found
