"""The node's enclosure: namespaces of its own for processes, mounts and the network, joined to this machine by a cable.

Nothing that happens inside reaches the machine: pod mounts, the bridge, iptables chains, sysctls and network namespaces
of pods live in here and end with process 1. Outside there are one network interface and two routes, which end with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from e2e.cluster.node_init import READY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from e2e.cluster.processes import Process, Supervisor

HOST_INTERFACE = "weft-host"
NODE_INTERFACE = "weft-node"
BRIDGE = "weft-pods"
HOST_ADDRESS = "10.89.0.1"  # this machine's end of the cable: where the node and its pods find the API server
NODE_ADDRESS = "10.89.0.2"
BRIDGE_ADDRESS = "10.89.1.1"
POD_RANGE = "10.89.1.0/24"
SERVICE_RANGE = "10.96.0.0/16"

_INIT = Path(__file__).with_name("node_init.py")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSCTLS = ("net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=1")
_IP = ("ip", "-batch", "-")
_CABLE = f"""\
link add {HOST_INTERFACE} type veth peer name {NODE_INTERFACE} netns {{pid}}
addr add {HOST_ADDRESS}/24 dev {HOST_INTERFACE}
link set {HOST_INTERFACE} up
"""
_INSIDE = f"""\
link set lo up
link add {BRIDGE} type bridge
addr add {BRIDGE_ADDRESS}/24 dev {BRIDGE}
link set {BRIDGE} up
addr add {NODE_ADDRESS}/24 dev {NODE_INTERFACE}
link set {NODE_INTERFACE} up
route add default via {HOST_ADDRESS}
"""
_ROUTES = f"""\
route add {POD_RANGE} via {NODE_ADDRESS}
route add {SERVICE_RANGE} via {NODE_ADDRESS}
"""


class NodeFailedError(RuntimeError):
    """A command for the node failed; the text carries what it said."""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Opened namespaces. `disk` is what the node sees as /var/lib and /var/log."""

    disk: Path
    processes: Supervisor
    pid: int  # of process 1, as this machine counts

    @classmethod
    def open(cls, disk: Path, processes: Supervisor) -> Enclosure:
        """Raise ProcessFailedError without the right to make namespaces, NodeFailedError when the cable fails."""
        remove_cable()
        init = processes.start("node-init", (*_UNSHARE, sys.executable, "-I", _INIT, disk))
        init.wait_until(lambda: READY in init.tail(), 10)
        enclosure = cls(disk, processes, _only_child(init.pid))
        run(_IP, _CABLE.format(pid=enclosure.pid))
        enclosure.run(_IP, _INSIDE)
        run(_IP, _ROUTES)
        enclosure.run(("sysctl", "--quiet", "--write", *_SYSCTLS))
        return enclosure

    def run(self, command: Sequence[str | Path], text: str = "") -> str:
        """Run a command inside to its end and return what it printed. Raises NodeFailedError with its errors."""
        return run((*self._enter, *command), text)

    def start(self, name: str, command: Sequence[str | Path]) -> Process:
        """Start a lasting part of the node inside."""
        return self.processes.start(name, (*self._enter, *command), {"PATH": _PATH})

    @property
    def _enter(self) -> tuple[str, ...]:
        return ("nsenter", "--target", str(self.pid), "--net", "--mount", "--pid", "--")


_UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")


def remove_cable() -> None:
    """Pull the cable, if there is one; its routes go with it."""
    subprocess.run(("ip", "link", "delete", HOST_INTERFACE), check=False, stderr=subprocess.DEVNULL, env=_environment())


def run(command: Sequence[str | Path], text: str = "") -> str:
    """Run a command on this machine to its end and return what it printed."""
    result = subprocess.run(
        [str(word) for word in command], check=False, input=text, capture_output=True, text=True, env=_environment()
    )
    if result.returncode != 0:
        said = (result.stderr + result.stdout).strip()[-2000:]
        raise NodeFailedError(f"{' '.join(map(str, command))} ended with {result.returncode}: {said}")
    return result.stdout


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": _PATH}


def _only_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())
