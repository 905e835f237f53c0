"""While `rollout.paused` keeps earlier replicas of a split, new ones come only where they find a counterpart.

The spec of the earlier ones is gone, so that whoever comes is of the changed one, and exchanges no KV with them.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.loaded import Loaded, loaded_split
from tests.decide.world import external
from weft.domain.spec import GatewayParent, GatewaySpec, RolloutSpec, RouterKind, RouterSpec

HALVES = PREFILL, DECODE = "pd-prefill", "pd-decode"
EDGE = GatewaySpec((GatewayParent("gateway.networking.k8s.io", "Gateway", "edge"),), "picker", 9002)
GATEWAY = RouterSpec(RouterKind.Gateway, gateway=EDGE)
PAUSED = RolloutSpec(paused=True)


def paused(boards: int) -> Loaded:
    """Two replicas in each half, of a spec that has changed since."""
    here = loaded_split((2, 2), boards, PAUSED, (1.0, 1.0))
    here.change()
    here.world.turn(2)
    return here


def count(here: Loaded, prefill: int, decode: int) -> tuple[int, int]:
    """How many of each half are there some passes after such counts were asked for."""
    for name, replicas in zip(HALVES, (prefill, decode), strict=True):
        spec = here.world.pools[name].spec
        assert spec is not None
        here.world.edit(name, replace(spec, scaling=external(replicas)))
    here.world.turn(6)
    assert (here.outdated(PREFILL), here.outdated(DECODE)) == (2, 2)
    found = [len(here.world.status(name).assignments) for name in HALVES]
    return found[0], found[1]


@pytest.mark.parametrize(("grows", "stays", "other"), [(PREFILL, DECODE, "Decode"), (DECODE, PREFILL, "Prefill")])
def test_a_half_does_not_grow_by_replicas_that_serve_nobody(grows: str, stays: str, other: str) -> None:
    here = paused(8)
    assert count(here, 3 if grows == PREFILL else 2, 3 if grows == DECODE else 2) == (2, 2)
    status, reason, message = here.world.condition(grows, "Placed")
    assert (status, reason) == ("False", "Paused")
    assert message.startswith("2 of 3 replicas placed; a new replica is of the changed spec and would serve nobody")
    assert message.endswith(f"as spec.rollout.paused keeps the {other} half as it is: unset it")
    assert here.world.condition(stays, "Placed")[0] == "True"
    assert here.world.decision(grows).request is None  # more GPUs would not help


def test_it_grows_where_the_other_half_grows_too() -> None:
    assert count(paused(12), 3, 4) == (3, 4)


def test_then_either_half_may_go_on() -> None:
    here = paused(12)
    count(here, 3, 3)
    assert count(here, 3, 5) == (3, 5)


def test_one_place_is_too_few_for_the_first_of_both_halves() -> None:
    here = paused(5)
    assert count(here, 3, 3) == (2, 2)
    status, reason, message = here.world.condition(DECODE, "Placed")
    assert (status, reason) == ("False", "NoSlot")
    assert message.endswith("beside the first Prefill replica of the changed spec")
    assert "waits because the Decode half has no place" in here.world.condition(PREFILL, "Placed")[2]


def test_it_rolls_and_grows_once_nothing_is_paused() -> None:
    here = paused(8)
    count(here, 3, 2)
    for name in HALVES:
        spec = here.world.pools[name].spec
        assert spec is not None
        here.world.edit(name, replace(spec, rollout=RolloutSpec()))
    here.world.turn(30)
    assert (here.world.serving(PREFILL), here.world.serving(DECODE)) == (3, 2)
    assert here.is_through()


def test_a_half_that_lost_all_of_its_earlier_ones_starts_new_ones() -> None:
    """The split serves nobody until the pause ends, and then at once."""
    here = paused(8)
    for name in [pod.name for pod in here.world.pods.values() if pod.name.startswith(PREFILL)]:
        here.world.end(name)
    here.world.turn(12)
    assert here.world.serving(PREFILL) == 2
    assert (here.outdated(PREFILL), here.outdated(DECODE)) == (0, 2)


def test_behind_a_gateway_nobody_comes_while_the_earlier_ones_are_shown() -> None:
    here = paused(12)
    for name in HALVES:
        record = here.world.pools[name]
        assert record.spec is not None
        here.world.pools[name] = replace(record, spec=replace(record.spec, router=GATEWAY), shown="1")
    assert count(here, 3, 3) == (2, 2)
    status, reason, message = here.world.condition(DECODE, "Placed")
    assert (status, reason) == ("False", "Paused")
    assert "the Gateway sends requests to the earlier ones, which spec.rollout.paused keeps: unset it" in message
