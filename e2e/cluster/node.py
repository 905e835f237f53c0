"""A real node beside the control plane: containerd, kubelet, kube-proxy and CoreDNS, for pods that really run.

    with RealNode.start() as node:
        node.offer_model("team-a", "tiny-llama")
        ...  # KUBECONFIG is node.cluster.kubeconfig

It needs root on Linux and Debian's containerd, runc, containernetworking-plugins, iptables, conntrack and gcc. It lives
in namespaces of its own and leaves nothing behind, however the process that started it ends. There is one at a time on
a machine; a second waits. `python -m e2e.cluster.node` runs one until Ctrl-C; with `down` it cleans up after a kill.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import shutil
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kubernetes import client

from e2e.cluster import build, engine_environment, node_containerd, node_engines, node_kubelet, node_network
from e2e.cluster.components import ControlPlaneOptions
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.node_engines import TEST_GPU_LABELS
from e2e.cluster.node_kubelet import Registration
from e2e.cluster.node_namespaces import HOST_ADDRESS, Enclosure, NodeFailedError, remove_cable
from e2e.cluster.processes import Supervisor
from e2e.cluster.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from e2e.cluster.engine_environment import EngineEnvironment

__all__ = ["NodeOptions", "RealNode", "missing_tools"]

READY_TIMEOUT_SECONDS = 60.0  # usually 8
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
    lacking = [tool for tool in TOOLS if shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None]
    return lacking if os.geteuid() == 0 else ["root", *lacking]


class RealNode:
    """A running node with its control plane; made by `start`."""

    def __init__(self, directory: Path, options: NodeOptions, *, temporary: bool) -> None:
        """Prepare one that `_run` starts."""
        self.directory = directory
        self.options = options
        self.processes = Supervisor(directory / "node")
        self.engine: EngineEnvironment | None = None
        self._temporary = temporary
        self._disk = directory / "disk"
        self._cleanup = contextlib.ExitStack()
        self._cluster: ControlPlane | None = None
        self._enclosure: Enclosure | None = None

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
            stack.enter_context(_alone())
            _remove_leftovers()
            folder = _default_directory() if directory is None else directory.absolute()
            node = cls(folder, options, temporary=directory is None)
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
        self._enclosure = Enclosure.open(self._disk, self.processes)
        addresses = {"bind_address": "0.0.0.0", "advertise_address": HOST_ADDRESS}  # noqa: S104 - pods call it
        control_plane = dataclasses.replace(self.options.control_plane, **addresses)
        self._cluster = ControlPlane.start(self.directory / "control-plane", control_plane)
        self._start_components()
        with self.cluster.api_client() as api:
            eventually(lambda: self._is_ready(api), "the node is Ready", timeout_seconds=READY_TIMEOUT_SECONDS)
            node_engines.offer_gpus(api, self.options.name, self.options.gpus)
            if self.engine is not None:
                self.import_images(node_engines.write_images(self.directory / "images", self.engine))
                node_engines.mount_folders(api, self.engine)

    def _start_components(self) -> None:
        name, folder, cluster = self.options.name, self.processes.directory, self.cluster
        node_containerd.start(self.enclosure, folder)
        kubeconfig = cluster.kubeconfig_for_user(f"system:node:{name}", ["system:nodes"])
        registration = Registration(name, self.options.labels, kubeconfig, cluster.certificate_authority)
        node_kubelet.start(self.enclosure, folder, registration)
        node_network.start_proxy(self.enclosure, folder, name, cluster.kubeconfig_for_user("system:kube-proxy"))
        node_network.start_names(self.enclosure, folder, cluster.kubeconfig)

    def _is_ready(self, api: client.ApiClient) -> bool:
        self.require_running()
        nodes = client.CoreV1Api(api).list_node(field_selector=f"metadata.name={self.options.name}").items
        conditions = [condition for node in nodes for condition in node.status.conditions or ()]
        return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)

    def require_running(self) -> None:
        """Raise NodeFailedError, with the end of its log, when a part of the node has ended."""
        for process in self.processes:
            if not process.running:
                raise NodeFailedError(f"{process.name} ended with {process.exit_code}:\n{process.tail()}")

    def import_images(self, archives: Sequence[Path]) -> None:
        """Make OCI archives known to the node."""
        node_containerd.import_images(self.enclosure, archives)

    def offer_model(self, namespace: str, claim: str) -> None:
        """Create a claim that holds the tiny model, as a team's own storage would."""
        assert self.engine is not None
        with self.cluster.api_client() as api:
            node_engines.offer_model(api, self.engine, namespace, claim)

    def stop(self) -> None:
        """End every process of node and control plane and remove what they leave. Safe to call twice."""
        if "node-init" in self.processes:
            self.processes["node-init"].kill()
        self.processes.stop_all()
        if self._cluster is not None:
            self._cluster.stop()
        remove_cable()
        node_kubelet.remove_cgroups()
        shutil.rmtree(self.directory if self._temporary else self._disk, ignore_errors=True)
        self._cleanup.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def _default_directory() -> Path:
    return build.cache_directory() / "node"


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Hold the machine's only node; the system frees it when the holder dies."""
    lock = build.cache_directory() / "node.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("waiting for another process that runs a node")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _remove_leftovers() -> None:
    """Remove what a killed process left: its children and mounts died with it, folders and cgroups did not."""
    remove_cable()
    node_kubelet.remove_cgroups()
    shutil.rmtree(_default_directory(), ignore_errors=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> None:
    if list(arguments) == ["down"]:
        with _alone():
            _remove_leftovers()
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt), RealNode.start() as node:
        _say(f"export KUBECONFIG={node.cluster.kubeconfig}")
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
