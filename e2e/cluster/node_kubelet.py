"""The kubelet: registers a node and runs its pods."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2e.cluster import build

if TYPE_CHECKING:
    from collections.abc import Mapping

    from e2e.cluster.node_namespaces import Enclosure, Place

CGROUPS = Path("/sys/fs/cgroup")
PORT = 10250
PORTS_APART = 100


@dataclass(frozen=True, slots=True)
class Registration:
    """Who the node is: its name, its labels and how it speaks to the API server and to its container runtime.

    `number` tells it from others in the same enclosure, which share an address.
    """

    name: str
    labels: Mapping[str, str]
    kubeconfig: Path
    certificate_authority: Path
    socket: str
    number: int = 0

    @property
    def process_name(self) -> str:
        """Its name among the processes."""
        return f"kubelet-{self.name}"

    @property
    def root(self) -> str:
        """Where it keeps its pods."""
        return f"/var/lib/kubelet-{self.name}"

    def cgroup(self, place: Place) -> str:
        """What its pods are accounted in: it removes whatever it does not know there."""
        return f"{place.cgroup}/{self.name}"


def start(enclosure: Enclosure, folder: Path, registration: Registration) -> None:
    """Start it without waiting. `folder` gets its configuration."""
    place = enclosure.place
    _make_cgroups(registration.cgroup(place))
    configuration = folder / f"{registration.process_name}.json"
    configuration.write_text(json.dumps(_configuration(place, registration), indent=2))
    labels = ",".join(f"{name}={value}" for name, value in registration.labels.items())
    flags = (
        f"--config={configuration}",
        f"--kubeconfig={registration.kubeconfig}",
        f"--hostname-override={registration.name}",
        f"--node-ip={place.node}",
        f"--node-labels={labels}",
        f"--root-dir={registration.root}",
        f"--cert-dir={registration.root}/pki",
    )
    enclosure.start(registration.process_name, (build.ensure(["kubelet"])["kubelet"], *flags))


def _configuration(place: Place, registration: Registration) -> dict[str, Any]:
    """Looser than production where a small machine needs it: cgroup v1, swap, no local storage accounting."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{registration.socket}",
        "authentication": {
            "x509": {"clientCAFile": str(registration.certificate_authority)},
            "anonymous": {"enabled": False},
        },
        "authorization": {"mode": "Webhook"},
        "address": place.node,
        "port": PORT + PORTS_APART * registration.number,
        "healthzPort": 0,
        "clusterDNS": [place.bridge],
        "clusterDomain": "cluster.local",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{registration.cgroup(place)}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "200Mi"},
        "imageGCHighThresholdPercent": 100,
        "resolvConf": "",  # the machine's own name servers are of no use to pods
        "volumePluginDir": f"{registration.root}/volume-plugins",
        "podLogsDir": f"/var/log/pods-{registration.name}",
        "maxPods": 250,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
        "shutdownGracePeriod": "0s",
    }


def _make_cgroups(group: str) -> None:
    for controller in _controllers():
        (controller / group).mkdir(parents=True, exist_ok=True)


def remove_cgroups(place: Place) -> None:
    """Remove what pods were accounted in, once nothing runs there any more."""
    for controller in _controllers():
        root = controller / place.cgroup
        folders = (path for path in root.rglob("*") if path.is_dir())
        for folder in (*sorted(folders, key=lambda path: -len(path.parts)), root):
            if folder.is_dir():
                folder.rmdir()


def _controllers() -> list[Path]:
    """One folder per hierarchy with cgroup v1, the root alone with v2."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [path for path in CGROUPS.iterdir() if path.is_dir() and not path.is_symlink()]
