"""Prefill replicas behind a router that goes by load: fewer of them for the same requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.test_learning import SLO
from tests.decide.test_splits import half, over_rdma, split, split_world
from tests.scaling.cases import seen
from weft.catalog import load
from weft.decide.plans.facts import Facts
from weft.decide.plans.planning import Planned, plan_pool
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.shape import EngineName, Shape
from weft.domain.spec import PoolSpec, RouterKind, RouterSpec
from weft.domain.workload import Role
from weft.fabric import build_fabric
from weft.shaping import share_a_front

MANAGED = RouterSpec(RouterKind.Managed)
AUTO = ScalingSpec(max_replicas=30)


def side(role: Role, rate: float = 40.0) -> PoolSpec:
    """A half that Weft sizes for long prompts, so that TTFT is what bounds prefill."""
    spec = over_rdma(replace(half(role, 1, AUTO), slo=SLO))
    workload = replace(spec.workload, requests_per_second=rate, input_tokens=8_000, input_tokens_p95=16_000)
    return replace(spec, workload=workload)


def sized(router: RouterSpec, rate: float = 40.0, prefix_hit: float = 0.0) -> tuple[int, int]:
    """How many replicas prefill and decode are given at first."""
    workload = replace(side(Role.Prefill, rate).workload, prefix_hit=prefix_hit)
    first, second = (replace(side(role), workload=workload) for role in (Role.Prefill, Role.Decode))
    world, record = split_world(first, second), split(first, second)
    assert record.spec is not None
    world.splits["pd"] = replace(record, spec=replace(record.spec, router=router))
    world.turn()
    return world.status("pd-prefill").desired_replicas, world.status("pd-decode").desired_replicas


def counted_with(hit: float | None) -> int:
    """How many prefill replicas are wanted once so many prefix hits are measured."""
    sides = side(Role.Prefill), side(Role.Decode)
    world = split_world(*sides, boards=8)
    world.splits["pd"] = split(*sides)
    world.turn(6)
    for _ in range(12):
        for name in ("pd-prefill", "pd-decode"):
            uid, ready = world.pools[name].key.uid, world.serving(name)
            lengths = replace(seen(40.0, ready), input_tokens=8_000.0, output_tokens=200.0)
            world.observations[uid] = replace(lengths, prefix_hit=hit)
        world.turn()
    return world.status("pd-prefill").desired_replicas


def shape() -> Shape:
    world = split_world(side(Role.Prefill), side(Role.Decode))
    world.turn()
    found = world.status("pd-prefill").plan
    assert found is not None
    return found.shape


def test_fewer_prefill_replicas_serve_the_same_behind_a_router_that_goes_by_load() -> None:
    alone, together = sized(RouterSpec(RouterKind.Nothing)), sized(MANAGED)
    assert together[0] < alone[0]
    assert together[1] == alone[1]


def test_a_lone_replica_is_counted_on_for_no_more() -> None:
    assert sized(MANAGED, rate=0.1) == sized(RouterSpec(RouterKind.Nothing), rate=0.1)


@pytest.mark.parametrize("router", [replace(MANAGED, image="example.org/router:1"), RouterSpec(RouterKind.Nothing)])
def test_a_router_that_is_not_wefts_choice_may_choose_as_it_likes(router: RouterSpec) -> None:
    assert sized(router) == sized(RouterSpec(RouterKind.Nothing))


@pytest.mark.parametrize(("hit", "by_prefix"), [(None, False), (0.04, False), (0.08, True)])
def test_measured_hits_say_how_a_router_chooses(hit: float | None, by_prefix: bool) -> None:  # noqa: FBT001
    """Lengths and hits of the live workload move by larger steps than this."""
    counts = [counted_with(measured) for measured in (0.0, hit)]
    assert (counts[1] > counts[0]) is by_prefix


def test_prompts_with_a_prefix_in_common_go_where_it_is() -> None:
    assert sized(MANAGED, prefix_hit=0.3) == sized(RouterSpec(RouterKind.Nothing), prefix_hit=0.3)


@pytest.mark.parametrize(
    ("engine", "known"), [(EngineName.VLLM, True), (EngineName.TensorRTLLM, True), (EngineName.SGLang, False)]
)
def test_each_engines_router_is_known_or_not(engine: EngineName, known: bool) -> None:  # noqa: FBT001
    assert share_a_front(Role.Prefill, replace(shape(), engine=engine), 0.0) is known


def test_neither_answers_nor_ranks_are_the_routers_to_choose() -> None:
    found = shape()
    assert share_a_front(Role.Prefill, found, 0.0)
    assert not share_a_front(Role.Decode, found, 0.0)
    assert not share_a_front(Role.Prefill, replace(found, data_parallel=2), 0.0)


def test_a_plan_costs_what_runs() -> None:
    sides = side(Role.Prefill), side(Role.Decode)
    world = split_world(*sides)
    world.splits["pd"] = split(*sides)
    world.turn()
    status = world.status("pd-prefill")
    assert status.plan is not None
    assert status.plan.verdict.message.startswith(f"{status.desired_replicas} x ")


def test_every_capacity_of_a_plan_is_of_replicas_in_company() -> None:
    """Of what is measured, of what was declared, and of the shape that it leaves."""
    world = split_world(side(Role.Prefill), side(Role.Decode))
    world.turn()
    record, facts = world.pools["pd-prefill"], Facts(build_fabric(world.nodes, (), load()), load())
    assert record.spec is not None
    live = replace(record.spec.workload, input_tokens=7_000.0)
    now = record.status.plan
    assert now is not None
    earlier = replace(now, shape=replace(now.shape, tensor_parallel=2 * now.shape.tensor_parallel))
    record = replace(record, status=replace(record.status, plan=earlier))
    planned = plan_pool(record, facts, live, now, managed=True)
    assert isinstance(planned, Planned)
    assert planned.before is not None
    known = (planned.capacity, planned.declared, planned.before)
    assert len({each.alone for each in known[:2]}) == 2
    assert all(each.each(4) > 1.05 * each.alone for each in known)
    assert planned.before.gains != planned.declared.gains
    apart = planned.sharing_no_queue()
    assert apart.before is not None
    assert [each.of(4) for each in (apart.capacity, apart.declared, apart.before)] == [4 * each.alone for each in known]
