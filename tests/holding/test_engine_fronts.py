"""A pool goes from one engine to another behind managed routers: there is a way to a ready replica at any moment.

Rules S1 and L5 of docs/rules.md, for routers that each speak to one engine (ADR 0064).
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.holding.cluster import boards
from tests.holding.operation import TEAM, Json
from tests.holding.routed import POOL, Routed, deployment_of, routed_pool
from weft.domain import labels
from weft.domain.shape import EngineName
from weft.domain.snapshot import ResourceKey
from weft.domain.spec import RouterKind, RouterSpec
from weft.render import FrontSpec, render_front

TURNS = 120


def a_way_to_a_replica(world: Routed) -> None:
    """Somebody takes requests, and nobody takes them who has no replica to send them to."""
    chosen = world.endpoints()
    assert chosen, world.describe()
    assert all(world.behind(router) for router in chosen), world.describe()


def streams_are_finished(world: Routed) -> None:
    """Routers that end have replicas that finish what they hold, and clients may hold on to them."""
    for router in world.asked & world.going.keys():
        assert world.behind(router), world.describe()


def watched(replicas: int, engine: str = "VLLM", nodes: int = 2, **more: object) -> Routed:
    """A pool that serves, with a look at every way to it after every write from then on."""
    world = Routed.settled(boards(nodes), routed_pool(replicas, engine, **more))

    def look(seen: Routed) -> None:
        a_way_to_a_replica(seen)
        streams_are_finished(seen)

    world.look = look
    return world


def assert_at_rest(world: Routed, engine: str, replicas: int) -> None:
    """One engine serves, behind one front, and nothing is left of the other."""
    assert len(world.serving_now(engine)) == len(world.pods_of(POOL)) - len(world.routers()) == replicas
    assert list(world.deployments().values()) == [2]
    assert len(world.endpoints()) == len(world.routers()) == 2
    assert world.within_reach() == set(world.serving_now())
    assert world.cluster.object("Service", POOL)["spec"]["selector"] == {labels.FRONT_OF: "uid-chat"}


@pytest.mark.parametrize("replicas", [1, 2, 4])
@pytest.mark.parametrize(("before", "after"), [("VLLM", "SGLang"), ("SGLang", "VLLM")])
def test_requests_have_a_way_at_any_moment_and_to_as_many_replicas_as_are_desired(
    before: str, after: str, replicas: int
) -> None:
    world = watched(replicas, before)
    least: list[int] = []
    look = world.look

    def look_and_count(seen: Routed) -> None:
        look(seen)
        least.append(len(seen.within_reach()))

    world.look = look_and_count
    world.choose(after)
    world.roll()
    assert_at_rest(world, after.lower(), replicas)
    assert min(least) == replicas


def test_each_front_chooses_replicas_of_its_own_engine_alone() -> None:
    """Of two at a time, from the first replica of the new engine that is ready."""
    world, both = watched(3), []
    world.choose("SGLang")
    for _ in range(TURNS):
        world.turn()
        if world.serving_now("vllm") and world.serving_now("sglang") and len(world.deployments()) == 2:
            reached = {deployment_of(router): world.behind(router) for router in world.endpoints()}
            assert reached["chat-front"] == set(world.serving_now("vllm"))
            both.append(reached.get("chat-front-sglang", set()) == set(world.serving_now("sglang")))
    assert any(both)
    assert_at_rest(world, "sglang", 3)


def test_requests_go_over_as_replicas_do() -> None:
    world, parts = watched(4, nodes=3), []
    world.choose("SGLang")
    for _ in range(TURNS):
        world.turn()
        chosen = [deployment_of(router) for router in world.endpoints()]
        parts.append(chosen.count("chat-front-sglang") / len(chosen))
    assert parts == sorted(parts)
    assert len(set(parts)) >= 4


@pytest.mark.parametrize("turns", range(1, 28))
def test_the_way_back_is_open_at_any_moment(turns: int) -> None:
    """A -> B -> A, with the edit in any turn of the first rollout."""
    world = watched(2)
    world.choose("SGLang")
    world.turn(turns)
    world.choose("VLLM")
    world.roll()
    assert_at_rest(world, "vllm", 2)


edits = st.tuples(st.sampled_from(["VLLM", "SGLang", "TensorRTLLM"]), st.integers(0, 6))


@pytest.mark.parametrize("turns", range(2, 7))
def test_of_three_engines_the_one_that_nobody_chooses_any_more_loses_its_front_before_its_last_replica(
    turns: int,
) -> None:
    """The third is wanted once the second serves: replicas of the first leave before any of the third is ready."""
    world = watched(2)
    world.choose("SGLang")
    world.turn(5)
    world.choose("TensorRTLLM")
    world.turn(turns)
    world.choose("VLLM")
    world.roll()
    assert_at_rest(world, "vllm", 2)


@settings(max_examples=12, deadline=None)
@given(walk=st.lists(edits, min_size=2, max_size=5))
def test_whatever_engines_the_user_wants_one_after_another_requests_have_a_way(walk: list[tuple[str, int]]) -> None:
    """Three at a time, too, of which two share a router as long as nothing told them apart."""
    world = watched(2)
    for engine, turns in walk:
        world.choose(engine)
        world.turn(turns)
    world.roll()
    assert_at_rest(world, walk[-1][0].lower(), 2)


def test_there_and_back_again_nothing_restarts_that_rests() -> None:
    """The second front has the name of its engine, and keeps it; the name without one is free for the next engine."""
    world = watched(2)
    world.choose("SGLang")
    world.roll()
    assert list(world.deployments()) == ["chat-front-sglang"]
    routers = set(world.routers())
    world.turn(10)
    assert set(world.routers()) == routers
    world.choose("VLLM")
    world.roll()
    assert list(world.deployments()) == ["chat-front"]
    routers = set(world.routers())
    world.turn(10)
    assert set(world.routers()) == routers
    assert_at_rest(world, "vllm", 2)


def test_replicas_stay_until_a_front_of_the_new_engine_answers() -> None:
    """Its routers never get ready: new replicas serve nobody, and the old ones go on, all of them."""
    world = watched(2)
    world.stuck.add("chat-front-sglang")
    world.choose("SGLang")
    for _ in range(TURNS):
        world.turn()
        assert len(world.within_reach()) == 2
    assert world.serving_now("sglang")
    world.stuck.clear()
    world.roll()
    assert_at_rest(world, "sglang", 2)


def test_a_new_engine_that_ends_at_once_leaves_the_old_one_as_it_is() -> None:
    world = watched(2)
    before = world.serving_now()
    world.choose("SGLang")
    for _ in range(40):
        world.turn()
        for name in world.serving_now("sglang"):
            world.cluster.crash(name)
        assert world.serving_now("vllm") == before
    world.choose("VLLM")
    world.roll()
    assert world.serving_now() == before


@pytest.mark.parametrize("lives", [2, 3, 5])
def test_an_operator_that_dies_again_and_again_gets_there_all_the_same(lives: int) -> None:
    """L5 between any two writes: each process gets so many of them."""
    world = watched(2)
    world.choose("SGLang")
    outlived = [world.outlives_a_turn(lives) for _ in range(TURNS)]
    assert not all(outlived)
    assert_at_rest(world, "sglang", 2)


def test_engines_that_one_router_speaks_to_share_it() -> None:
    """`vllm-router` stands before TensorRT-LLM, too: neither its Deployment nor the Service changes."""
    world = watched(2)
    front = world.cluster.object("Deployment", "chat-front")["spec"]
    world.choose("TensorRTLLM")
    world.roll()
    assert_at_rest(world, "tensorrtllm", 2)
    assert world.cluster.object("Deployment", "chat-front")["spec"] == front


def test_recreate_stops_the_one_engine_and_then_starts_the_other() -> None:
    """One node with one GPU, and none to spare: nobody serves for a while, as its user wants."""
    world = Routed.settled(boards(1), routed_pool(1, rollout={"strategy": "Recreate"}))
    world.cluster.occupy("b-0", 7)
    world.choose("SGLang")
    world.roll()
    assert_at_rest(world, "sglang", 1)


def test_without_a_spare_gpu_the_first_one_goes_before_its_successor_comes() -> None:
    """`maxUnavailable` lets it, and the other serves on behind its own front until somebody takes over."""
    rollout = {"maxSurge": 0, "maxUnavailable": 1}
    world = watched(2, nodes=1, rollout=rollout)
    world.cluster.occupy("b-0", 6)
    world.choose("SGLang")
    world.roll()
    assert_at_rest(world, "sglang", 2)


@pytest.mark.parametrize(("before", "after"), [("VLLM", "SGLang"), ("SGLang", "VLLM")])
def test_a_pool_that_an_earlier_operator_left_half_way_keeps_its_way_to_replicas(before: str, after: str) -> None:
    """It had made the one front anew for the engine that is to come: routers of the engine before are on their way."""
    world = watched(2, before)
    world.choose(after)
    there = world.cluster.object("Deployment", "chat-front")
    there["spec"]["template"] = as_earlier_operators_made_it(there, EngineName(after))
    for _ in range(3):
        world.route()
    world.roll()
    assert world.within_reach() == set(world.serving_now()) == set(world.serving_now(after.lower()))
    assert len(world.serving_now()) == 2


def as_earlier_operators_made_it(deployment: Json, engine: EngineName) -> Json:
    """The pods of the front `chat-front`, had it always been that of an engine."""
    key = ResourceKey("InferencePool", TEAM, POOL, f"uid-{POOL}")
    rendered = render_front(key, engine, RouterSpec(RouterKind.Managed), FrontSpec((key,), 2, 300.0), {})
    ours, theirs = (each["spec"]["template"] for each in (deployment, rendered))
    return {**ours, "spec": theirs["spec"]}


@pytest.mark.parametrize(("before", "after"), [("VLLM", "SGLang"), ("SGLang", "VLLM")])
def test_the_last_replica_behind_routers_that_end_outlives_a_missed_probe_of_its_successor(
    before: str, after: str
) -> None:
    world = Routed.settled(boards(3), routed_pool(1, before))
    world.ending_turns = 20
    world.choose(after)
    world.turn()
    while len(world.replicas(POOL)) > 1 or not world.going:
        world.turn()
    (successor,) = world.serving_now(after.lower())
    world.cluster.stumble(successor)
    world.route()
    for _ in range(2):
        world.turn()
        assert world.within_reach(), world.describe()
    world.cluster.stumble(successor, ready=True)
    world.roll()
    assert_at_rest(world, after.lower(), 1)
