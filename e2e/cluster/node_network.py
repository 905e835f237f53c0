"""Services and names for pods: kube-proxy and CoreDNS, inside the node's enclosure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from e2e.cluster import build

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.cluster.node_namespaces import Enclosure, Place

_COREFILE = """\
cluster.local in-addr.arpa {{
    bind {address}
    errors
    kubernetes {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 1
    }}
}}
. {{
    bind {address}
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def start_proxy(enclosure: Enclosure, folder: Path, name: str, kubeconfig: Path) -> None:
    configuration = folder / "kube-proxy.json"
    configuration.write_text(json.dumps(_proxy_configuration(enclosure.place, name, kubeconfig), indent=2))
    enclosure.start("kube-proxy", (build.ensure(["kube-proxy"])["kube-proxy"], f"--config={configuration}"))


def start_names(enclosure: Enclosure, folder: Path, kubeconfig: Path) -> None:
    """CoreDNS answers for Services and pods; there is nothing beyond the cluster, so other names do not exist."""
    corefile = folder / "Corefile"
    corefile.write_text(_COREFILE.format(address=enclosure.place.bridge, kubeconfig=kubeconfig))
    enclosure.start("coredns", (build.ensure(["coredns"])["coredns"], "-conf", corefile))


def _proxy_configuration(place: Place, name: str, kubeconfig: Path) -> dict[str, Any]:
    """The connection tracking limits are the machine's, not ours to raise: zero leaves them."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "hostnameOverride": name,
        "mode": "iptables",
        "clusterCIDR": place.pods,
        "bindAddress": place.node,
        "healthzBindAddress": f"{place.node}:10256",
        "metricsBindAddress": f"{place.node}:10249",
        "iptables": {"minSyncPeriod": "0s", "syncPeriod": "30s"},
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }
