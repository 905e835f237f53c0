"""vLLM on Ray: what the pods of a replica run, in which order they meet, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.ports import free_port
from tests.render.pools import RELEASE, RELEASES, plan, shape, spec
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import Balancing, EngineSpec
from weft.domain.workload import Role
from weft.engines import ContainerLaunch, LaunchRequest, adapter_for
from weft.engines.vllm.ray import HEAD, WORKER

if TYPE_CHECKING:
    from pathlib import Path

IMAGE = "registry.example/vllm-with-ray:1"
STAGES = plan(shape(4, "GB200", pipeline_parallel=2, gpus_per_pod=4))
RANKS = plan(shape(2, "GB200", data_parallel=4, expert_parallel=8, gpus_per_pod=4))
LISTENS = "import socket, sys, time; time.sleep(2); socket.create_server(('127.0.0.1', int(sys.argv[1]))).accept()"


def on_ray(*args: str, image: str | None = IMAGE) -> EngineSpec:
    return EngineSpec(args=args, image=image, distributed="Ray")


def launched(request: LaunchRequest) -> ContainerLaunch:
    return adapter_for(request.plan.engine.name).launch(request)


def test_the_first_pod_is_the_head_and_has_the_server() -> None:
    found = launched(LaunchRequest(spec(engine=on_ray("--seed", "1")), STAGES, 0, "leader"))
    assert found.command[:5] == ("python3", "-c", HEAD, "vllm", "serve")
    assert "--distributed-executor-backend ray" in " ".join(found.command)
    assert found.command[-2:] == ("--seed", "1")
    assert not {"--nnodes", "--node-rank", "--headless"} & set(found.command)
    assert found.readiness is not None
    assert [each.value for each in found.env if each.name == "RAY_USAGE_STATS_ENABLED"] == ["0"]


def test_the_others_lend_their_gpus_and_answer_nothing() -> None:
    found = launched(LaunchRequest(spec(engine=on_ray("--seed", "1")), STAGES, 1, "leader"))
    assert found.command[:4] == ("python3", "-c", WORKER, "leader")
    assert float(found.command[4]) >= 600
    assert (found.ports, found.readiness, found.startup) == ((), None, None)


def test_one_server_starts_the_ranks_of_all_pods() -> None:
    found = " ".join(launched(LaunchRequest(spec(engine=on_ray()), RANKS, 0, "leader")).command)
    assert "--data-parallel-size 4 --data-parallel-size-local 2 --data-parallel-backend ray" in found


def test_a_replica_in_one_pod_meets_nobody() -> None:
    one = plan(shape(4))
    assert launched(LaunchRequest(spec(engine=on_ray()), one)) == launched(LaunchRequest(spec(), one))


def programs(folder: Path) -> dict[str, str]:
    """A PATH on which `ray` and `server` write down how they were called."""
    for name in ("ray", "server"):
        program = folder / name
        program.write_text('#!/bin/sh\necho "$0" "$@" >> "$CALLED"\n')
        program.chmod(0o755)
    path = {"PATH": f"{folder}:{os.environ['PATH']}", "CALLED": str(folder / "called")}
    return {**os.environ, **path, "VLLM_HOST_IP": "::1"}


def called(folder: Path) -> list[str]:
    return [line.replace(f"{folder}/", "") for line in (folder / "called").read_text().splitlines()]


def test_the_head_runs_before_the_server_which_gets_its_arguments_as_they_are(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", HEAD, "server", "a b", "$(c)"], env=programs(tmp_path), check=True)
    head, server = called(tmp_path)
    assert head.startswith("ray start --head --port=6379 --include-dashboard=false --node-ip-address=::1 ")
    assert server == "server a b $(c)"


def test_a_worker_waits_for_its_head_and_then_joins_it(tmp_path: Path) -> None:
    """Nobody listens at first: it must neither join nor end."""
    port = str(free_port())
    worker = [sys.executable, "-c", WORKER.replace("6379", port), "127.0.0.1", "60"]
    with subprocess.Popen([sys.executable, "-c", LISTENS, port]):
        subprocess.run(worker, env=programs(tmp_path), check=True)
    (join,) = called(tmp_path)
    assert join.startswith(f"ray start --address=127.0.0.1:{port} --block --node-ip-address=::1 ")


def test_a_worker_whose_head_never_comes_ends(tmp_path: Path) -> None:
    worker = [sys.executable, "-c", WORKER.replace("6379", str(free_port())), "127.0.0.1", "0"]
    ended = subprocess.run(worker, env=programs(tmp_path), capture_output=True, check=False)
    assert ended.returncode != 0
    assert b"refused" in ended.stderr
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (LaunchRequest(spec(engine=on_ray(image=None)), STAGES), "is not in the image of vLLM 0.32.0"),
        (LaunchRequest(spec(Role.Decode, engine=on_ray()), STAGES), "in a Decode pool"),
        (LaunchRequest(spec(engine=on_ray()), plan(shape(1, "cpu"))), "without accelerators"),
        (LaunchRequest(spec(engine=on_ray(), balancing=Balancing.Hybrid), RANKS), "dataParallelBalancing Hybrid"),
    ],
)
def test_what_cannot_run_on_ray_is_refused_by_name(wanted: LaunchRequest, words: str) -> None:
    with pytest.raises(Invalid, match=words) as refused:
        launched(wanted)
    assert refused.value.reason is Reason.FeatureUnsupported
    assert "use Native" in refused.value.message


@pytest.mark.parametrize("engine", [EngineName.SGLang, EngineName.TensorRTLLM])
def test_other_engines_have_no_ray(engine: EngineName) -> None:
    with pytest.raises(Invalid, match=r"engine\.distributed Ray is not supported on"):
        launched(LaunchRequest(spec(engine=on_ray()), plan(shape(4, engine=engine), RELEASES[engine])))


def test_releases_that_depend_on_ray_have_it_in_their_image() -> None:
    old = replace(STAGES, engine=replace(RELEASE, version="0.17.1"))
    assert launched(LaunchRequest(spec(engine=on_ray(image=None)), old)).command[2] == HEAD
