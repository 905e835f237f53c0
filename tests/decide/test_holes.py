"""Where the best shape has no place at all, a pool takes the next in rank that has one, and comes back to it later."""

from __future__ import annotations

from dataclasses import replace

from tests.decide.test_splits import over_rdma, split_world
from tests.decide.world import World, expert_spec, external, pool, pool_spec
from tests.fabric.cluster import board, busy, rack, with_rdma
from weft.domain.cluster import ContainerFailure
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import PoolSpec, RolloutSpec, RolloutStrategy, ShapePins
from weft.domain.workload import Role, Slo, Workload

ONE_OF_EIGHT = 8


def free_spec(rate: float = 100.0, most: int = 2, rollout: RolloutSpec | None = None) -> PoolSpec:
    """A pool whose shape is left open. Few replicas are allowed, so that only a large one serves the whole rate."""
    spec = pool_spec(1, ScalingSpec(max_replicas=most, headroom=0.0), rollout=rollout)
    load = Workload(rate, input_tokens=1000, output_tokens=200, input_tokens_p95=2000, output_tokens_p95=400)
    return replace(spec, shape=ShapePins(), workload=load, slo=Slo(tpot=((95, 0.05),)))


def crowded(*busy_gpus: int, spec: PoolSpec | None = None) -> World:
    """Boards of eight with so many GPUs taken on each."""
    nodes = [board(f"b-{index}") for index in range(len(busy_gpus))]
    jobs = [busy(f"job-{index}", f"b-{index}", gpus) for index, gpus in enumerate(busy_gpus) if gpus]
    return World.of(nodes, pool("chat", spec or free_spec()), pods=jobs)


def best_gpus() -> int:
    """GPUs of a replica where everything is free."""
    world = crowded(0, 0)
    world.turn()
    plan = world.status("chat").plan
    assert plan is not None
    return plan.shape.gpus


def test_small_holes_take_a_smaller_shape_and_say_what_would_be_better() -> None:
    wanted = best_gpus()
    assert wanted > 1
    world = crowded(ONE_OF_EIGHT - wanted + 1, ONE_OF_EIGHT - wanted + 1)
    world.turn(6)
    plan = world.status("chat").plan
    assert plan is not None
    assert 0 < plan.shape.gpus < wanted
    assert world.serving("chat") >= 1
    status, reason, message = world.condition("chat", "Planned")
    assert (status, reason) == ("True", "HolesTooSmall")
    assert f"TP{wanted} would be better, but nothing has room for 2 of it" in message
    assert plan.alternatives[0].shape.gpus == wanted
    assert plan.alternatives[0].verdict.reason is Reason.NoSlot


def test_the_better_shape_follows_when_a_hole_opens_and_replaces_without_a_gap() -> None:
    wanted = best_gpus()
    taken = ONE_OF_EIGHT - wanted + 1
    world = crowded(taken, taken)
    world.turn(6)
    before = world.serving("chat")
    world.nodes += [board("b-8"), board("b-9")]
    for _ in range(15):
        world.turn()
        assert world.serving("chat") >= min(before, 1)
    plan = world.status("chat").plan
    assert plan is not None
    assert (plan.shape.gpus, plan.verdict.reason) == (wanted, Reason.ShapeChosen)


def test_a_frozen_pool_keeps_its_shape_until_the_freeze_ends() -> None:
    """A larger shape would double its GPUs and start all of it anew, while somebody on call looks at it."""
    wanted = best_gpus()
    taken = ONE_OF_EIGHT - wanted + 1
    world = crowded(taken, taken)
    world.turn(6)
    before, chat = world.status("chat"), world.pools["chat"]
    assert before.plan is not None
    freeze(world, "chat", 3600.0)
    world.nodes += [board("b-8"), board("b-9")]
    world.turn(15)
    after = world.status("chat")
    assert after.plan is not None
    assert (after.plan.shape, after.assignments) == (before.plan.shape, before.assignments)
    status, reason, message = world.condition("chat", "Planned")
    assert (status, reason) == ("True", "Frozen")
    assert f"TP{wanted} would be better, but spec.scaling.freezeUntil keeps the shape until" in message
    world.pools["chat"] = replace(world.pools["chat"], spec=chat.spec)
    world.turn(15)
    assert gpus_that_serve(world) == 2 * wanted


def test_a_frozen_pool_follows_a_shape_that_its_user_pins() -> None:
    world = crowded(0, 0, spec=free_spec(rate=1.0))
    world.turn(6)
    freeze(world, "chat", 3600.0)
    chat = world.pools["chat"]
    assert chat.spec is not None
    world.pools["chat"] = replace(chat, spec=replace(chat.spec, shape=ShapePins(tensor_parallel=8)))
    world.turn(15)
    assert gpus_that_serve(world) == ONE_OF_EIGHT


def test_a_frozen_pool_that_loses_its_only_replica_starts_in_the_same_shape() -> None:
    wanted = best_gpus()
    taken = ONE_OF_EIGHT - wanted + 1
    world = crowded(taken, spec=free_spec(most=1))
    world.turn(6)
    before = world.status("chat").plan
    assert before is not None
    freeze(world, "chat", 3600.0)
    world.nodes += [board("b-8"), board("b-9")]
    for name in [name for name in world.pods if name.startswith("chat-")]:
        world.end(name, ContainerFailure("Error", "RuntimeError: no", exit_code=1))
    world.turn(20)
    after = world.status("chat").plan
    assert after is not None
    assert (after.shape, world.serving("chat")) == (before.shape, 1)


def test_a_freeze_that_is_prolonged_is_told_with_its_new_end() -> None:
    taken = ONE_OF_EIGHT - best_gpus() + 1
    world = crowded(taken, taken)
    world.turn(6)
    freeze(world, "chat", 3600.0)
    world.nodes += [board("b-8"), board("b-9")]
    world.turn(3)
    first = world.condition("chat", "Planned")[2]
    freeze(world, "chat", 7200.0)
    world.turn(3)
    second = world.condition("chat", "Planned")[2]
    assert first != second
    assert "freezeUntil" in first
    assert "freezeUntil" in second


def gpus_that_serve(world: World) -> int:
    """GPUs of a replica, times those that serve."""
    plan = world.status("chat").plan
    return 0 if plan is None else plan.shape.gpus * world.serving("chat")


def freeze(world: World, name: str, seconds: float) -> None:
    """As `spec.scaling.freezeUntil` does."""
    pool = world.pools[name]
    assert pool.spec is not None
    scaling = replace(pool.spec.scaling, freeze_until=world.now + seconds)
    world.pools[name] = replace(pool, spec=replace(pool.spec, scaling=scaling))


def test_a_running_shape_stays_until_the_better_one_has_a_place() -> None:
    """The rate grew fourfold, which wants a larger replica; the other board is full."""
    world = crowded(0, 0, spec=free_spec(rate=1.0))
    world.turn(6)
    small = world.status("chat").plan
    assert small is not None
    wanted = best_gpus()
    assert small.shape.gpus < wanted
    gap = ONE_OF_EIGHT - small.shape.gpus - wanted + 1
    assert gap > 0
    for name in ("b-0", "b-1"):
        held = sum(sum(count for _, count in pod.requests) for pod in world.pods.values() if pod.node == name)
        job = busy(f"job-{name}", name, ONE_OF_EIGHT - held - wanted + 1)
        world.pods[job.name] = job
    world.edit("chat", free_spec())
    world.turn(8)
    plan = world.status("chat").plan
    assert plan is not None
    assert plan.shape == small.shape
    assert plan.verdict.reason is Reason.HolesTooSmall
    world.nodes.append(board("b-9"))
    world.turn(8)
    plan = world.status("chat").plan
    assert plan is not None
    assert plan.shape.gpus == wanted


def test_who_waits_after_a_failure_keeps_its_shape_though_its_hole_goes_to_another() -> None:
    """L1 and F10: the wait is one of the pool, and a second pass of the same moment finds the hole taken."""
    world = waiting_beside_a_newcomer()
    small = world.status("chat").plan
    assert small is not None
    first = world.decide()
    assert world.condition("chat", "Placed")[1] == "BackingOff"
    assert len(world.nodes_of("search")) == 1
    second = world.decide()
    assert second == replace(first, pools=tuple(replace(each, events=()) for each in first.pools))
    assert (world.status("chat").plan, world.nodes_of("chat")) == (small, [])


def test_once_the_wait_is_over_it_takes_the_next_shape_that_has_a_place() -> None:
    world = waiting_beside_a_newcomer()
    small = world.status("chat").plan
    assert small is not None
    world.turn(8)
    plan = world.status("chat").plan
    assert plan is not None
    assert (plan.shape.gpus, plan.verdict.reason) == (1, Reason.HolesTooSmall)
    assert small.shape.gpus > plan.shape.gpus
    assert world.serving("chat") >= 1


def test_a_better_shape_that_gets_a_place_does_not_wait_for_the_one_that_failed() -> None:
    world = waiting_beside_a_newcomer()
    world.decide()
    world.nodes.append(board("b-9"))
    world.now += 1.0
    world.decide()
    plan = world.status("chat").plan
    assert plan is not None
    assert plan.shape.gpus == best_gpus()
    assert world.nodes_of("chat")[0] == ("b-9",)


def waiting_beside_a_newcomer() -> World:
    """A pool in its second best shape, all of whose engines just ended, and one of lower priority that wants its hole.

    What else is free is one GPU.
    """
    hole = best_gpus() // 2
    assert hole > 1
    world = crowded(ONE_OF_EIGHT - hole, ONE_OF_EIGHT - 1)
    world.turn(6)
    plan = world.status("chat").plan
    assert plan is not None
    assert plan.shape.gpus == hole
    assert world.serving("chat") == 1
    world.end("chat-0-0", ContainerFailure("Error", "RuntimeError: no", 1))
    world.pools["search"] = pool("search", pool_spec(hole), priority=-1)
    world.now += 1.0
    return world


def test_a_pinned_shape_is_never_replaced_by_another() -> None:
    jobs = [busy(f"job-{index}", f"a.1-t{index}", 4) for index in range(4)]
    world = World.of(rack("a.1"), pool("wide", expert_spec(1, 64)), pods=jobs)
    world.turn(5)
    plan = world.status("wide").plan
    assert plan is not None
    assert plan.shape.gpus == 64
    assert world.condition("wide", "Placed")[:2] == ("False", "NoSlot")


def test_half_a_rack_holds_an_expert_group_of_half_the_size() -> None:
    """EP16 where EP32 has no hole: what is left open of the shape is chosen by what there is."""
    spec = expert_spec(1, 32)
    spec = replace(
        spec,
        shape=ShapePins(tensor_parallel=1),
        scaling=external(1),
        workload=replace(spec.workload, requests_per_second=400.0),
        slo=Slo(tpot=((95, 0.05),)),
    )
    spec = replace(spec, scaling=ScalingSpec(max_replicas=1, headroom=0.0))
    empty = World.of(rack("a.1"), pool("moe", spec))
    empty.turn()
    best = empty.status("moe").plan
    assert best is not None
    assert best.shape.pods > 1
    jobs = [busy(f"job-{index}", f"a.1-t{index}", 4) for index in range(18 - best.shape.pods + 1)]
    world = World.of(rack("a.1"), pool("moe", spec), pods=jobs)
    world.turn(6)
    plan = world.status("moe").plan
    assert plan is not None
    assert 1 <= plan.shape.pods < best.shape.pods
    assert world.serving("moe") == 1


def test_shapes_that_were_only_tried_leave_nothing_to_remember() -> None:
    """No hole for any shape: what is remembered is what the planned one, pinned, would leave."""
    open_, best = crowded(8, 8), best_gpus()
    pins = ShapePins(tensor_parallel=best, pipeline_parallel=1, data_parallel=1)
    pinned = crowded(8, 8, spec=replace(free_spec(), shape=pins))
    for world in (open_, pinned):
        world.turn(3)
        assert world.condition("chat", "Placed")[1] == "NoSlot"
    assert open_.memory == pinned.memory


def open_split(*busy_gpus: int) -> World:
    """Both halves leave their shapes open; few replicas are allowed, so that only large ones serve the whole rate."""
    prefill, decode = (over_rdma(replace(free_spec(), role=role)) for role in (Role.Prefill, Role.Decode))
    world = split_world(prefill, decode, boards=len(busy_gpus))
    jobs = [busy(f"job-{index}", f"b-{index}", gpus) for index, gpus in enumerate(busy_gpus) if gpus]
    world.pods = {job.name: job for job in jobs}
    return world


def shapes_of(world: World) -> tuple[int, int]:
    """GPUs of a replica of each half."""
    plans = [world.status(name).plan for name in ("pd-prefill", "pd-decode")]
    return tuple(plan.shape.gpus if plan is not None else 0 for plan in plans)  # type: ignore[return-value]


def test_both_halves_of_a_split_take_shapes_that_have_a_place() -> None:
    """The better pair comes back, without a gap, once the fabric has room for it."""
    empty = open_split(0, 0, 0, 0)
    empty.turn()
    best = shapes_of(empty)
    assert max(best) > 1
    taken = ONE_OF_EIGHT - max(best) + 1
    world = open_split(taken, taken, taken)
    world.turn(8)
    assert sum(shapes_of(world)) < sum(best)
    assert world.serving("pd-prefill") >= 1
    assert world.serving("pd-decode") >= 1
    assert "HolesTooSmall" in {world.condition(name, "Planned")[1] for name in ("pd-prefill", "pd-decode")}
    world.turn(4)
    assert world.serving("pd-decode") >= 1
    world.nodes += [with_rdma(board(f"b-{index}")) for index in range(5, 9)]
    for _ in range(20):
        world.turn()
        assert world.serving("pd-prefill") >= 1
        assert world.serving("pd-decode") >= 1
    assert best == shapes_of(world)


def test_a_replica_that_left_for_another_shape_leaves_once() -> None:
    """It waits behind its gates on a rack that the spec no longer allows, and the best shape on boards has no place."""
    taken = ONE_OF_EIGHT - best_gpus() + 1
    jobs = [busy("job", "b-0", taken)]
    world = World.of([*rack("a.1", 1), board("b-0")], pool("chat", pool_spec(1, accelerator="GB200")), pods=jobs)
    world.decide()
    assert [("a.1-t0",)] == world.nodes_of("chat")
    world.edit("chat", free_spec())
    world.decide()
    assert {("b-0",)} == set(world.nodes_of("chat"))
    assert "HolesTooSmall" == world.condition("chat", "Planned")[1]


def test_a_half_without_its_other_half_changes_no_shape() -> None:
    """As while its child pools are being made: the decision for everybody else goes on."""
    taken = ONE_OF_EIGHT - best_gpus() + 1
    world = open_split(taken, taken, taken)
    del world.pools["pd-decode"]
    world.decide()
    assert "pd-prefill" in {each.key.name for each in world.decide().pools}


def test_what_leaves_already_is_not_counted_twice() -> None:
    """A smaller shape on four boards where the better one never fits, and one place for that elsewhere, two wanted."""
    spec = replace(free_spec(rate=200.0), scaling=external(4, 4))
    world = crowded(5, 5, 5, 5, spec=spec)
    world.turn(8)
    world.nodes.append(board("b-9"))
    world.pods["job-9"] = busy("job-9", "b-9", 4)
    world.edit("chat", replace(spec, scaling=external(2, 4)))
    world.turn(6)
    plan = world.status("chat").plan
    assert plan is not None
    assert 2 == plan.shape.gpus
    assert ("True", "AllPlaced") == world.condition("chat", "Placed")[:2]


def test_a_pool_that_is_made_anew_keeps_its_shape_while_its_pods_leave() -> None:
    """With Recreate nothing is left to run in the smaller shape for a pass, and no better one has room either."""
    spec = free_spec(rollout=RolloutSpec(strategy=RolloutStrategy.Recreate))
    world = crowded(ONE_OF_EIGHT - best_gpus() + 1, ONE_OF_EIGHT - best_gpus() + 1, spec=spec)
    world.turn(8)
    small = world.status("chat").plan
    assert small is not None
    assert small.shape.gpus < best_gpus()
    world.edit("chat", replace(spec, engine=replace(spec.engine, env=(("VERSION", "2"),))))
    for _ in range(8):
        world.turn()
        now = world.status("chat").plan
        assert now is not None
        assert small.shape == now.shape
    assert 2 == world.serving("chat")
