"""The placement benchmark on small clusters: paired, repeatable, and nobody holds what is not there."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from bench.placement_bench import mixes, runs
from bench.placement_bench.gangs import Affinity
from bench.placement_bench.mixes import Arrival, Scenario, arrivals
from bench.placement_bench.page import as_page
from bench.placement_bench.placers import Kai, Kueue, Pending, Pooled, Racks, Started
from bench.placement_bench.plot import as_svg
from bench.placement_bench.rescaling import fleet
from bench.placement_bench.runs import BOTH, KUBE, KUEUE, OFF, POOLED, cell, rejected, rows
from bench.placement_bench.simulation import Simulation
from bench.placement_bench.splits import splits
from bench.placement_bench.spread import interval
from bench.placement_bench.weft import Levers, Weft

if TYPE_CHECKING:
    from typing import Any

    from bench.placement_bench.placers import Placer

SMALL = replace(mixes.settings(), racks=6, warm_up_lifetimes=0.5, measured_lifetimes=1.5)
BUSY = Scenario("wide", 1.0)


@pytest.fixture(autouse=True)
def small_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six racks and a day instead of 64 racks and days."""
    for module in (mixes, runs):
        monkeypatch.setattr(module, "settings", lambda: SMALL)


def without_times(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "decide_seconds": None} for row in found]


def wants(gpus: int, number: int = 0) -> Arrival:
    return Arrival(number, 0.0, gpus, 3600.0)


class TestEvents:
    """What arrives depends on the scenario and the seed alone."""

    def test_the_same_seed_is_the_same_events_and_another_one_is_not(self) -> None:
        assert arrivals(BUSY, 1) == arrivals(BUSY, 1)
        assert arrivals(BUSY, 1) != arrivals(BUSY, 2)

    def test_as_many_gpus_are_asked_for_as_the_load_says(self) -> None:
        """The run begins in the middle: what arrives at its start is the load of one moment."""
        for load in (0.5, 1.0):
            asked = [
                sum(each.gpus for each in arrivals(Scenario("wide", load), seed) if not each.at) for seed in range(40)
            ]
            assert load == pytest.approx(fmean(asked) / Scenario("wide", load).capacity(0), rel=0.1)

    def test_trays_that_are_down_are_not_counted_as_capacity(self) -> None:
        scenario = Scenario("small", 1.0, trays_down=0.03)
        assert 3 == len(scenario.down(1))  # of 108
        assert SMALL.racks * 72 - 3 * 4 == scenario.capacity(1)

    def test_a_fleet_wants_its_load_on_average(self) -> None:
        wishes = fleet(BUSY, 1)
        assert sum(wishes.gpus) * SMALL.rescaling.replicas == pytest.approx(BUSY.capacity(1), rel=0.05)
        assert list(wishes.changes) == sorted(wishes.changes, key=lambda each: each.at)


def test_the_same_seeds_are_the_same_rows() -> None:
    """But for the time that decisions take."""
    first, second = (rows(cell("loss", BUSY, (KUBE, KUEUE, BOTH, POOLED), (1,))) for _ in range(2))
    assert without_times(first) == without_times(second)


@pytest.mark.parametrize("variant", ["loss", "queue", "rescale"])
def test_the_pool_rejects_less_than_placers_that_need_one_rack(variant: str) -> None:
    """On average over seeds: it admits others, so that a single run may come out the other way."""
    found = cell(variant, BUSY, (KUEUE, OFF, POOLED), range(4))
    bound = fmean(rejected(found.runs[POOLED]))
    assert bound < fmean(rejected(found.runs[KUEUE]))
    assert bound < fmean(rejected(found.runs[OFF]))


def test_repacking_rejects_less_than_the_rule_alone() -> None:
    found = cell("loss", BUSY, (KUEUE, OFF, BOTH), range(4))
    assert fmean(rejected(found.runs[BOTH])) < fmean(rejected(found.runs[OFF]))
    assert sum(run.measured.moves for run in found.runs[BOTH]) > 0


def test_under_equal_load_nobody_rejects_anything() -> None:
    found = cell("equal", replace(BUSY, largest=16), (KUEUE, OFF), (1,))
    assert [0.0, 0.0] == [row["rejected_share"] for row in rows(found)]


def test_gangs_wedge_under_pod_affinity_and_never_under_weft() -> None:
    found = rows(cell("loss", BUSY, (KUBE, KUEUE, OFF, BOTH), (1,)))
    assert [True, False, False, False] == [row["wedged_share"] > 0.0 for row in found]


class TestGangs:
    """Pods one by one: a rack is chosen by its first tray."""

    def full_but(self, *racks: int) -> Affinity:
        """Each rack with so many free trays."""
        known = replace(SMALL, racks=len(racks))
        down = [(rack, tray) for rack, free in enumerate(racks) for tray in range(free, known.trays_per_rack)]
        return Affinity(Racks(known, down), Random(1), spread=True)

    def test_a_gang_whose_rack_is_too_small_holds_what_it_got(self) -> None:
        placer = self.full_but(1)
        assert Pending() == placer.offer(wants(8), 0.0)
        assert not placer.fits(4)

    def test_what_becomes_free_in_its_rack_makes_it_whole(self) -> None:
        placer = self.full_but(2)
        assert Started() == placer.offer(wants(4, number=1), 0.0)
        assert Pending() == placer.offer(wants(8, number=2), 0.0)
        assert [2] == list(placer.leave(1))

    def test_a_gang_that_is_given_up_leaves_everything(self) -> None:
        placer = self.full_but(3)
        assert Pending() == placer.offer(wants(16), 0.0)
        placer.leave(0)
        assert placer.fits(8)

    def test_it_is_given_up_after_ten_minutes_and_counts_as_wedged(self) -> None:
        placer = self.full_but(1)
        known = replace(SMALL, racks=1, warm_up_lifetimes=0.0)
        measured = Simulation(placer, known, 72).run([wants(8, number=1), replace(wants(4, number=2), at=700.0)])
        assert ({1}, {2}, 8) == (measured.wedged, measured.admitted, measured.rejected_gpus)


class TestRules:
    """Which rack a rule takes, with one that is nearly full and one that is not."""

    def racks(self, *busy: tuple[int, int, int]) -> Racks:
        racks = Racks(replace(SMALL, racks=2), ())
        for rack, trays, gpus in busy:
            for tray in range(trays):
                racks.take(rack, tray, gpus)
        return racks

    def rack_of(self, placer: Kueue | Kai, gpus: int) -> int:
        assert Started() == placer.offer(wants(gpus), 0.0)
        return placer.held[0][0][0]

    def test_kueue_counts_pods_and_kai_gpus(self) -> None:
        """Rack 0 has 9 whole trays, rack 1 has 8 and more GPUs free: on trays that no pod of 4 fits on."""
        busy = ((0, 9, 4), (1, 10, 3))
        assert 1 == self.rack_of(Kueue(self.racks(*busy)), 16)
        assert 0 == self.rack_of(Kai(self.racks(*busy)), 16)

    def test_the_pool_takes_trays_of_several_racks(self) -> None:
        assert self.racks((0, 9, 4), (1, 9, 4)).fits(64) is False
        assert Started() == Pooled(self.racks((0, 9, 4), (1, 9, 4))).offer(wants(64), 0.0)

    @pytest.mark.parametrize("rule", [Kueue, Kai, Pooled])
    def test_what_left_is_free_again(self, rule: type[Kueue | Kai | Pooled]) -> None:
        placer: Placer = rule(self.racks())
        assert Started() == placer.offer(wants(64), 0.0)
        assert Started() == placer.offer(replace(wants(64), number=1), 0.0)
        placer.leave(0)
        placer.leave(1)
        assert [72, 72] == [placer.racks.gpus_in(rack) for rack in (0, 1)]  # type: ignore[attr-defined]


class TestWeft:
    """The operator's own code behind the same questions."""

    def two_trays_each(self, levers: Levers) -> Weft:
        """Two racks with two trays; one GPU and one tray of the first are taken, one tray of the second."""
        down = [(rack, tray) for rack in range(2) for tray in range(2, 18)]
        placer = Weft(replace(SMALL, racks=2), down, levers)
        for number, gpus in enumerate((1, 4, 4)):
            assert Started() == placer.offer(wants(gpus, number), 0.0)
        placer.leave(1)
        return placer

    def test_what_a_move_makes_room_for_waits_for_it(self) -> None:
        placer = self.two_trays_each(Levers(moves=1))
        assert not placer.fits(8)
        assert placer.could_fit(8)
        assert Started(after_seconds=SMALL.move_seconds) == placer.offer(wants(8, number=3), 1.0)
        assert (1, 1) == (placer.moves, placer.moved_gpus)
        assert self.two_trays_each(Levers()).offer(wants(8, number=3), 1.0) is None

    @pytest.mark.parametrize(("now", "moved_gpus"), [(150.0, 4), (250.0, 1)], ids=["on its way", "arrived"])
    def test_nobody_moves_again_before_it_has_arrived(self, now: float, moved_gpus: int) -> None:
        """Each rack has a free tray: a tray moves, or the single GPU that is cheaper but has just left for rack 1."""
        placer = self.two_trays_each(Levers(moves=1))
        placer.offer(wants(8, number=3), 1.0)
        placer.leave(2)
        placer.leave(3)
        for number in (4, 5):
            assert Started() == placer.offer(wants(4, number=number), 100.0)
        placer.leave(4)
        placer.advance(now)
        assert Started(after_seconds=SMALL.move_seconds) == placer.offer(wants(8, number=6), now)
        assert 1 + moved_gpus == placer.moved_gpus

    def test_all_gpus_come_back(self) -> None:
        placer = self.two_trays_each(Levers(moves=1))
        placer.offer(wants(8, number=3), 1.0)
        for number in (0, 2, 3):
            placer.leave(number)
        placer.advance(1.0 + SMALL.move_seconds)
        trays = [node.name for domain in placer.free.fabric.domains for node in domain.nodes]
        assert 4 * len(trays) == sum(placer.free.each(trays))

    def test_a_split_counts_with_its_predicted_capacity(self) -> None:
        """Two racks with 8 trays each hold a 64 as 2 x 32 only."""
        down = [(rack, tray) for rack in range(2) for tray in range(10)]
        placer = Weft(replace(SMALL, racks=2), down, Levers(shapes=True))
        parts, share = splits()[64][0]
        assert (2, Started(share)) == (parts, placer.offer(wants(64), 0.0))
        assert 0.8 <= share <= 1.0
        assert Weft(replace(SMALL, racks=2), down, Levers()).offer(wants(64), 0.0) is None


def test_the_interval_is_students() -> None:
    """Of 1, 2, 3: standard deviation 1, two degrees of freedom."""
    assert 4.303 / 3**0.5 == pytest.approx(interval([1.0, 2.0, 3.0]))
    assert interval([1.0]) == 0.0


def test_page_and_picture_say_what_was_measured() -> None:
    found = rows(cell("loss", BUSY, (KUBE, KUEUE, OFF, BOTH, POOLED), (1, 2)))
    told = {
        "machine": {"words": "a machine"},
        "seeds": 2,
        "settings": {
            **{name: getattr(SMALL, name) for name in ("racks", "trays_per_rack", "gpus_per_tray", "trays_down")},
            **{name: getattr(SMALL, name) for name in ("lifetime_seconds", "warm_up_lifetimes", "measured_lifetimes")},
            "mixes": ["wide"],
            "loads": [1.0],
            "move_seconds": 200.0,
            "patience_seconds": 3600.0,
            "rescaling": {"replicas": 4, "lifetime_seconds": 259200.0},
        },
        "splits": {"64": [[2, 0.858]]},
        "rows": found,
    }
    page = as_page(told, "picture.svg")
    assert f"| kube-default | {100 * found[0]['rejected_share']:.1f} % ± " in page
    assert "64 as 2 x 32 counts 86 %" in page
    picture = as_svg(told)
    assert picture == as_svg(told)
    assert "prefers-color-scheme: dark" in picture
    assert ET.fromstring(picture).tag.endswith("svg")  # noqa: S314 - our own
