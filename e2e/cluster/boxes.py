"""Engines without a cluster: each in a box with a network, processes and memory of its own, as pods have them.

UCX takes shared memory between processes that see each other, and a machine that is lost tells nobody: pairs of pods
are tried in boxes, or not as they are. They stand on the bridge of an enclosure, where a node has its pods.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from e2e.cluster.node import free_place
from e2e.cluster.node_namespaces import BRIDGE, INIT, Enclosure
from e2e.cluster.processes import Supervisor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from e2e.cluster.processes import Process

_FIRST_ADDRESS = 10
_IP = ("ip", "-batch", "-")
_UNSHARE = ("unshare", "--ipc", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child")
_SHARED_MEMORY = ("sh", "-c", 'mount -t tmpfs tmpfs /dev/shm && exec "$@"', "sh")
_CABLE = """\
netns add {name}
link add {cable} type veth peer name eth0 netns {name}
link set {cable} master {bridge} up
"""
_INSIDE = """\
link set lo up
addr add {address}/24 dev eth0
link set eth0 up
route add default via {gateway}
"""


@dataclass(frozen=True, slots=True)
class Box:
    """One of them; what runs in it is started, killed and cut off as a whole."""

    name: str
    address: str
    enclosure: Enclosure

    @property
    def process(self) -> Process:
        """What was started in it last."""
        return self.enclosure.processes[self.name]

    def start(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> Process:
        """Start a command with this environment and nothing else of ours."""
        variables = (f"{name}={value}" for name, value in environment.items())
        inside = ("ip", "netns", "exec", self.name, *_UNSHARE, "--", *_SHARED_MEMORY, "env", "-i", *variables, *command)
        return self.enclosure.start(self.name, inside)

    def kill(self) -> None:
        """End every process in it at once, as a fault of its machine does; their sockets are closed for them."""
        one_of_them = self.enclosure.run(("ip", "netns", "pids", self.name)).split()[0]
        self.enclosure.run(("pkill", "--signal", "KILL", "--ns", one_of_them, "--nslist", "net"))
        self.process.reap(time.monotonic() + 10)

    def cut_off(self) -> None:
        """Pull its cable: what is sent to it is lost, and nothing comes back, not even a refusal."""
        self.enclosure.run(("ip", "link", "set", self._cable, "down"))

    def plug_in(self) -> None:
        """Put the cable back that was pulled; what runs in it has lived on."""
        self.enclosure.run(("ip", "link", "set", self._cable, "up"))

    def connect(self) -> None:
        """Lay its cable to the bridge, once, before anything is started in it."""
        place = self.enclosure.place
        self.enclosure.run(_IP, _CABLE.format(name=self.name, cable=self._cable, bridge=BRIDGE))
        inside = ("ip", "-n", self.name, "-batch", "-")
        self.enclosure.run(inside, _INSIDE.format(address=self.address, gateway=place.bridge))

    @property
    def _cable(self) -> str:
        return f"to-{self.name}"  # of at most 15 letters


@contextmanager
def boxes(folder: Path, names: Sequence[str]) -> Iterator[tuple[Box, ...]]:
    """So many boxes on one bridge while the context lasts; logs go to `folder`. Names have at most 12 letters.

    Raises as `Enclosure.open` does, and NodeFailedError while this machine has as many enclosures as it may.
    """
    with free_place() as place:
        processes = Supervisor(folder)
        try:
            enclosure = Enclosure.open(place, folder / "disk", processes)
            network = place.bridge.rpartition(".")[0]
            made = tuple(
                Box(name, f"{network}.{number}", enclosure) for number, name in enumerate(names, _FIRST_ADDRESS)
            )
            for box in made:
                box.connect()
            yield made
        finally:
            if INIT in processes:
                processes[INIT].kill()  # and with it everything inside
            processes.stop_all()
            place.remove_cable()
