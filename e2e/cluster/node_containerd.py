"""containerd of the node's own, and the pods' network that its CNI plugins make."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from e2e.cluster import images
from e2e.cluster.node_namespaces import BRIDGE, NodeFailedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from e2e.cluster.node_namespaces import Enclosure

SOCKET = "/run/containerd/containerd.sock"  # inside the enclosure, whose /run is its own
START_TIMEOUT_SECONDS = 30.0
_PLUGIN_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin")
_PLUGINS = ("bridge", "host-local", "loopback")


def start(enclosure: Enclosure, folder: Path) -> None:
    """Start it and import the pause image. `folder` gets its configuration."""
    configuration = _write(folder / "containerd.toml", _configuration(_plugin_folder(), folder / "cni"))
    _write(folder / "cni" / "10-weft.conflist", json.dumps(_pod_network(enclosure.place.pods), indent=2))
    process = enclosure.start("containerd", ("containerd", "--config", configuration))
    process.wait_until(lambda: _answers(enclosure), START_TIMEOUT_SECONDS)
    import_images(enclosure, [images.pause_image(folder / "images")])


def import_images(enclosure: Enclosure, archives: Iterable[Path]) -> None:
    """Make images known to the kubelet, under every tag that their archives carry."""
    for archive in archives:
        enclosure.run((*_CTR, "images", "import", "--no-unpack", archive))


_CTR = ("ctr", "--address", SOCKET, "--namespace", "k8s.io")


def _answers(enclosure: Enclosure) -> bool:
    try:
        return bool(enclosure.run((*_CTR, "version")))
    except NodeFailedError:
        return False


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _configuration(plugins: Path, networks: Path) -> str:
    """`restrict_oom_score_adj`: without CAP_SYS_RESOURCE, as in many containers, no sandbox would start otherwise."""
    return f"""\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE_TAG}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{networks}"
"""


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
