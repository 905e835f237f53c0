"""Behind a Gateway a split rolls whole: its picker is shown one generation at a time, and never too few of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.holding.cluster import boards
from tests.holding.pairs import HALVES
from tests.holding.picked import GATEWAY, PickedPair, picked_body
from tests.holding.test_generations import TURNS, newer, roll
from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from tests.holding.operation import Json

MANAGED = {"type": "Managed", "replicas": 2}


def serving(prefill: int, decode: int, nodes: int, **more: object) -> PickedPair:
    """A split that serves as it was declared."""
    world = PickedPair.on(boards(nodes), picked_body(prefill, decode, **more))
    world.turn(12)
    assert [len(world.shown(half)) for half in HALVES] == [prefill, decode]
    assert ready(world) == "True"
    return world


def ready(world: PickedPair) -> str:
    """`True`, or why not."""
    (found,) = (each for each in world.split["status"]["conditions"] if each["type"] == "Ready")
    return "True" if found["status"] == "True" else str(found["reason"])


@pytest.mark.parametrize("counts", [(1, 1), (1, 3), (3, 1), (2, 3), (4, 4)])
def test_a_pair_rolls_whole_and_the_picker_never_sees_two_or_too_few(counts: tuple[int, int]) -> None:
    world = serving(*counts, nodes=4)
    (old,) = world.pairs()
    newer(world)
    least: list[float] = []

    def look() -> None:
        assert len(world.shown_pairs()) == 1
        least.append(world.capacity())

    roll(world, look)
    (new,) = world.pairs()
    assert new != old
    assert min(least) >= 1.0
    assert world.shown_pairs() == {new}


@pytest.mark.parametrize("lives", [3, 5, 7])
def test_an_operator_that_dies_between_any_two_writes_shows_no_less(lives: int) -> None:
    world = serving(2, 2, nodes=4)
    (old,) = world.pairs()
    newer(world)
    for _ in range(TURNS):
        world.outlives_a_turn(lives)
        assert len(world.shown_pairs()) == 1
        assert world.capacity() >= 1.0
    assert old not in world.pairs()


def test_an_edit_during_a_roll_leaves_the_one_that_serves_until_the_last_is_whole() -> None:
    world = serving(2, 2, nodes=4)
    (old,) = world.pairs()
    newer(world)
    world.turn(1)
    world.split["spec"]["engine"] = {"name": "VLLM", "args": ["--max-num-seqs=32"]}
    world.split["metadata"]["generation"] += 1
    least: list[float] = []

    def look() -> None:
        assert len(world.shown_pairs()) == 1
        least.append(world.capacity())

    roll(world, look)
    assert min(least) >= 1.0
    assert len(world.pairs()) == 1
    assert old not in world.pairs()


def test_a_generation_that_never_gets_ready_is_never_shown() -> None:
    world = serving(2, 2, nodes=4)
    (old,) = world.pairs()
    spec = world.split["spec"]
    newer(world)
    for _ in range(30):
        world.turn()
        for pair in world.pairs() - {old}:
            for name in world.engines("decode", pair):
                world.cluster.crash(name)
        assert world.shown_pairs() == {old}
        assert world.capacity() == 1.0
    world.split["spec"] = spec
    world.split["metadata"]["generation"] += 1
    roll(world, lambda: None)
    assert world.pairs() == {old}


def test_without_room_for_both_the_one_before_serves_on_and_recreate_goes_through() -> None:
    world = serving(1, 1, nodes=1)
    world.cluster.occupy("b-0", 6)
    (old,) = world.pairs()
    newer(world)
    world.turn(20)
    assert world.shown_pairs() == {old}
    assert world.capacity() == 1.0
    world.split["spec"] = {**world.split["spec"], "rollout": {"strategy": "Recreate"}}
    world.split["metadata"]["generation"] += 1
    roll(world, lambda: None)
    (new,) = world.pairs()
    assert new != old
    assert world.shown_pairs() == {new}


def test_half_a_pair_is_shown_to_nobody() -> None:
    world = serving(1, 1, nodes=2)
    (name,) = world.shown("prefill")
    world.cluster.crash(name)
    world.converge_the_split()
    assert world.shown_pairs() == set()
    world.turn(30)
    assert world.capacity() == 1.0


def test_nothing_is_retired_while_nobody_can_tell_what_the_picker_is_shown() -> None:
    """The kind cannot be listed: what the picker follows is then what it followed."""
    world = serving(1, 1, nodes=4)
    (old,) = world.pairs()
    world.lacks = Explanation(Reason.FrontStarting, "inferencepools could not be listed yet")
    newer(world)
    for _ in range(30):
        world.turn()
        assert world.shown_pairs() == {old}
        assert world.capacity() == 1.0
    world.lacks = None
    roll(world, lambda: None)
    assert old not in world.pairs()


def test_a_split_is_ready_once_a_gateway_takes_its_route() -> None:
    world = PickedPair.on(boards(2), picked_body(1, 1))
    world.there = False
    world.turn(12)
    assert ready(world) == "FrontStarting"
    world.there = True
    world.turn(2)
    assert ready(world) == "True"


def test_a_cluster_without_the_kinds_is_told_by_name_and_asked_for_nothing() -> None:
    world = PickedPair.on(boards(2), picked_body(1, 1))
    world.lacks = Explanation(Reason.GatewayAPIMissing, "the cluster has no httproutes.gateway.networking.k8s.io (v1)")
    world.turn(12)
    assert ready(world) == "GatewayAPIMissing"
    assert world.endpoints() is None
    world.lacks = None
    world.turn(3)
    assert ready(world) == "True"


def edited(world: PickedPair, **parts: object) -> None:
    """The user applies the split with other sections."""
    world.split["spec"] = {**world.split["spec"], **parts}
    world.split["metadata"]["generation"] += 1


def counts(prefill: int, decode: int) -> dict[str, object]:
    """Sections of a split with so many replicas."""
    spec = picked_body(prefill, decode)["spec"]
    return {half: spec[half] for half in HALVES}


def shown_in_all(world: PickedPair) -> list[int]:
    return [len(world.shown(half)) for half in HALVES]


def test_a_split_that_grows_as_it_rolls_is_shown_what_is_as_large_as_before_and_grows_then() -> None:
    """Eight GPUs: nowhere is room for the grown generation beside the one before."""
    world = serving(2, 2, nodes=1)
    (old,) = world.pairs()
    newer(world)
    edited(world, **counts(4, 4))

    def look() -> None:
        assert len(world.shown_pairs()) == 1
        assert min(shown_in_all(world)) >= 2

    roll(world, look)
    assert old not in world.pairs()
    assert shown_in_all(world) == [4, 4]


def test_a_generation_that_loses_a_node_as_it_is_replaced_leaves_nothing_hidden() -> None:
    world = PickedPair.on(boards(7), picked_body(2, 2, shape={"tensorParallel": 8}))
    world.turn(12)
    (old,) = world.pairs()
    newer(world)
    world.turn(2)
    (lost, *_) = (world.cluster.pods[name]["spec"]["nodeName"] for name in world.shown("decode"))
    world.cluster.remove(lost)
    roll(world, lambda: None)
    assert old not in world.pairs()
    assert shown_in_all(world) == [2, 2]
    (cordoned,) = {world.cluster.pods[name]["spec"]["nodeName"] for name in world.shown("decode")[:1]}
    world.cluster.nodes[cordoned]["spec"]["unschedulable"] = True
    roll(world, lambda: None)
    assert shown_in_all(world) == [2, 2]


def test_an_edit_when_the_next_generation_is_ready_and_not_yet_shown_does_not_keep_it() -> None:
    world = serving(2, 2, nodes=1)
    (old,) = world.pairs()
    newer(world)
    while not all(len(world.engines(half, pair)) == 2 for pair in world.pairs() - {old} for half in HALVES) or (
        world.pairs() == {old}
    ):
        world.turn()
    edited(world, engine={"name": "VLLM", "args": ["--max-num-seqs=16"]})
    least: list[int] = []
    roll(world, lambda: least.append(min(shown_in_all(world))))
    assert min(least) >= 2
    assert len(world.pairs()) == 1


def test_a_roll_without_room_still_lets_a_split_shrink_and_then_goes_through() -> None:
    world = serving(3, 3, nodes=2)
    world.cluster.occupy("b-0", 8 - held(world, "b-0"))
    world.cluster.occupy("b-1", 8 - held(world, "b-1"))
    (old,) = world.pairs()
    newer(world)
    world.turn(10)
    assert world.shown_pairs() == {old}
    edited(world, **counts(1, 1))
    roll(world, lambda: None)
    assert old not in world.pairs()
    assert shown_in_all(world) == [1, 1]


def held(world: PickedPair, node: str) -> int:
    return sum(pod["spec"].get("nodeName") == node for pod in world.cluster.pods.values())


def test_a_way_back_between_the_decision_and_the_next_look_leaves_somebody_shown() -> None:
    """Those that are to leave are of the current generation again, and still leave."""
    world = serving(2, 2, nodes=4)
    (old,) = world.pairs()
    before = world.split["spec"]
    newer(world)
    while world.shown_pairs() == {old}:
        world.turn()
    world.decide()
    world.split["spec"] = before
    world.split["metadata"]["generation"] += 1

    def look() -> None:
        assert len(world.shown_pairs()) == 1
        assert min(shown_in_all(world)) >= 2

    roll(world, look)
    assert world.shown_pairs() == {old}


def reached(world: PickedPair) -> int:
    """Pairs that a router or the picker reaches."""
    by_routers = 0
    if any(record.kind == "Service" and record.name == "duo" for record in world.cluster.objects_of("team")):
        by_routers = max(
            (min(len(world.engines(half, pair)) for half in HALVES) for pair in world.routers()), default=0
        )
    return max(by_routers, min(shown_in_all(world)))


@pytest.mark.parametrize(("first", "second"), [(GATEWAY, MANAGED), (MANAGED, GATEWAY)])
def test_another_type_of_router_stands_before_a_generation_of_its_own(first: Json, second: Json) -> None:
    """What stood there before stays until the next one serves, and then nothing of it is left."""
    world = PickedPair.on(boards(4), picked_body(2, 2, router=first))
    world.turn(12)
    (old,) = world.pairs()
    edited(world, router=second)
    least: list[int] = []
    roll(world, lambda: least.append(reached(world)))
    assert min(least) >= 1
    assert old not in world.pairs()
    assert reached(world) == 2
    kinds = {record.kind for record in world.cluster.objects_of("team")}
    assert ("HTTPRoute" in kinds) is (second is GATEWAY)
    assert ("Deployment" in kinds) is (second is MANAGED)
