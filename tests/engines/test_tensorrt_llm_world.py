"""TensorRT-LLM over several pods: what each runs, how they meet, and that nothing else gets in between."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.ports import free_port
from tests.eventually import eventually
from tests.render.pools import spec
from tests.render.tensorrt_llm_shapes import planned
from weft.catalog import mpi_program
from weft.domain.errors import Invalid
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, RolloutSpec
from weft.engines import ContainerLaunch, LaunchRequest, adapter_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STAGES = planned(8, pipeline_parallel=2, gpus_per_pod=8)
PATH = "/etc/engine/mpi_world.py"

# What Open MPI gave its agent to have read by a shell of another pod: 4.1.7 and 5.0.8, as it ran.
LINES = {
    "4.1.7": (
        [" orted", "--daemonize", "-mca", "ess", '"env"', "-mca", "orte_node_regex", '"c3a44-3-0,rank-[1:1]@0(2)"'],
        ["orted", "-mca", "ess", "env", "-mca", "orte_node_regex", "c3a44-3-0,rank-[1:1]@0(2)"],
    ),
    "5.0.8": (
        [
            "PRTE_PREFIX=/opt/hpcx/ompi;export PRTE_PREFIX;LD_LIBRARY_PATH=/opt/lib:$LD_LIBRARY_PATH;/opt/bin/prted",
            *("--daemonize", "--prtemca", "prte_hnp_uri", '"prterun-c3a44-3-0-1@0.0;tcp://10.0.0.1:44421:24"'),
        ],
        ["prted", "--prtemca", "prte_hnp_uri", "prterun-c3a44-3-0-1@0.0;tcp://10.0.0.1:44421:24"],
    ),
}
NOTES = """#!/bin/sh
echo "$(basename "$0")" "$@" >> "$NOTES"
"""
# Asks for a daemon in each other pod, runs its first rank, and waits to be ended.
MPIRUN = """#!/usr/bin/env python3
import json, os, shlex, signal, subprocess, sys
with open(os.environ["NOTES"], "a") as notes:
    print("mpirun", *sys.argv[1:], file=notes)
hosts = sys.argv[sys.argv.index("-H") + 1].split(",")
agent = shlex.split(os.environ["PRTE_MCA_plm_ssh_agent"])
for host in hosts[1:]:
    subprocess.run([*agent, host.partition(":")[0], *json.loads(os.environ["LINE"])], check=True)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
os.environ["MPIRUN"] = str(os.getpid())
subprocess.Popen(sys.argv[sys.argv.index("none") + 1 :])
while True:
    signal.pause()
"""
# As the engine's own script does, it splits what it is given at spaces.
LAUNCH = """#!/bin/bash
task="${@:1}"
$task
"""


# Says that it was told to go, and is done a moment later.
DRAINS = """#!/usr/bin/env python3
import os, signal, time
def note(words):
    with open(os.environ["NOTES"], "a") as notes:
        print(words, file=notes)
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(note("told to go")))
note("up")
while not told:
    time.sleep(0.05)
time.sleep(0.5)
os.kill(int(os.environ["MPIRUN"]), 0)
note("finished, mpirun still there: yes")
"""


@dataclass(frozen=True)
class Image:
    """A folder with the programs of an image, where each writes down how it was called, and the program of ours."""

    folder: Path
    port: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, *words: str, line: list[str] | None = None) -> subprocess.Popen[bytes]:
        path = f"{self.folder}:{os.environ['PATH']}"
        own = {"PATH": path, "NOTES": str(self.folder / "notes"), "LINE": json.dumps(line or [])}
        env = {**os.environ, **own, "TMPDIR": str(self.folder)}
        program = [sys.executable, str(self.folder / "world.py"), *words]
        self.started.append(subprocess.Popen(program, env=env, stderr=subprocess.PIPE, start_new_session=True))
        return self.started[-1]

    def notes(self) -> list[str]:
        with suppress(FileNotFoundError):
            return (self.folder / "notes").read_text().splitlines()
        return []


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Image]:
    programs = {"mpirun": MPIRUN, "trtllm-llmapi-launch": LAUNCH, "orted": NOTES, "prted": NOTES, "server": NOTES}
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "python3").symlink_to(sys.executable)
    port = free_port()
    text = mpi_program().replace("FIRST_PORT = 7400", f"FIRST_PORT = {port - 1}")
    (tmp_path / "world.py").write_text(text)
    found = Image(tmp_path, port)
    yield found
    for process in found.started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # its own session, so nobody else's
        process.communicate()


def launched(rank: int, *args: str, drain_seconds: int = 300, env: tuple[tuple[str, str], ...] = ()) -> ContainerLaunch:
    wanted = spec(engine=EngineSpec(args=args, env=env), rollout=RolloutSpec(drain_timeout_seconds=drain_seconds))
    return adapter_for(EngineName.TensorRTLLM).launch(LaunchRequest(wanted, STAGES, rank, "leader"))


def has_said(image: Image, words: str) -> None:
    assert words in image.notes()


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    _, said = process.communicate(timeout=30)
    return process.returncode, said.decode()


def test_the_first_pod_leads_the_world_and_has_the_server() -> None:
    found = launched(0, "--tool_parser", "a b")
    assert found.command[:4] == ("python3", PATH, "lead", "2")
    assert found.command[4] == "8"
    assert found.command[6:8] == ("trtllm-serve", "serve")
    assert found.command[-2:] == ("--tool_parser", "a b")
    assert "--tp_size 8 --pp_size 2 --gpus_per_node 8" in " ".join(found.command)
    assert found.readiness is not None
    assert [file.name for file in found.files] == ["trtllm.yaml", "mpi_world.py"]


def test_the_others_lend_their_gpus_and_answer_nothing() -> None:
    found = launched(1, "--tool_parser", "a b")
    assert found.command[:5] == ("python3", PATH, "join", "leader", "1")
    assert float(found.command[5]) >= 600
    assert (found.ports, found.readiness, found.startup) == ((), None, None)
    assert [file.text for file in found.files] == [mpi_program()]


def test_a_replica_in_one_pod_needs_no_world() -> None:
    alone = adapter_for(EngineName.TensorRTLLM).launch(LaunchRequest(spec(), planned(8)))
    assert alone.command[:2] == ("trtllm-serve", "serve")
    assert [file.name for file in alone.files] == ["trtllm.yaml"]
    assert not [each.name for each in alone.env if each.name.startswith(("OMPI_", "PRTE_", "NCCL_"))]


def test_ranks_of_several_pods_meet_over_the_pods_own_interface() -> None:
    for rank in range(2):
        found = {each.name: each.value for each in launched(rank).env}
        assert {found[name] for name in found if name.endswith(("IFNAME", "if_include"))} == {"eth0"}
        assert found["OMPI_MCA_pml"] == "ob1"


def test_the_server_drains_and_the_other_pods_are_there_until_it_has() -> None:
    """A daemon of Open MPI ends its ranks as soon as it is told to go."""
    leader, worker = (launched(rank, drain_seconds=120) for rank in (0, 1))
    assert (leader.pre_stop_seconds, worker.pre_stop_seconds) == (5, 5 + 120)
    assert leader.grace_seconds == worker.grace_seconds == 5 + 120 + 5


@pytest.mark.parametrize("name", ["OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "ENGINE_COMMAND"])
def test_how_pods_reach_each_other_is_not_the_users(name: str) -> None:
    with pytest.raises(Invalid, match=name):
        launched(0, env=((name, "x"),))


@pytest.mark.parametrize("version", LINES)
def test_pods_meet_and_the_server_gets_its_arguments_as_they_are(image: Image, version: str) -> None:
    """The worker is there first. It becomes the daemon that was asked for, in front, as that is all its pod runs."""
    line, daemon = LINES[version]
    worker = image.run("join", "127.0.0.1", "1", "60")
    leader = image.run("lead", "2", "8", "60", "server", "a b", "$(c)", "*", line=line)
    assert (0, "") == ended(worker)
    assert ended(leader)[0] == 7  # the server was done, and its end is the end of the world
    world, *rest = image.notes()
    assert world.startswith(
        "mpirun --allow-run-as-root -H localhost:8,rank-1:8 -n 16 --map-by ppr:8:node --bind-to none "
    )
    assert sorted(rest) == sorted([" ".join(daemon), "server a b $(c) *"])


def test_whoever_else_comes_by_is_told_nothing_and_stops_nobody(image: Image) -> None:
    hand = image.run("hand", "60", "rank-1", *LINES["4.1.7"][0])
    heard = []

    def knocks() -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", image.port), 5) as wire:
            wire.sendall(b"GET / HTTP/1.1\n")
            heard.append(wire.makefile().readline())
        assert heard

    eventually(knocks)
    assert heard == [""]
    assert (0, "") == ended(image.run("join", "127.0.0.1", "1", "60"))
    assert (0, "") == ended(hand)


def test_a_pod_becomes_nothing_but_a_daemon_of_open_mpi(image: Image) -> None:
    with socket.create_server(("127.0.0.1", image.port)) as door:
        worker = image.run("join", "127.0.0.1", "1", "60")
        wire, _ = door.accept()
        with wire:
            wire.sendall(b'["server", "-x"]\n')
        code, said = ended(worker)
    assert code == 1
    assert "server, which is no daemon of Open MPI" in said
    assert image.notes() == []


def test_pods_that_wait_in_vain_end(image: Image) -> None:
    """In both directions, so that the replica fails and starts somewhere else."""
    for words, said in (
        (("join", "127.0.0.1", "1", "0"), "the first pod, 127.0.0.1, has not called pod 1 in time"),
        (("hand", "0.2", "rank-1", *LINES["4.1.7"][0]), "pod 1 of the replica has not come within 0.2 s"),
    ):
        code, log = ended(image.run(*words))
        assert code == 1
        why = adapter_for(EngineName.TensorRTLLM).failure(log)
        assert why is not None
        assert said in why.message


def test_a_server_that_is_told_to_go_finishes_first_and_the_world_with_it(image: Image) -> None:
    (image.folder / "server").write_text(DRAINS)
    leader = image.run("lead", "1", "8", "60", "server")
    eventually(lambda: has_said(image, "up"))
    leader.send_signal(signal.SIGTERM)
    assert leader.wait(30) == 7
    assert image.notes()[-2:] == ["told to go", "finished, mpirun still there: yes"]


def test_a_world_without_a_server_ends_when_it_is_told_to(image: Image) -> None:
    (image.folder / "trtllm-llmapi-launch").write_text('#!/bin/sh\necho loads >> "$NOTES"\n')
    leader = image.run("lead", "1", "8", "60", "server")
    eventually(lambda: has_said(image, "loads"))
    leader.send_signal(signal.SIGTERM)
    assert leader.wait(30) == 7
