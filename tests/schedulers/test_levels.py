"""Which topology level keeps a replica inside one NVLink domain, whatever its label is called."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.render.pools import shape
from weft.domain.queueing import Queueing
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import DomainRule, PlacementSpec
from weft.schedulers import Ask, Site
from weft.schedulers.levels import CLIQUE, HOSTNAME, level_of, product_of

if TYPE_CHECKING:
    from weft.domain.shape import Shape

GB200 = ("nvidia.com/gpu.product", "NVIDIA-GB200")
FOUR_PODS = shape(4, "GB200", data_parallel=4, expert_parallel=16, gpus_per_pod=4)
STAGES = shape(8, "GB200", pipeline_parallel=2, gpus_per_pod=4)
ONE_POD = shape(4, "GB200")


def tray(domain: str, name: str, **labels: str) -> Site:
    known = {CLIQUE: domain, HOSTNAME: name, "zone": "z", "row": f"row-{domain[0]}"}
    return Site(domain, {**known, **labels}, GB200)


SITES = tuple(tray(domain, f"{domain}-t{index}") for domain in ("a.1", "a.2", "b.1") for index in range(4))


def ask(wanted: Shape, sites: tuple[Site, ...] = SITES, rule: DomainRule = DomainRule.Required) -> Ask:
    return Ask("team", wanted, PlacementSpec(domain=rule), sites, Queueing(installed=True))


def refused(found: str | Explanation) -> str:
    assert isinstance(found, Explanation)
    assert Reason.NoTopologyLevel is found.reason
    return found.message


@pytest.mark.parametrize(
    ("levels", "chosen"),
    [
        (("zone", "row", CLIQUE, HOSTNAME), CLIQUE),
        ((CLIQUE,), CLIQUE),
        (("row", CLIQUE), CLIQUE),
    ],
)
def test_the_outermost_level_that_stays_inside_nvlink_is_chosen(levels: tuple[str, ...], chosen: str) -> None:
    """A zone and a row span racks; a host has no room for four pods."""
    assert chosen == level_of(ask(FOUR_PODS), (levels,))


def test_a_label_of_the_administrator_serves_as_well_as_the_clique() -> None:
    own = "corp.example/rack"
    sites = tuple(replace(site, labels={**site.labels, own: f"rack-of-{site.domain}"}) for site in SITES)
    assert own == level_of(ask(FOUR_PODS, sites), (("zone", own),))


def test_a_level_counts_with_all_levels_above_it() -> None:
    """Rack numbers that repeat from row to row are told apart by the row, and by nothing else."""
    sites = tuple(replace(site, labels={**site.labels, "rack": site.domain[-1]}) for site in SITES)
    assert "rack" == level_of(ask(FOUR_PODS, sites), (("row", "rack"),))
    refused(level_of(ask(FOUR_PODS, sites), (("rack",),)))


def test_a_level_that_any_topology_spans_racks_with_is_not_trusted() -> None:
    """Which Topology the queue uses is not known here."""
    sites = tuple(replace(site, labels={**site.labels, "rack": site.domain[-1]}) for site in SITES)
    refused(level_of(ask(FOUR_PODS, sites), (("row", "rack"), ("rack", HOSTNAME))))
    assert CLIQUE == level_of(ask(FOUR_PODS, sites), (("row", "rack", CLIQUE), ("rack", CLIQUE), (CLIQUE,)))


def test_nodes_without_the_label_are_outside_of_the_topology() -> None:
    stray = Site("c.1", {HOSTNAME: "c.1-t0"}, GB200)
    assert CLIQUE == level_of(ask(FOUR_PODS, (*SITES, stray)), ((CLIQUE,),))


def test_a_refusal_names_the_levels_there_are_and_the_label_to_add() -> None:
    said = refused(level_of(ask(FOUR_PODS), (("zone", HOSTNAME),)))
    assert f"zone > {HOSTNAME}" in said
    assert f"nodeLabel {CLIQUE}" in said
    assert "Kueue has no Topology" in refused(level_of(ask(FOUR_PODS), ()))


@pytest.mark.parametrize(("levels", "chosen"), [((CLIQUE, HOSTNAME), HOSTNAME), ((CLIQUE,), "")])
def test_a_single_pod_asks_for_its_host_where_hosts_are_a_level(levels: tuple[str, ...], chosen: str) -> None:
    assert chosen == level_of(ask(ONE_POD), (levels,))


def test_stages_that_may_spread_need_room_for_one_of_them_only() -> None:
    """Two trays a rack hold a stage of two pods, not the replica of four."""
    small = tuple(site for site in SITES if site.labels[HOSTNAME][-1] in "01")
    refused(level_of(ask(STAGES, small), ((CLIQUE,),)))
    assert CLIQUE == level_of(ask(STAGES, small, DomainRule.Preferred), ((CLIQUE,),))


def test_stages_of_one_pod_need_no_level() -> None:
    boards = tuple(Site(f"b-{index}", {HOSTNAME: f"b-{index}"}, GB200) for index in range(2))
    pods = shape(8, "H200", pipeline_parallel=2, gpus_per_pod=8)
    assert "" == level_of(ask(pods, boards, DomainRule.Preferred), ())


def test_the_accelerator_is_named_by_the_label_that_most_nodes_carry() -> None:
    other = Site("c.1", {}, ("weft.dev/accelerator", "GB200"))
    another = Site("c.1", {}, (GB200[0], "NVIDIA-GB200-NVL"))
    assert (GB200[0], ("NVIDIA-GB200", "NVIDIA-GB200-NVL")) == product_of((other, another, *SITES))
    assert product_of(()) is None
