"""The kubelet: registers the node and runs its pods."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2e.cluster import build
from e2e.cluster.node_containerd import SOCKET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from e2e.cluster.node_namespaces import Enclosure, Place

CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Registration:
    """Who the node is: its name, its labels and how it speaks to the API server."""

    name: str
    labels: Mapping[str, str]
    kubeconfig: Path
    certificate_authority: Path


def start(enclosure: Enclosure, folder: Path, registration: Registration) -> None:
    """Start it without waiting. `folder` gets its configuration."""
    place = enclosure.place
    _make_cgroups(place)
    configuration = folder / "kubelet.json"
    configuration.write_text(json.dumps(_configuration(place, registration.certificate_authority), indent=2))
    labels = ",".join(f"{name}={value}" for name, value in registration.labels.items())
    flags = (
        f"--config={configuration}",
        f"--kubeconfig={registration.kubeconfig}",
        f"--hostname-override={registration.name}",
        f"--node-ip={place.node}",
        f"--node-labels={labels}",
    )
    enclosure.start("kubelet", (build.ensure(["kubelet"])["kubelet"], *flags))


def _configuration(place: Place, certificate_authority: Path) -> dict[str, Any]:
    """Looser than production where a small machine needs it: cgroup v1, swap, no local storage accounting."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "authentication": {"x509": {"clientCAFile": str(certificate_authority)}, "anonymous": {"enabled": False}},
        "authorization": {"mode": "Webhook"},
        "address": place.node,
        "healthzBindAddress": place.node,
        "clusterDNS": [place.bridge],
        "clusterDomain": "cluster.local",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "200Mi"},
        "imageGCHighThresholdPercent": 100,
        "resolvConf": "",  # the machine's own name servers are of no use to pods
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "maxPods": 250,
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
        "shutdownGracePeriod": "0s",
    }


def _make_cgroups(place: Place) -> None:
    for controller in _controllers():
        (controller / place.cgroup).mkdir(exist_ok=True)


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
