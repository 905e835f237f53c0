"""containerd of a node's own, and the pods' network that its CNI plugins make."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2e.cluster import images
from e2e.cluster.node_namespaces import BRIDGE, NodeFailedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from e2e.cluster.node_namespaces import Enclosure

START_TIMEOUT_SECONDS = 120.0
_PLUGIN_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
_PLUGINS = ("bridge", "host-local", "loopback")


@dataclass(frozen=True, slots=True)
class Containerd:
    """The one of a node, which shares the network of pods with those of other nodes in its enclosure."""

    enclosure: Enclosure
    node: str

    @property
    def process_name(self) -> str:
        """Its name among the processes."""
        return f"containerd-{self.node}"

    @property
    def socket(self) -> str:
        """Inside the enclosure, whose /run is its own."""
        return f"{self._state}/containerd.sock"

    def start(self, folder: Path) -> None:
        """Start it and import the pause image. `folder` gets its configuration."""
        networks = folder / "cni"
        configuration = _write(folder / f"{self.process_name}.toml", self._configuration(_plugin_folder(), networks))
        _write(networks / "10-weft.conflist", json.dumps(_pod_network(self.enclosure.place.pods), indent=2))
        process = self.enclosure.start(self.process_name, ("containerd", "--config", configuration))
        process.wait_until(self._answers, START_TIMEOUT_SECONDS)
        self.import_images([images.pause_image(folder / "images")])

    def import_images(self, archives: Iterable[Path]) -> None:
        """Make images known to the kubelet, under every tag that their archives carry."""
        for archive in archives:
            self.enclosure.run((*self._ctr, "images", "import", "--no-unpack", archive))

    @property
    def _state(self) -> str:
        return f"/run/containerd-{self.node}"

    @property
    def _ctr(self) -> tuple[str, ...]:
        return ("ctr", "--address", self.socket, "--namespace", "k8s.io")

    def _answers(self) -> bool:
        try:
            return bool(self.enclosure.run((*self._ctr, "version")))
        except NodeFailedError:
            return False

    def _configuration(self, plugins: Path, networks: Path) -> str:
        """`restrict_oom_score_adj`: without CAP_SYS_RESOURCE, as in many containers, no sandbox would start."""
        return f"""\
version = 2
root = "/var/lib/containerd-{self.node}"
state = "{self._state}"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE_TAG}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{networks}"
"""


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _pod_network(pods: str) -> dict[str, Any]:
    """A bridge that exists already and has its address. Hairpin: a pod may reach itself through its Service."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": pods}]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": True, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": "weft", "plugins": [bridge]}


def _plugin_folder() -> Path:
    for folder in map(Path, _PLUGIN_FOLDERS):
        if all(shutil.which(plugin, path=folder) for plugin in _PLUGINS):
            return folder
    raise NodeFailedError(f"no CNI plugins in {_PLUGIN_FOLDERS}; Debian: apt install containernetworking-plugins")
