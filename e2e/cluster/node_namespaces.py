"""The node's enclosure: namespaces of its own for processes, mounts and the network, joined to this machine by a cable.

Nothing that happens inside reaches the machine: pod mounts, the bridge, iptables chains, sysctls and network namespaces
of pods live in here and end with process 1. Outside there are one network interface and two routes, which end with it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from e2e.cluster.node_init import READY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from e2e.cluster.processes import Process, Supervisor

BRIDGE = "weft-pods"
END_SECONDS = 10.0

INIT = "node-init"  # its name among the processes
_INIT = Path(__file__).with_name("node_init.py")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SYSCTLS = ("net.ipv4.ip_forward=1", "net.bridge.bridge-nf-call-iptables=1")
_UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
_NODE_INTERFACE = "weft-node"
_IP = ("ip", "-batch", "-")
_CABLE = """\
link add {interface} type veth peer name {inside} netns {pid}
addr add {host}/24 dev {interface}
link set {interface} up
"""
_INSIDE = """\
link set lo up
link add {bridge_name} type bridge
addr add {bridge}/24 dev {bridge_name}
link set {bridge_name} up
addr add {node}/24 dev {inside}
link set {inside} up
route add default via {host}
"""
_ROUTES = """\
route add {pods} via {node}
route add {services} via {node}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """One of the places for nodes on this machine, with addresses and names that no other place uses."""

    number: int

    @property
    def interface(self) -> str:
        return f"weft-host-{self.number}"

    @property
    def host(self) -> str:
        """This machine's end of the cable: where the node and its pods find the API server."""
        return f"10.{80 + self.number}.0.1"

    @property
    def node(self) -> str:
        return f"10.{80 + self.number}.0.2"

    @property
    def bridge(self) -> str:
        return f"10.{80 + self.number}.1.1"

    @property
    def pods(self) -> str:
        return f"10.{80 + self.number}.1.0/24"

    @property
    def services(self) -> str:
        return f"10.{96 + self.number}.0.0/16"

    @property
    def cgroup(self) -> str:
        return f"weft-node-{self.number}"

    def remove_cable(self) -> None:
        """Pull the cable, if there is one; its routes go with it."""
        command = ("ip", "link", "delete", self.interface)
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL, env=_environment())

    def _fill(self, batch: str, pid: int) -> str:
        return batch.format(
            **{name: getattr(self, name) for name in ("interface", "host", "node", "bridge", "pods", "services")},
            bridge_name=BRIDGE,
            inside=_NODE_INTERFACE,
            pid=pid,
        )

    def connect(self, enclosure: Enclosure) -> None:
        """Lay the cable and give both ends and the pods' bridge their addresses."""
        run(_IP, self._fill(_CABLE, enclosure.pid))
        enclosure.run(_IP, self._fill(_INSIDE, enclosure.pid))
        run(_IP, self._fill(_ROUTES, enclosure.pid))
        enclosure.run(("sysctl", "--quiet", "--write", *_SYSCTLS))


class NodeFailedError(RuntimeError):
    """A command for the node failed; the text carries what it said."""


@dataclass(frozen=True, slots=True)
class Enclosure:
    """Opened namespaces at a place."""

    place: Place
    processes: Supervisor
    pid: int  # of process 1, as this machine counts

    @classmethod
    def open(cls, place: Place, disk: Path, processes: Supervisor) -> Enclosure:
        """Open one whose /var/lib and /var/log lie in `disk`.

        Raises ProcessFailedError without the right to make namespaces, NodeFailedError when the cable fails.
        """
        place.remove_cable()
        init = processes.start(INIT, (*_UNSHARE, sys.executable, "-I", _INIT, disk))
        init.wait_until(lambda: READY in init.tail(), 10)
        enclosure = cls(place, processes, _only_child(init.pid))
        place.connect(enclosure)
        return enclosure

    def run(self, command: Sequence[str | Path], text: str = "") -> str:
        """Run a command inside to its end and return what it printed. Raises NodeFailedError with its errors."""
        return run((*self._enter, *command), text)

    def start(self, name: str, command: Sequence[str | Path]) -> Process:
        """Start a lasting part of the node inside."""
        return self.processes.start(name, (*self._enter, *command), {"PATH": _PATH})

    def end(self, name: str, own_words: str) -> None:
        """End a part before the rest: the one whose command line holds these words. What was started is its way in."""
        self.run(("pkill", "--full", "--", own_words))
        self.processes[name].reap(time.monotonic() + END_SECONDS)
        self.processes.forget(name)

    @property
    def _enter(self) -> tuple[str, ...]:
        return ("nsenter", "--target", str(self.pid), "--net", "--mount", "--pid", "--")


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
