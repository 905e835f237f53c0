"""A real node beside the control plane: containerd, kubelet, kube-proxy and CoreDNS, for pods that really run.

    with RealNode.start() as node:
        node.offer_model("team-a", "tiny-llama")
        ...  # KUBECONFIG is node.cluster.kubeconfig

It needs root on Linux and Debian's containerd, runc, containernetworking-plugins, iptables, conntrack and gcc. It lives
in namespaces of its own: its processes, mounts and networks end with the process that started it, however that ends. A
folder in the cache that a killed one left goes at the next start, or with `python -m e2e.cluster.node down`.
`python -m e2e.cluster.node` alone runs a node until Ctrl-C.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import socket
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from kubernetes import client

from e2e.cluster import build, engine_environment, node_engines, node_kubelet, node_network
from e2e.cluster.components import ControlPlaneOptions
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.node_containerd import Containerd
from e2e.cluster.node_engines import TEST_GPU_LABELS
from e2e.cluster.node_kubelet import Registration
from e2e.cluster.node_namespaces import INIT, Enclosure, NodeFailedError, Place
from e2e.cluster.processes import Supervisor
from e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from e2e.cluster.engine_environment import EngineEnvironment

__all__ = ["NodeOptions", "RealNode", "free_place", "missing_tools"]

READY_TIMEOUT_SECONDS = 180.0  # usually 8; a busy machine takes far longer than others
PLACES = 4  # nodes at the same time on one machine
TOOLS = ("containerd", "ctr", "runc", "iptables", "conntrack", "gcc", "ip", "nsenter", "unshare", "sysctl", "mount")
COMPONENTS = ("kubelet", "kube-proxy", "coredns")


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What the node is like. The control plane's addresses are set by the node."""

    name: str = "weft-e2e"
    gpus: int = 8
    labels: Mapping[str, str] = field(default_factory=lambda: dict(TEST_GPU_LABELS))
    engines: bool = True  # build the engine environment, and mount it into engine containers
    control_plane: ControlPlaneOptions = field(default_factory=ControlPlaneOptions)


def missing_tools() -> list[str]:
    """Return what this machine lacks for a real node, in words; empty when one can be started."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    lacking = [tool for tool in TOOLS if shutil.which(tool, path=path) is None]
    return lacking if os.geteuid() == 0 else ["root", *lacking]


class RealNode:
    """A running node with its control plane; made by `start`."""

    def __init__(self, place: Place, directory: Path | None, options: NodeOptions) -> None:
        """Prepare one that `_run` starts."""
        self.place = place
        self.directory = directory or _default_directory(place)
        self.options = options
        self.processes = Supervisor(self.directory / "node")
        self.engine: EngineEnvironment | None = None
        self._temporary = directory is None
        self._disk = self.directory / "disk"
        self._cleanup = contextlib.ExitStack()
        self._cluster: ControlPlane | None = None
        self._enclosure: Enclosure | None = None
        self._runtimes: dict[str, Containerd] = {}  # by name of their nodes, the first one's first
        self._archives: Sequence[Path] = ()  # images of engines

    @classmethod
    def start(cls, directory: Path | None = None, options: NodeOptions | None = None) -> Self:
        """Start one and return when the node is Ready: about 15 s once everything is built.

        Logs go to `directory` and stay there; without one, to a folder in the cache that `stop` removes.
        Raises NodeFailedError or ProcessFailedError with the end of a log when a part does not come up.
        """
        options = options or NodeOptions()
        if lacking := missing_tools():
            raise NodeFailedError(f"a real node needs {', '.join(lacking)}")
        build.ensure((*options.control_plane.binaries, *COMPONENTS))
        engine = engine_environment.ensure() if options.engines else None
        with contextlib.ExitStack() as stack:
            place = stack.enter_context(free_place())
            _remove_leftovers(place)
            node = cls(place, directory and directory.absolute(), options)
            node.engine = engine
            node._cleanup = stack.pop_all()
        try:
            node._run()
        except BaseException:  # Ctrl-C while starting, too
            node.stop()
            raise
        return node

    @property
    def cluster(self) -> ControlPlane:
        """The control plane: kubeconfigs, clients and the audit log are there."""
        assert self._cluster is not None
        return self._cluster

    @property
    def enclosure(self) -> Enclosure:
        """Where the node's commands can be run: `node.enclosure.run(("iptables-save",))`."""
        assert self._enclosure is not None
        return self._enclosure

    def _run(self) -> None:
        self._enclosure = Enclosure.open(self.place, self._disk, self.processes)
        control_plane = dataclasses.replace(
            self.options.control_plane,
            bind_address="0.0.0.0",  # pods call it, and so do local clients
            advertise_address=self.place.host,
            service_cidr=self.place.services,
        )
        self._cluster = ControlPlane.start(self.directory / "control-plane", control_plane)
        self._start_kubelet(self.options.name, self.options.labels)
        self._start_network()
        images = self.directory / "images"
        if self.engine is not None:
            self._archives = node_engines.write_images(images, self.engine)
        with self.cluster.api_client() as api:
            self._offer(api, self.options.name, self.options.gpus)
            if self.engine is not None:
                self.import_engines(self.options.name)
                node_engines.mount_folders(api, self.engine, images)

    @contextlib.contextmanager
    def another(self, name: str, labels: Mapping[str, str], gpus: int) -> Iterator[None]:
        """Have one more node while the context lasts: a kubelet and a containerd beside the first, on its network.

        It lacks the images of engines.
        """
        registration = self._start_kubelet(name, labels)
        with self.cluster.api_client() as api:
            self._offer(api, name, gpus)
            yield
            self.enclosure.end(registration.process_name, f"{registration.process_name}.json")
            runtime = self._runtimes.pop(name).process_name
            self.enclosure.end(runtime, f"{runtime}.toml")
            client.CoreV1Api(api).delete_node(name)

    def _start_kubelet(self, name: str, labels: Mapping[str, str]) -> Registration:
        folder, cluster = self.processes.directory, self.cluster
        runtime = Containerd(self.enclosure, name)
        runtime.start(folder)
        kubeconfig = cluster.kubeconfig_for_user(f"system:node:{name}", ["system:nodes"])
        authority, number = cluster.certificate_authority, len(self._runtimes)
        registration = Registration(name, labels, kubeconfig, authority, runtime.socket, number)
        node_kubelet.start(self.enclosure, folder, registration)
        self._runtimes[name] = runtime
        return registration

    def _start_network(self) -> None:
        name, folder, cluster = self.options.name, self.processes.directory, self.cluster
        node_network.start_proxy(self.enclosure, folder, name, cluster.kubeconfig_for_user("system:kube-proxy"))
        node_network.start_names(self.enclosure, folder, cluster.kubeconfig)

    def _offer(self, api: client.ApiClient, name: str, gpus: int) -> None:
        """Wait for a node, and give it GPUs."""
        eventually(lambda: self._is_ready(api, name), f"{name} is Ready", timeout_seconds=READY_TIMEOUT_SECONDS)
        node_engines.offer_gpus(api, name, gpus)

    def _is_ready(self, api: client.ApiClient, name: str) -> bool:
        self.require_running()
        listed: Any = client.CoreV1Api(api).list_node(field_selector=f"metadata.name={name}")
        conditions = [condition for node in listed.items for condition in node.status.conditions or ()]
        return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)

    def require_running(self) -> None:
        """Raise NodeFailedError, with the end of its log, when a part of the node has ended."""
        for process in self.processes:
            if not process.running:
                raise NodeFailedError(f"{process.name} ended with {process.exit_code}:\n{process.tail()}")

    def import_images(self, archives: Sequence[Path]) -> None:
        """Make OCI archives known to the first node."""
        self._runtimes[self.options.name].import_images(archives)

    def import_engines(self, name: str) -> None:
        """Make the images of engines known to a node."""
        self._runtimes[name].import_images(self._archives)

    def offer_model(self, namespace: str, claim: str, model: Path | None = None) -> None:
        """Create a claim that holds a model (by default the tiny one), as a team's own storage would."""
        assert self.engine is not None
        with self.cluster.api_client() as api:
            node_engines.offer_model(api, model or self.engine.model, namespace, claim)

    def stop(self) -> None:
        """End every process of node and control plane and remove what they leave. Safe to call twice."""
        if INIT in self.processes:
            self.processes[INIT].kill()  # and with it everything inside
        self.processes.stop_all()
        if self._cluster is not None:
            self._cluster.stop()
        self.place.remove_cable()
        node_kubelet.remove_cgroups(self.place)
        shutil.rmtree(self.directory if self._temporary else self._disk, ignore_errors=True)
        self._cleanup.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def _default_directory(place: Place) -> Path:
    return build.cache_directory() / "nodes" / str(place.number)


@contextlib.contextmanager
def free_place() -> Iterator[Place]:
    """Hold a place that no other process on this machine holds. An abstract socket is free when its holder is dead."""
    for number in range(PLACES):
        with socket.socket(socket.AF_UNIX) as holder:
            try:
                holder.bind(f"\0weft-node-{number}")
            except OSError:
                continue
            yield Place(number)
            return
    raise NodeFailedError(f"{PLACES} nodes run on this machine already")


def _remove_leftovers(place: Place) -> None:
    """Remove what a killed process left: its children and mounts died with it, folders and cgroups did not."""
    place.remove_cable()
    node_kubelet.remove_cgroups(place)
    shutil.rmtree(_default_directory(place), ignore_errors=True)


def _clean() -> None:
    """Remove the leftovers at every place that is free."""
    with contextlib.ExitStack() as held:
        for _ in range(PLACES):
            with contextlib.suppress(NodeFailedError):
                _remove_leftovers(held.enter_context(free_place()))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> None:
    if list(arguments) == ["down"]:
        _clean()
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), RealNode.start() as node:
        _say(f"export KUBECONFIG={node.cluster.kubeconfig}")
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
