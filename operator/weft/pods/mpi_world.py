"""Put the pods of a TensorRT-LLM replica into one MPI world: no ssh, no shell line, no key.

A file of an engine's pods, in the engine's image: Python 3.10 or later beside Open MPI 4.1 or 5. The first pod runs

    lead PODS RANKS_OF_A_POD SECONDS COMMAND...

and runs `mpirun`, which starts its own ranks and asks `hand` (its "remote shell", `plm_rsh_agent`) for a daemon in
each other pod. These run

    join LEADER RANK SECONDS

which dials the first pod until `hand` answers with the arguments of that daemon, and becomes the daemon: it can
become nothing else. Each rank is `trtllm-llmapi-launch`; the first of them has `serve` run the server's command, which
travels as JSON in the environment, since that script splits its arguments at spaces.

`mpirun` ends all ranks at SIGTERM at once. So `lead` keeps that from it, and gives it to the server, which finishes its
requests; the end of the server is the end of the world.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_PORT = 7400  # and the number of the pod
DAEMONS = ("orted", "prted")  # of Open MPI 4 and 5
LONGEST_NAME, ANSWER_SECONDS, PAUSE_SECONDS = 64, 5.0, 1.0
COMMAND, LEAD = "ENGINE_COMMAND", "ENGINE_LEAD"
SERVER = Path(tempfile.gettempdir(), "engine-server.pid")


def lead(pods: str, ranks: str, seconds: str, *server: str) -> None:
    """Run `mpirun`, whose way to reach other pods is `hand`; ranks are counted pod by pod and bound to no core."""
    agent = {
        "agent": f"python3 {__file__} hand {seconds}",
        "no_tree_spawn": "1",  # daemons ask no other daemons
        "pass_environ_mca_params": "0",  # each pod has the same variables anyway
    }
    settings = {f"OMPI_MCA_plm_rsh_{name}": value for name, value in agent.items()}
    settings |= {f"PRTE_MCA_plm_ssh_{name}": value for name, value in agent.items()}
    os.environ.update(settings, SHELL="/bin/bash", **{COMMAND: json.dumps(server), LEAD: str(os.getpid())})
    names = ["localhost", *(f"rank-{pod}" for pod in range(1, int(pods)))]
    hosts = ",".join(f"{name}:{ranks}" for name in names)
    anyone = "--allow-run-as-root"  # who the pod runs as is decided by its security context
    spread = ["-n", str(int(pods) * int(ranks)), "--map-by", f"ppr:{ranks}:node", "--bind-to", "none"]
    task = ["trtllm-llmapi-launch", "python3", __file__, "serve"]
    SERVER.unlink(missing_ok=True)
    world = subprocess.Popen(["mpirun", anyone, "-H", hosts, *spread, *task])  # noqa: S603, S607 - of the image, without a shell
    signal.signal(signal.SIGTERM, lambda *_: _let_it_finish(world))
    signal.signal(signal.SIGUSR1, lambda *_: world.terminate())
    sys.exit(abs(world.wait()) or 1)  # Open MPI 5 may say 0 of a world that lost a pod; the kubelet keeps no words then


def _let_it_finish(world: subprocess.Popen[bytes]) -> None:
    """Tell the server to go; where there is none yet, the world."""
    try:
        os.kill(int(SERVER.read_text()), signal.SIGTERM)
    except (OSError, ValueError):
        world.terminate()


def hand(seconds: str, name: str, *line: str) -> None:
    """Give the arguments of one daemon, out of the line that a shell was meant to read, to the pod that it is for."""
    words = shlex.split(" ".join(line))
    first = next(place for place, word in enumerate(words) if os.path.basename(word) in DAEMONS)  # noqa: PTH119 - text
    told = json.dumps([os.path.basename(words[first]), *words[first + 1 :]])  # noqa: PTH119 - text
    both = socket.has_dualstack_ipv6()
    address, family = ("", FIRST_PORT + _pod(name)), socket.AF_INET6 if both else socket.AF_INET
    until = time.monotonic() + float(seconds)
    with socket.create_server(address, family=family, dualstack_ipv6=both) as door:
        while True:
            wire = _knock(door, until)
            if wire is None:
                raise TimeoutError(f"pod {_pod(name)} of the replica has not come within {seconds} s")
            with wire, suppress(OSError):  # whoever else comes by
                wire.settimeout(ANSWER_SECONDS)
                if wire.makefile().readline(LONGEST_NAME) == f"{name}\n":
                    wire.sendall(f"{told}\n".encode())
                    return


def _knock(door: socket.socket, until: float) -> socket.socket | None:
    """The next that comes, or nobody."""
    door.settimeout(max(0.001, until - time.monotonic()))
    try:
        return door.accept()[0]
    except TimeoutError:
        return None


def join(leader: str, pod: str, seconds: str) -> None:
    """Become the daemon that the first pod asks for. It is this container's first process, and stays in front."""
    daemon, *words = _told(leader, int(pod), time.monotonic() + float(seconds))
    if daemon not in DAEMONS:
        sys.exit(f"the first pod asks for {daemon}, which is no daemon of Open MPI")
    os.execvp(daemon, [daemon, *(word for word in words if word != "--daemonize")])  # noqa: S606 - of the image


def serve() -> None:
    """Run the server, and end the world with it: a rank does not see that the server has gone."""
    command, lead = json.loads(os.environ.pop(COMMAND)), int(os.environ.pop(LEAD))
    try:
        server = subprocess.Popen(command)  # noqa: S603 - the engine's command, without a shell
        SERVER.write_text(str(server.pid))
        server.wait()
    finally:
        os.kill(lead, signal.SIGUSR1)


def _told(leader: str, pod: int, until: float) -> list[str]:
    """What the first pod says; it is asked again until it does."""
    while True:
        try:
            with socket.create_connection((leader, FIRST_PORT + pod), ANSWER_SECONDS) as wire:
                wire.sendall(f"rank-{pod}\n".encode())
                words: list[str] = json.loads(wire.makefile().readline())
                return words
        except (OSError, ValueError) as error:
            if time.monotonic() > until:
                raise TimeoutError(f"the first pod, {leader}, has not called pod {pod} in time: {error}") from error
            time.sleep(PAUSE_SECONDS)


def _pod(name: str) -> int:
    return int(name.rpartition("-")[2])


PARTS: dict[str, Callable[..., None]] = {"lead": lead, "hand": hand, "join": join, "serve": serve}

if __name__ == "__main__":
    PARTS[sys.argv[1]](*sys.argv[2:])
