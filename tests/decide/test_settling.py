"""A second pass with the same observations and the same clock changes nothing, where places are given and moved too."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.decide.histories import left_open
from tests.decide.limited import GPUS as QUOTA
from tests.decide.limited import limited
from tests.decide.test_crowded import AUTO, BOARDS, GPUS, actions, happen, open_pool
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board, busy
from weft.decide.settling import as_decided, both, may_change_again
from weft.domain.moves import MoveBudget
from weft.domain.reasons import Explanation, Reason
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import PoolSpec, RolloutSpec

if TYPE_CHECKING:
    from tests.decide.histories import Action
    from weft.domain.decision import Decisions

NAMES = ("chat", "moe", "search", "extra")
ROLLOUTS = (RolloutSpec(), RolloutSpec(max_surge=0, max_unavailable=1))
COUNTS = st.one_of(st.just(AUTO), st.integers(1, 4).map(lambda count: replace(external(count), min_replicas=1)))
SPECS = st.one_of(
    st.builds(open_pool, COUNTS, st.sampled_from([1.0, 100.0])),
    st.builds(pool_spec, st.sampled_from([1, 2, 4, 8]), COUNTS, rollout=st.sampled_from(ROLLOUTS)),
)
PRIORITIES = st.integers(0, 3)


def _is_no_node(action: tuple[Any, ...]) -> bool:
    return bool(action[0] != "node")


HAPPENS = st.one_of(
    actions.filter(_is_no_node),  # what nodes that do not answer leave is in docs/roadmap.md
    st.tuples(st.just("edit"), st.sampled_from(NAMES[:3]), SPECS),
    st.tuples(st.just("priority"), st.sampled_from(NAMES), PRIORITIES),
)


def without_events(decisions: Decisions) -> Decisions:
    return replace(decisions, pools=tuple(replace(each, events=()) for each in decisions.pools))


def at_rest(world: World) -> bool:
    """Whether a pass and one more at the same moment say the same."""
    first = world.decide()
    return world.decide() == without_events(first)


@settings(max_examples=30, deadline=None)
@given(
    first=st.lists(st.tuples(SPECS, PRIORITIES, st.booleans()), min_size=4, max_size=4),
    taken=st.lists(st.integers(0, GPUS), min_size=3, max_size=3),
    history=st.lists(HAPPENS, min_size=3, max_size=12),
)
@example(
    first=[(pool_spec(4, external(4)), 0, True), (pool_spec(8, external(1)), 3, True)] * 2,
    taken=[0, 0, 0],
    history=[("edit", "chat", pool_spec(2, external(4))), ("priority", "search", 3), ("wait", 2, 5.0)],
)
@example(  # a move for a pool that has none but a smaller shape
    first=[
        (open_pool(AUTO, 1.0), 1, False),
        (open_pool(AUTO), 0, False),
        (open_pool(replace(external(3), min_replicas=1), 1.0), 1, False),
        (pool_spec(8, AUTO), 0, False),
    ],
    taken=[0, 2, 7],
    history=[("crash", "chat", None)],
)
@example(  # a move that is called off, as a job leaves a place, and begins again for the next replica
    first=[(open_pool(AUTO, rate), 0, False) for rate in (1.0, 1.0, 1.0, 100.0)],
    taken=[3, 3, 5],
    history=[
        ("crash", "chat", None),
        ("edit", "chat", pool_spec(2, replace(external(2), min_replicas=1))),
        ("foreign", "b-0", 1),
    ],
)
@example(  # a better shape that has places for what stays, and not for one that leaves
    first=[
        (open_pool(replace(external(3), min_replicas=1), 1.0), 0, False),
        *[(open_pool(AUTO, 1.0), 0, False)] * 3,
    ],
    taken=[1, 2, 8],
    history=[("edit", "chat", open_pool(AUTO, 100.0))],
)
def test_a_second_pass_changes_nothing_where_pools_of_different_priority_crowd_each_other(
    first: list[tuple[PoolSpec, int, bool]], taken: list[int], history: list[Action]
) -> None:
    jobs = [busy(f"job-{name}", name, gpus) for name, gpus in zip(BOARDS, taken, strict=True) if gpus]
    world = World.of([board(name) for name in BOARDS], pods=jobs)
    world.budget = MoveBudget(per_hour=20, per_decision=3)
    for name, (spec, priority, preempts) in zip(NAMES, first, strict=True):
        world.pools[name] = replace(pool(name, spec, priority), preempts=preempts)
    for action in (("wait", 4, 5.0), *history):
        if action[0] == "priority":
            world.pools[action[1]] = replace(world.pools[action[1]], priority=action[2])
        else:
            happen(world, action)
        assert at_rest(world)


def low_beside_a_job() -> World:
    """Three replicas of four GPUs, the third beside somebody's job, which goes."""
    low = pool("low", pool_spec(4, replace(external(3), min_replicas=1)))
    world = World.of([board("b-0"), board("b-1")], low, pods=[busy("job", "b-1", 4)])
    world.turn(5)
    assert [("b-0",), ("b-0",), ("b-1",)] == sorted(world.nodes_of("low"))
    del world.pods["job"]
    return world


def test_who_gives_its_place_gets_another_one_that_is_free_in_the_same_pass() -> None:
    world = low_beside_a_job()
    world.pools["high"] = pool("high", pool_spec(8, external(1)), priority=9)
    world.now += 5
    world.decide()
    assert [("b-1",), ("b-1",)] == world.nodes_of("low")
    assert ["Preempted"] == [event.reason.value for event in world.decision("low").events]
    assert "2 of 3 replicas placed; H200 BF16 TP4 needs 4 GPUs free" in world.condition("low", "Placed")[2]
    assert at_rest(world)


def two_that_want_a_place() -> World:
    """Two pools come to a cluster that is full."""
    world = World.of([board(name) for name in BOARDS], pool("low", pool_spec(8, replace(external(3), min_replicas=1))))
    world.turn(5)
    for name, priority in (("first", 9), ("second", 5)):
        world.pools[name] = pool(name, pool_spec(8, external(1)), priority)
    world.now += 5
    return world


def test_one_place_is_taken_at_a_moment_however_often_it_is_decided() -> None:
    world = two_that_want_a_place()
    for _ in range(3):
        world.decide()
        assert 2 == len(world.status("low").assignments)
        assert ["Preempting", "NoSlot"] == [world.condition(name, "Placed")[1] for name in ("first", "second")]
    world.now += 1
    world.decide()
    assert 1 == len(world.status("low").assignments)
    assert ["Preempting"] * 2 == [world.condition(name, "Placed")[1] for name in ("first", "second")]


def test_no_more_moves_begin_at_a_moment_than_may_begin_at_once() -> None:
    """Two pools wait for a board each, of which one move opens the first, and another one the second."""
    small = pool("small", pool_spec(4, external(4), rollout=RolloutSpec(max_surge=4)))
    world = World.of([board(f"b-{index}") for index in range(4)], small)
    world.pods = {f"job-{index}": busy(f"job-{index}", f"b-{index}", 4) for index in range(4)}
    world.turn(5)
    assert 4 == len({*world.nodes_of("small")})
    world.pods = {name: pod for name, pod in world.pods.items() if not name.startswith("job")}
    world.budget = MoveBudget(per_hour=9, per_decision=1)
    for name in ("wide", "large"):
        world.pools[name] = pool(name, pool_spec(8, external(1)))
    for begun in (1, 2):
        world.now += 5
        for _ in range(2):
            world.decide()
            assert begun == len(world.status("small").moves)


def test_a_replica_whose_move_begins_again_makes_room_once() -> None:
    """For a moment a job has the place where it moves to, which calls the move off: it is told twice then."""
    small = pool("small", pool_spec(1, external(1)))
    world = World.of([board("b-0"), board("b-1")], small, pods=[busy("job-0", "b-0", 6)])
    world.turn(5)
    assert [("b-0",)] == world.nodes_of("small")
    world.pods["job-1"] = busy("job-1", "b-1", 7)
    world.budget = MoveBudget(per_hour=9, per_decision=1)
    world.pools["wide"] = pool("wide", pool_spec(2, external(1)))
    world.now += 5
    world.decide()
    assert ("b-0",) == world.status("wide").opening
    for seconds, gpus in ((5, 8), (5, 7)):
        world.now += seconds
        world.pods["job-1"] = busy("job-1", "b-1", gpus)
        world.decide()
    assert [0, 0] == [each.replica for each in world.status("small").moves]
    world.pools["third"] = pool("third", pool_spec(1, external(1)))
    world.now += 5
    world.decide()
    assert [] == world.nodes_of("third")
    assert "MovesUnderWay" == world.condition("wide", "Placed")[1]


def test_a_shape_changes_in_the_pass_in_which_its_replicas_become_fewer() -> None:
    """The cluster is full: only what the fewer replicas leave has room for the first one of the new shape."""
    four_gpus = pool_spec(4, replace(external(2), min_replicas=1))
    world = World.of([board("b-0")], pool("chat", four_gpus))
    world.turn(5)
    world.edit("chat", left_open(replace(four_gpus, scaling=ScalingSpec(max_replicas=1, headroom=0.0)), 1.0))
    world.now += 5
    world.decide()
    plan = world.status("chat").plan
    assert plan is not None
    assert 1 == plan.shape.gpus
    assert [4, 1] == [each.gpus_per_pod for each in world.status("chat").assignments]
    assert at_rest(world)


def test_who_is_too_many_goes_beside_who_does_not_answer() -> None:
    """Once nobody is left to be replaced, no successor needs room above the count."""
    world = World.of([board(name) for name in BOARDS], pool("chat", pool_spec(8, external(3))))
    world.turn(5)
    world.nodes = [replace(node, ready=node.name != "b-0") for node in world.nodes]
    world.edit("chat", pool_spec(8, external(1)))
    world.now += 5
    world.decide()
    assert 1 == len(world.status("chat").assignments)
    assert at_rest(world)


def test_a_successor_in_the_place_of_its_predecessor_takes_none_from_others() -> None:
    """Of a board two GPUs are left: one runs a replica that is replaced, the other is promised to a pool that came."""
    small = pool_spec(1, external(1), rollout=RolloutSpec(max_surge=0, max_unavailable=1))
    world = World.of([board("b-0")], pool("chat", small), pods=[busy("job", "b-0", GPUS - 2)])
    world.turn(5)
    world.pools["moe"] = pool("moe", small)
    world.now += 5
    world.decide()
    world.edit("chat", replace(small, engine=replace(small.engine, env=(("VERSION", "2"),))))
    world.now += 5
    for _ in range(2):
        world.decide()
        found = {name: [(each.replica, each.nodes) for each in world.status(name).assignments] for name in world.pools}
        assert {"chat": [(1, ("b-0",))], "moe": [(0, ("b-0",))]} == found
    world._follow()
    world.turn(6)
    assert [1, 1] == [world.serving(name) for name in ("chat", "moe")]
    assert 0 == world.status("moe").assignments[0].replica


def test_who_is_on_its_way_keeps_its_place_where_a_better_shape_gets_none() -> None:
    """A better shape has room in what leaves, until a pool of higher priority waits for that: nothing of it comes."""
    low = pool("low", open_pool(external(1, most=1), 30.0))
    jobs = busy("job-0", "b-0", GPUS - 2), busy("job-1", "b-1", GPUS - 1)
    world = World.of([board("b-0"), board("b-1")], low, pods=jobs)
    world.turn(5)
    world.nodes = [replace(node, ready=node.name != "b-0") for node in world.nodes]
    for seconds in (1, 40):
        world.now += seconds
        world.decide()
    world._follow()
    world.nodes = [replace(node, ready=True) for node in world.nodes]
    world.pools["high"] = pool("high", pool_spec(2, external(3)), priority=9)
    world.now += 1
    for _ in range(3):
        world.decide()
        assert ("False", "Preempting") == world.condition("high", "Placed")[:2]
        assert [(1, ("b-1",), 1)] == [
            (each.replica, each.nodes, each.gpus_per_pod) for each in world.status("low").assignments
        ]


def test_what_both_looks_tell_is_told_once_and_the_second_one_stands() -> None:
    world = two_that_want_a_place()
    decisions = world.decide()
    gave, more = Explanation(Reason.Preempted, "gave"), Explanation(Reason.ScaleDown, "fewer")
    first = replace(decisions, pools=tuple(replace(each, events=(gave,)) for each in decisions.pools))
    again = tuple(replace(each, events=(gave, more), recommended=7) for each in decisions.pools)
    found = both(first, replace(decisions, pools=again, wake_after_seconds=3.0))
    assert [(gave, more)] * 3 == [each.events for each in found.pools]
    assert [7] * 3 == [each.recommended for each in found.pools]
    assert 3.0 == found.wake_after_seconds


def test_the_second_look_sees_the_same_moment_with_what_was_decided() -> None:
    world = two_that_want_a_place()
    before = world.snapshot()
    decisions = world.decide()
    after = as_decided(before, decisions)
    assert {each.key.uid: each.status for each in decisions.pools} == {p.key.uid: p.status for p in after.pools}
    assert decisions.memory == after.memory
    assert replace(after, pools=before.pools, memory=before.memory) == before


def test_a_count_that_changes_beside_one_that_lacks_quota_is_looked_at_again() -> None:
    """What one pool has is what the others may have; where everybody has enough, it is nothing to them."""
    world = limited(2, {QUOTA: 8}, *(pool(name, pool_spec(4, external(2))) for name in ("chat", "moe")))
    world.turn(5)
    snapshot = world.snapshot()
    still = world.decide()
    assert ["BudgetExhausted"] * 2 == [world.condition(name, "Placed")[1] for name in ("chat", "moe")]
    fewer = [replace(each, status=replace(each.status, desired_replicas=0)) for each in still.pools]
    changed = replace(still, pools=(fewer[0], *still.pools[1:]))
    assert not may_change_again(snapshot, still)
    assert may_change_again(snapshot, changed)
    assert not may_change_again(replace(snapshot, quotas=()), changed)
    enough = tuple(replace(each, conditions=()) for each in changed.pools)
    assert not may_change_again(snapshot, replace(changed, pools=enough))
