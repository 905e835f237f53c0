"""Why a domain that has room is not taken is the very rule by which another one is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.cluster import board, busy, rack
from tests.placement.cases import ANYWHERE, free_map, tp
from weft.domain.reasons import Reason
from weft.domain.spec import PlacementSpec
from weft.placement import Neighbours, Slot, compare, find_slot
from weft.placement.search import wishes_of
from weft.placement.tally import tally_of

ZONES = ("a", "b")
NODES = [
    *(
        replace(board(f"b-{i}"), labels=(*board(f"b-{i}").labels, ("topology.kubernetes.io/zone", ZONES[i % 2])))
        for i in range(6)
    ),
    *rack("r.1", 4),
    *rack("r.2", 4),
]
NAMES = [node.name for node in NODES]


def told(found: object) -> dict[str, str]:
    assert found is not None
    return {name: why.message for name, why in found.others}  # type: ignore[attr-defined]


def test_a_larger_hole_stays_whole() -> None:
    free = free_map([board("b-0"), board("b-1"), board("b-2")], busy("x", "b-1", 4), busy("y", "b-2", 8))
    found = compare(tp(4), ANYWHERE, free)
    assert found is not None
    assert (("b-1",), "b-1") == (found.slot.nodes, found.domain)
    assert {"b-0": Reason.OtherPreferred, "b-2": Reason.DomainFragmented} == {
        name: why.reason for name, why in found.others
    }
    assert "room for 2 such pods, in b-1 for 1: the larger hole stays whole" == told(found)["b-0"]


def test_siblings_and_names_break_ties() -> None:
    free = free_map([board("b-0"), board("b-1"), board("b-2")])
    found = compare(tp(2), ANYWHERE, free, Neighbours(siblings=("b-0",)))
    assert told(found) == {
        "b-0": "1 pod of the pool there, in b-1 0",
        "b-2": "as good as b-1, which comes first by name",
    }


def test_the_zone_comes_first_where_that_is_wished() -> None:
    free = free_map(NODES, busy("x", "b-0", 4))
    found = compare(tp(4), PlacementSpec(spread="Zone"), free, Neighbours(siblings=("b-0",)))
    assert "its zone has 1 pod of the pool" in told(found)["b-0"]


def test_nothing_is_compared_where_nothing_has_room() -> None:
    assert compare(tp(8), ANYWHERE, free_map([board("b-0")], busy("x", "b-0", 1))) is None


@pytest.mark.parametrize("spread", ["Domain", "Zone", "None"])
@given(
    taken=st.lists(st.tuples(st.sampled_from(NAMES[:6]), st.integers(1, 4)), max_size=5),
    siblings=st.lists(st.sampled_from(NAMES), max_size=4),
    partners=st.lists(st.sampled_from(NAMES), max_size=2),
    shape=st.sampled_from([tp(2), tp(4), tp(8), tp(4, "GB200"), tp(8, "GB200")]),
)
def test_the_best_merits_are_where_the_search_goes(
    spread: str, taken: list[tuple[str, int]], siblings: list[str], partners: list[str], shape: object
) -> None:
    """`tightest` looks for it in groups, and `merits` says it of one domain: both are one rule."""
    placement = PlacementSpec(spread=spread)
    free = free_map(NODES, *(busy(f"x{i}", node, gpus) for i, (node, gpus) in enumerate(taken)))
    neighbours = Neighbours(tuple(siblings), tuple(partners))
    found, slot = compare(shape, placement, free, neighbours), find_slot(shape, placement, free, neighbours)  # type: ignore[arg-type]
    if found is None:
        assert not isinstance(slot, Slot)
        return
    assert found.slot == slot
    tally, wishes = tally_of(shape, placement, free), wishes_of(placement, neighbours, free)  # type: ignore[arg-type]
    merits = {
        free.fabric.domains[index].name: tally.merits(index, wishes)
        for index in range(len(free.fabric.domains))
        if tally.holds_one(index)
    }
    best = min(merits, key=lambda name: merits[name]._replace(shared=-merits[name].shared))
    assert found.domain == best
    assert {name for name, why in found.others if why.reason is Reason.OtherPreferred} == merits.keys() - {best}
