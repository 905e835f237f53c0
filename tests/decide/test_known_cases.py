"""Cases of scaling that the suites of other operators run, and mistakes that their users reported, through `decide`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.decide.limited import GPUS, Limited
from tests.decide.test_rollouts import change, outdated, rolling_world
from tests.decide.test_splits import half, over_rdma, split_world
from tests.decide.world import WORKLOAD, World, external, pool, pool_spec
from tests.fabric.cluster import board, with_rdma
from tests.scaling.cases import seen
from weft.domain.quotas import QuotaRecord
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import RolloutSpec
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.spec import PoolSpec

AUTO = ScalingSpec(max_replicas=8, scale_down_delay_seconds=60.0, headroom=0.0)
PREFILL, DECODE = "pd-prefill", "pd-decode"
LONG_PROMPTS = replace(WORKLOAD, input_tokens=4000, output_tokens=150, input_tokens_p95=4000, output_tokens_p95=150)


def a_half(role: Role) -> PoolSpec:
    return over_rdma(replace(half(role, 1, AUTO), workload=LONG_PROMPTS))


def counts(world: World) -> tuple[int, int]:
    return world.status(PREFILL).desired_replicas, world.status(DECODE).desired_replicas


def capacity(world: World, name: str) -> float:
    """Requests per second of one replica."""
    plan = world.status(name).plan
    assert plan is not None
    return plan.prediction.capacity


def offer(world: World, rate: float, turns: int, *names: str, **fields: object) -> None:
    """Every ready replica reports, turn after turn."""
    for _ in range(turns):
        for name in names:
            told = seen(rate, world.serving(name))
            world.observations[f"uid-{name}"] = replace(told, **fields)  # type: ignore[arg-type]
        world.turn()


class TestPair:
    """Prompts of 4,000 tokens and answers of 150, replicas of one GPU: a pair that prefill limits."""

    @pytest.fixture
    def world(self) -> World:
        """One of each serves."""
        world = split_world(a_half(Role.Prefill), a_half(Role.Decode))
        world.turn(6)
        assert (world.serving(PREFILL), world.serving(DECODE)) == (1, 1)
        return world

    def test_from_8_to_18_requests_a_second_one_more_prefill_replica_is_ordered_at_once(self, world: World) -> None:
        """The end-to-end case of Dynamo's planner: 1P1D becomes 2P1D. Here 8 are four fifths of a prefill replica."""
        full = capacity(world, PREFILL)
        offer(world, 0.8 * full, 18, PREFILL, DECODE)
        assert counts(world) == (1, 1)
        offer(world, 0.8 * full * 18.0 / 8.0, 1, PREFILL, DECODE)
        assert counts(world) == (2, 1)
        offer(world, 0.8 * full * 18.0 / 8.0, 24, PREFILL, DECODE)
        assert counts(world) == (2, 1)

    @pytest.mark.parametrize(
        ("prompt", "answer", "grows", "stays"), [(12_000.0, 150.0, PREFILL, DECODE), (4000.0, 3000.0, DECODE, PREFILL)]
    )
    def test_longer_prompts_grow_prefill_alone_and_longer_answers_decode_alone(
        self, world: World, prompt: float, answer: float, grows: str, stays: str
    ) -> None:
        """KServe runs both halves apart; here one rate sizes both, by what its requests are made of."""
        rate = 0.8 * capacity(world, PREFILL)
        offer(world, rate, 3, PREFILL, DECODE)
        offer(world, rate, 1, PREFILL, DECODE, input_tokens=prompt, output_tokens=answer)
        assert world.status(grows).desired_replicas >= 3
        assert world.status(stays).desired_replicas == 1

    def test_prompts_that_are_found_in_the_cache_need_no_prefill_replica(self, world: World) -> None:
        """Dynamo's discount of cache hits: nine tenths of each prompt are known."""
        rate = 2.5 * capacity(world, PREFILL)
        offer(world, rate, 60, PREFILL, DECODE)
        assert counts(world) == (3, 1)
        lengths = {"input_tokens": 4000.0, "output_tokens": 150.0, "computed_input_tokens": 400.0}
        offer(world, rate, 60, PREFILL, DECODE, prefix_hit=0.9, **lengths)
        assert counts(world) == (1, 1)


def test_how_long_the_longest_answers_are_only_decode_tells() -> None:
    """And prefill is what tells of prompts; both halves know both."""
    world = split_world(a_half(Role.Prefill), a_half(Role.Decode))
    world.turn(6)
    for _ in range(30):
        for name, told in ((PREFILL, (8000.0, 150.0)), (DECODE, (4000.0, 450.0))):
            lengths = {"input_tokens": 4000.0, "output_tokens": 150.0}
            long = {"input_tokens_p95": told[0], "output_tokens_p95": told[1]}
            observation = replace(seen(8.0, world.serving(name)), **lengths, **long)  # type: ignore[arg-type]
            world.observations[f"uid-{name}"] = observation
        world.turn(1, seconds=30.0)
    for name in (PREFILL, DECODE):
        workload = world.memory[f"uid-{name}"].workload
        assert workload is not None
        assert (workload.input_tokens_p95, workload.output_tokens_p95) == pytest.approx((8000.0, 450.0), rel=0.03)


def test_halves_that_change_places_never_hold_more_than_the_quota() -> None:
    """ai-dynamo/dynamo#12428: the half that grows did not wait for the one that shrinks."""
    world = Limited.of([with_rdma(board(f"b-{index}")) for index in range(2)])
    assert isinstance(world, Limited)
    paired = split_world(a_half(Role.Prefill), a_half(Role.Decode))
    world.splits, world.pools = paired.splits, paired.pools
    world.quotas = (QuotaRecord("team", "gpus", ((GPUS, 6),), ()),)
    world.turn(6)
    rate = 0.8 * capacity(world, PREFILL)
    reached = []
    for lengths in ((12_000.0, 150.0), (4000.0, 3000.0), (12_000.0, 150.0)):
        for _ in range(60):
            offer(world, rate, 1, PREFILL, DECODE, input_tokens=lengths[0], output_tokens=lengths[1])
            assert world.used(GPUS) <= 6
        reached.append(counts(world))
        assert world.serving(PREFILL) + world.serving(DECODE) == sum(reached[-1])
    assert reached[0] == reached[2]
    assert reached[0][0] > reached[1][0]
    assert reached[0][1] < reached[1][1]


def test_two_pools_of_one_model_under_load_at_once_follow_their_own() -> None:
    """The parallel load of llm-d's autoscaler, where two of them scaled one target twice (#413 there)."""
    chat, code = pool("chat", pool_spec(1, AUTO)), pool("code", pool_spec(1, AUTO))
    world = World.of([board("b-0"), board("b-1")], chat, code)
    world.turn(5)
    full = capacity(world, "chat")
    for _ in range(8):
        world.observations["uid-chat"] = seen(2.5 * full, world.serving("chat"))
        world.observations["uid-code"] = seen(4.5 * full, world.serving("code"))
        world.turn()
    assert (world.serving("chat"), world.serving("code")) == (3, 5)


def test_nothing_is_taken_away_while_the_first_replicas_load_for_half_an_hour() -> None:
    """superlinked/sie#293: whoever loads answers nothing, which looked like nothing to do."""
    many = replace(pool_spec(1, AUTO), workload=replace(WORKLOAD, requests_per_second=50.0))
    world = World.of([board("b-0")], pool("chat", many))
    world.engines_start = False
    world.turn(2)
    first = world.status("chat").desired_replicas
    assert first >= 2
    world.turn(60, seconds=30.0)
    assert (world.status("chat").desired_replicas, len(world.status("chat").assignments)) == (first, first)
    world.engines_start = True
    world.turn(2)
    assert world.serving("chat") == first


def test_replicas_that_never_start_are_taken_back_when_nobody_needs_them_any_more() -> None:
    """ai-dynamo/dynamo#14251: while some could not start, nothing was decided."""
    world = World.of([board("b-0")], pool("chat", pool_spec(1, AUTO)))
    world.turn(5)
    full = capacity(world, "chat")
    world.engines_start = False
    serving = [pod.name for pod in world.pods.values() if pod.ready]
    for rate, turns in ((3.5 * full, 10), (0.5 * full, 40)):
        for _ in range(turns):
            offer(world, rate, 1, "chat")
            for name in serving:  # that one started long ago
                world.pods[name] = replace(world.pods[name], ready=True)
        reached = world.status("chat").desired_replicas
        assert reached == (4 if rate > full else 1)
    assert world.serving("chat") == 1
    assert {pod.name for pod in world.pods.values()} == set(serving)


def test_scaling_up_during_a_rollout_adds_replicas_of_the_new_revision_alone() -> None:
    """LeaderWorkerSet's scale during a rollout: nobody starts what is about to be replaced."""
    world = rolling_world(2, 5, RolloutSpec(max_surge=1, max_unavailable=0))
    old = {each.replica for each in world.status("chat").assignments}
    change(world)
    world.turn(2)
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=external(4)))
    for _ in range(40):
        world.turn()
        status = world.status("chat")
        assert all(each.revision == status.revision for each in status.assignments if each.replica not in old)
        assert world.serving("chat") >= 2
    assert (world.serving("chat"), outdated(world)) == (4, 0)
