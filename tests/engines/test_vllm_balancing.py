"""Data-parallel ranks of vLLM: what each pod is started with, and what vLLM would refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.render.pools import RELEASE, plan, shape, spec
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, Shape
from weft.domain.spec import Balancing, EngineSpec, RolloutSpec
from weft.engines import ContainerLaunch, LaunchRequest, adapter_for

OVER_TWO_PODS = shape(2, "GB200", data_parallel=4, expert_parallel=8, gpus_per_pod=4)
ONE_RANK_A_POD = shape(4, "GB200", data_parallel=2, expert_parallel=8, gpus_per_pod=4)
IN_ONE_POD = shape(1, "H200", data_parallel=8, expert_parallel=8)
ALONE = shape(4, "H200")


def launched(
    balancing: Balancing, chosen: Shape, rank: int = 0, *args: str, version: str = "0.32.0"
) -> ContainerLaunch:
    wanted = spec(balancing=balancing, engine=EngineSpec(args=args), rollout=RolloutSpec(drain_timeout_seconds=60))
    asked = LaunchRequest(wanted, plan(chosen, replace(RELEASE, version=version)), rank, "leader")
    return adapter_for(EngineName.VLLM).launch(asked)


@pytest.mark.parametrize(
    ("balancing", "chosen", "first", "second"),
    [
        (
            Balancing.Internal,
            OVER_TWO_PODS,
            "--data-parallel-size 4 --data-parallel-size-local 2 --data-parallel-address $(VLLM_HOST_IP)",
            "--headless --data-parallel-size 4 --data-parallel-size-local 2 --data-parallel-start-rank 2 ",
        ),
        (
            Balancing.Hybrid,
            OVER_TWO_PODS,
            "--data-parallel-size-local 2 --data-parallel-hybrid-lb --data-parallel-start-rank 0 ",
            "--data-parallel-size-local 2 --data-parallel-hybrid-lb --data-parallel-start-rank 2 ",
        ),
        (
            Balancing.External,
            ONE_RANK_A_POD,
            "--data-parallel-size 2 --data-parallel-rank 0 --data-parallel-address $(VLLM_HOST_IP)",
            "--data-parallel-size 2 --data-parallel-rank 1 --data-parallel-address leader ",
        ),
        (
            Balancing.Hybrid,  # vLLM would go over to External by itself
            ONE_RANK_A_POD,
            "--data-parallel-size 2 --data-parallel-rank 0 ",
            "--data-parallel-size 2 --data-parallel-rank 1 ",
        ),
        (
            Balancing.MultiPort,
            OVER_TWO_PODS,
            "--data-parallel-size-local 2 --data-parallel-multi-port-external-lb --data-parallel-start-rank 0 ",
            "--data-parallel-size-local 2 --data-parallel-multi-port-external-lb --data-parallel-start-rank 2 ",
        ),
    ],
)
def test_each_pod_is_told_its_ranks(balancing: Balancing, chosen: Shape, first: str, second: str) -> None:
    commands = [" ".join(launched(balancing, chosen, rank).command) for rank in (0, 1)]
    assert first in commands[0]
    assert second in commands[1]
    assert ["--headless" in command for command in commands] == [False, balancing is Balancing.Internal]


@pytest.mark.parametrize("balancing", Balancing)
def test_one_rank_leaves_nothing_to_balance(balancing: Balancing) -> None:
    assert launched(balancing, ALONE) == launched(Balancing.Internal, ALONE)


def test_one_pod_balances_its_ranks_itself_unless_each_takes_a_port() -> None:
    assert launched(Balancing.Hybrid, IN_ONE_POD) == launched(Balancing.Internal, IN_ONE_POD)
    found = launched(Balancing.MultiPort, IN_ONE_POD)
    assert [(port.name, port.number) for port in found.ports[:2]] == [("http", 8000), ("http-1", 8001)]
    assert (len(found.ports), found.api_servers) == (8, 8)
    assert "--data-parallel-address" not in found.command


@pytest.mark.parametrize(("balancing", "port"), [(Balancing.Hybrid, 8000), (Balancing.MultiPort, 9256)])
def test_every_pod_that_answers_is_ready_by_itself(balancing: Balancing, port: int) -> None:
    """At several ports only vLLM's supervisor knows whether all of them are."""
    for rank in (0, 1):
        found = launched(balancing, OVER_TWO_PODS, rank)
        assert found.startup is not None
        assert found.readiness is not None
        assert [found.startup.port, found.readiness.port] == [port, port]


def test_a_worker_that_answers_nothing_is_not_asked() -> None:
    worker = launched(Balancing.Internal, OVER_TWO_PODS, 1)
    assert (worker.ports, worker.startup, worker.readiness, worker.api_servers) == ((), None, None, None)


@pytest.mark.parametrize(
    ("balancing", "chosen"), [(Balancing.Hybrid, OVER_TWO_PODS), (Balancing.MultiPort, IN_ONE_POD)]
)
def test_ranks_that_step_together_all_serve_until_the_drain_is_over(balancing: Balancing, chosen: Shape) -> None:
    """One that exits as soon as it is empty would hold up the steps of those that are not."""
    found = launched(balancing, chosen)
    assert "--shutdown-timeout" not in found.command
    assert (found.pre_stop_seconds, found.grace_seconds) == (65, 70)


@pytest.mark.parametrize(
    ("balancing", "args", "version", "reason", "words"),
    [
        (Balancing.MultiPort, (), "0.22.0", Reason.EngineUnsupported, "allowed: 0.22.1 or later"),
        (Balancing.MultiPort, ("--api-server-count", "2"), "0.32.0", Reason.ArgumentConflict, "--api-server-count"),
        (Balancing.Hybrid, ("--enable-elastic-ep",), "0.32.0", Reason.ArgumentConflict, "--enable-elastic-ep"),
        (Balancing.External, ("-dph",), "0.32.0", Reason.ArgumentConflict, "use spec.shape.dataParallelBalancing"),
        (Balancing.MultiPort, ("--data-parallel-supervisor-port=9300",), "0.32.0", Reason.ArgumentConflict, "Weft"),
    ],
)
def test_what_vllm_would_refuse_is_refused_by_name(
    balancing: Balancing, args: tuple[str, ...], version: str, reason: Reason, words: str
) -> None:
    chosen = ONE_RANK_A_POD if balancing is Balancing.External else OVER_TWO_PODS
    with pytest.raises(Invalid, match=words) as refused:
        launched(balancing, chosen, 0, *args, version=version)
    assert refused.value.reason is reason


@pytest.mark.parametrize("chosen", [OVER_TWO_PODS, shape(16, "GB200", gpus_per_pod=8)])
@pytest.mark.parametrize(
    "asked",
    [("--api-server-count", "4"), ("--api_server_count=4",), ("-asc", "4"), ("--api-server", "4"), ("--api-s=4",)],
)
def test_api_servers_are_asked_of_the_pod_that_has_them(chosen: Shape, asked: tuple[str, ...]) -> None:
    """`vllm serve --headless` ends where any number is asked of it (`entrypoints/cli/serve.py` of 0.32)."""
    first, second = (launched(Balancing.Internal, chosen, rank, *asked, "--seed", "1").command for rank in (0, 1))
    assert first[-len(asked) - 2 :] == (*asked, "--seed", "1")
    assert "--headless" in second
    assert second[-4:] == ("--port", "8000", "--seed", "1")


def test_what_vllm_takes_beside_it_stays() -> None:
    for balancing, count in ((Balancing.MultiPort, "1"), (Balancing.Hybrid, "2")):
        command = launched(balancing, OVER_TWO_PODS, 0, "--api-server-count", count).command
        assert command[-2:] == ("--api-server-count", count)
