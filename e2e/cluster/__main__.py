"""A cluster to try things on: `python -m e2e.cluster up`, `status`, `down`, `build`."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from e2e.cluster import build, simulated_nodes
from e2e.cluster.binaries import known_binaries
from e2e.cluster.certificates import OpensslMissingError
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.presets import h200_boards, mi300x_boards, nvl72_rack, plain_nodes
from e2e.cluster.processes import ProcessFailedError, ProcessIdentity
from e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from e2e.cluster.presets import SimulatedNode

START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 60.0  # usually 2; a busy machine takes longer
NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "kubectl")


class HandUseError(RuntimeError):
    """The cluster for hand use cannot do what was asked."""


def main() -> None:
    arguments = _arguments()
    commands: dict[str, Callable[[argparse.Namespace], None]] = {
        "up": up,
        "down": down,
        "status": status,
        "build": build_all,
        "hold": hold,
    }
    try:
        commands[arguments.command](arguments)
    except (build.BinariesMissingError, build.BuildFailedError, OpensslMissingError, HandUseError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, purpose in (("up", "start it, or say how to use it when it runs"), ("hold", argparse.SUPPRESS)):
        command = commands.add_parser(name, help=purpose)
        command.add_argument("--h200", type=int, default=4, metavar="N", help="boards of 8 H200 (4)")
        command.add_argument("--racks", type=int, default=1, metavar="N", help="GB200 NVL72 racks of 18 trays (1)")
        command.add_argument("--mi300x", type=int, default=0, metavar="N", help="boards of 8 MI300X (0)")
        command.add_argument("--plain", type=int, default=1, metavar="N", help="nodes without accelerators (1)")
    commands.add_parser("down", help="stop it and remove its state")
    commands.add_parser("status", help="say whether it runs")
    built = commands.add_parser("build", help="build binaries that are missing")
    built.add_argument("names", nargs="*", metavar="NAME", help=f"default: all of {', '.join(known_binaries())}")
    return parser.parse_args()


def state_directory() -> Path:
    """Return where the one cluster for hand use keeps everything."""
    return build.cache_directory() / "clusters" / "default"


def up(arguments: argparse.Namespace) -> None:
    """Start the cluster in a process of its own, and return when it can be used."""
    state = state_directory()
    found = build.ensure(NEEDED)
    with _alone(state):
        if not _runs(state):
            _clear(state)
            _detach(state, arguments)
    print(_instructions(found["kubectl"]))


def _detach(state: Path, arguments: argparse.Namespace) -> None:
    wanted = [f"--{name}={getattr(arguments, name)}" for name in ("h200", "racks", "mi300x", "plain")]
    with (state / "holder.log").open("wb") as log:
        holder = subprocess.Popen(
            [sys.executable, "-m", "e2e.cluster", "hold", *wanted],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )
    ProcessIdentity.of(holder.pid).write(state / "holder")
    try:
        eventually(
            lambda: (state / "ready").exists() or holder.poll() is not None,
            "the cluster is ready",
            timeout_seconds=START_TIMEOUT_SECONDS,
        )
    except BaseException:
        _end(state)
        raise
    if holder.poll() is not None:
        raise HandUseError(f"the cluster did not start:\n{(state / 'holder.log').read_text(errors='replace')}")


def hold(arguments: argparse.Namespace) -> None:
    """Be the process that the cluster belongs to: run it until told to end."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    state = state_directory()
    try:
        with contextlib.suppress(KeyboardInterrupt), ControlPlane.start(state / "cluster") as cluster:
            simulated_nodes.add_nodes(cluster, _nodes(arguments))
            shutil.copy2(cluster.kubeconfig, state / "kubeconfig")
            (state / "ready").touch()
            signal.pause()
    except ProcessFailedError as failure:
        sys.exit(str(failure))


def _nodes(arguments: argparse.Namespace) -> list[SimulatedNode]:
    racks = [tray for index in range(arguments.racks) for tray in nvl72_rack(f"rack-{index}")]
    return [
        *plain_nodes(arguments.plain),
        *h200_boards(arguments.h200),
        *mi300x_boards(arguments.mi300x),
        *racks,
    ]


def down(_: argparse.Namespace) -> None:
    """Stop the cluster and remove its state, also after a crash. Does nothing when there is none."""
    state = state_directory()
    with _alone(state):
        ran = _runs(state)
        _end(state)
    print("the cluster is stopped, and its state is removed" if ran else "no cluster runs")


def _end(state: Path) -> None:
    holder = ProcessIdentity.read(state / "holder")
    if holder is not None and holder.alive:
        os.kill(holder.pid, signal.SIGTERM)
        eventually(lambda: not holder.alive, "the cluster has ended", timeout_seconds=STOP_TIMEOUT_SECONDS)
    _clear(state)


def status(_: argparse.Namespace) -> None:
    """Say whether the cluster runs; exit with 1 when it does not."""
    state = state_directory()
    if not _runs(state):
        sys.exit("no cluster runs; start one with: make cluster-up")
    print(_instructions(build.ensure(["kubectl"])["kubectl"]))


def build_all(arguments: argparse.Namespace) -> None:
    """Build what is missing and list where everything is."""
    names = arguments.names or list(known_binaries())
    if unknown := [name for name in names if name not in known_binaries()]:
        raise HandUseError(f"unknown: {', '.join(unknown)}; there are {', '.join(known_binaries())}")
    for name, path in build.ensure(names).items():
        print(f"{name:24} {path}")


def _runs(state: Path) -> bool:
    holder = ProcessIdentity.read(state / "holder")
    return holder is not None and holder.alive and (state / "ready").exists()


def _clear(state: Path) -> None:
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def _alone(state: Path) -> Iterator[None]:
    """Let one `up` or `down` run at a time; the lock lies beside the state, which comes and goes."""
    state.parent.mkdir(parents=True, exist_ok=True)
    with state.with_suffix(".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _instructions(kubectl: Path) -> str:
    state = state_directory()
    shown = kubectl if shutil.which("kubectl") is None else "kubectl"
    lines = (
        "the cluster is ready: its nodes and pods are simulated, nothing serves in them, and Weft is not in it yet",
        f"  export KUBECONFIG={state / 'kubeconfig'}",
        f"  {shown} get nodes",
        f"  {shown} apply -k crds",
        "  .venv/bin/weft run --plain-logs     # the operator, in this terminal until Ctrl-C",
        f"  {shown} apply -f examples/coding-agent.yaml     # in another one, with the same KUBECONFIG",
        f"  logs: {state / 'cluster' / 'logs'}   requests: {state / 'cluster' / 'audit.log'}",
        "  stop it with: make cluster-down",
    )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
