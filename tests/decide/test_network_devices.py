"""Pods that ask for network devices beside their GPUs: those are counted as no GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.world import NVIDIA, World, external, pool, pool_spec
from tests.fabric.cluster import board, busy
from weft.catalog import load
from weft.cli.drain.draining import drain
from weft.decide.counting.accounts import Accounts
from weft.decide.plans.facts import Facts
from weft.decide.plans.planning import Planned, plan_pool
from weft.domain.quotas import QuotaRecord
from weft.domain.spec import RolloutSpec
from weft.fabric import build_fabric
from weft.twin.cluster.pods import SimulatedPod

if TYPE_CHECKING:
    from weft.domain.cluster import PodRecord
    from weft.domain.fabric import Fabric

NICS = ("rdma/ib", 8)


def with_nics(pod: PodRecord) -> PodRecord:
    return replace(pod, requests=(*(each for each in pod.requests if each != NICS), NICS))


def fabric_of(world: World) -> Fabric:
    return build_fabric(world.nodes, tuple(world.pods.values()), load())


def test_what_leaves_a_board_is_promised_to_one_replica_and_not_to_two() -> None:
    """S2: eight GPUs and eight NICs are not sixteen GPUs."""
    rollout = RolloutSpec(max_surge=0, max_unavailable=1.0)
    world = World.of([board("b-0")], pool("chat", pool_spec(8, external(1), rollout=rollout)))
    world.turn(5)
    world.pods = {name: with_nics(pod) for name, pod in world.pods.items()}
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=external(2), engine=replace(spec.engine, env=(("VERSION", "2"),))))
    world.decide()
    assert [("b-0",)] == world.nodes_of("chat")
    assert ("False", "NoSlot") == world.condition("chat", "Placed")[:2]


def test_pods_that_leave_give_a_quota_back_what_it_counts() -> None:
    world = World.of([board("b-0")], pool("chat", pool_spec(8)))
    planned = plan_pool(world.pools["chat"], Facts(fabric_of(world), load()))
    assert isinstance(planned, Planned)
    limits = (f"requests.{NVIDIA}", 16), ("pods", 4)
    accounts = Accounts.of([QuotaRecord("team", "gpus", limits, limits)])
    accounts.give_back(planned, [with_nics(busy("chat-0-0", "b-0", 8))])
    assert [8, 1] == [account.left for account in accounts.by_namespace["team"]]


def test_a_drain_tells_the_gpus_of_others_and_no_nics() -> None:
    jobs = with_nics(busy("job", "b-0", 4)), replace(busy("relay", "b-0", 0), requests=(NICS,))
    world = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec(1)), pods=jobs)
    assert (("default/job", 4),) == drain(world.snapshot(), {"b-0"}, load()).others


def test_a_simulation_counts_gpu_hours_and_no_nic_hours() -> None:
    assert 4 == SimulatedPod(with_nics(busy("chat-0-0", "b-0", 4))).gpus
