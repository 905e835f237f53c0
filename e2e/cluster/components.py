"""How the control plane's processes are told to run: pure functions from a layout to command lines."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from e2e.cluster.ports import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from e2e.cluster.certificates import Certificate

ISSUER = "https://kubernetes.default.svc.cluster.local"
AUDIT_LOG_MEGABYTES = 10_000  # beyond which another file is begun; by default 100, and who reads one reads half


@dataclass(frozen=True, slots=True)
class ControlPlaneOptions:
    """What a control plane is like. Extra flags win over ours; their names have no leading dashes."""

    bind_address: str = LOOPBACK  # 0.0.0.0 with an advertised bridge address when pods must reach the API server
    advertise_address: str | None = None  # the endpoint of the Service `kubernetes`; unset: the bind address
    service_cidr: str = "10.96.0.0/16"
    scheduler: bool = True
    controller_manager: bool = True
    audit: bool = True  # every request as one JSON line, without bodies
    autoscaler_sync_seconds: float = 1.0  # Kubernetes' default is 15
    autoscaler_scale_down_seconds: float = 1.0  # how long HPA keeps to the highest recommendation; the default is 300
    node_monitor_grace_seconds: float = 40.0  # a node whose lease is older is Unknown
    eviction_seconds: int = 300  # how long pods tolerate a node that is not ready or unreachable
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    api_server_flags: Mapping[str, str] = field(default_factory=dict)
    controller_manager_flags: Mapping[str, str] = field(default_factory=dict)
    scheduler_flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def reachable_address(self) -> str:
        """Where clients find the API server."""
        if self.advertise_address:
            return self.advertise_address
        return LOOPBACK if self.bind_address == "0.0.0.0" else self.bind_address

    @property
    def binaries(self) -> tuple[str, ...]:
        optional = {"kube-controller-manager": self.controller_manager, "kube-scheduler": self.scheduler}
        return ("etcd", "kube-apiserver", *(name for name, wanted in optional.items() if wanted))


@dataclass(frozen=True, slots=True)
class Ports:
    """Ports on this machine, each of its own."""

    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int
    scheduler: int


@dataclass(frozen=True, slots=True)
class Credentials:
    """The keys of one cluster. Every certificate is signed by `authority`."""

    authority: Certificate
    serving: Certificate
    admin: Certificate
    controller_manager: Certificate
    scheduler: Certificate
    kubelet_client: Certificate  # how the API server calls kubelets
    front_proxy: Certificate  # how the API server calls extension API servers
    service_accounts: Path


@dataclass(frozen=True, slots=True)
class Layout:
    """Everything the command lines are made of."""

    directory: Path
    ports: Ports
    credentials: Credentials
    binaries: Mapping[str, Path]
    options: ControlPlaneOptions

    @property
    def server(self) -> str:
        return f"https://{self.options.reachable_address}:{self.ports.api_server}"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    @property
    def controller_manager_kubeconfig(self) -> Path:
        return self.directory / "kubeconfigs" / "controller-manager"

    @property
    def scheduler_kubeconfig(self) -> Path:
        return self.directory / "kubeconfigs" / "scheduler"

    @property
    def audit_log(self) -> Path:
        return self.directory / "audit.log"

    @property
    def audit_policy(self) -> Path:
        return self.directory / "audit-policy.json"

    @property
    def scheduler_config(self) -> Path:
        return self.directory / "scheduler.json"

    @property
    def etcd_url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports.etcd}"


def write_configuration(layout: Layout) -> None:
    """Write the files that the command lines name."""
    layout.audit_policy.write_text(json.dumps(audit_policy()))
    layout.scheduler_config.write_text(json.dumps(scheduler_configuration(layout.scheduler_kubeconfig)))


def audit_policy() -> dict[str, Any]:
    """Who did what to which object and with what result, once per request; health probes of ours left out."""
    probes = {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]}
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [probes, {"level": "Metadata"}],
    }


def scheduler_configuration(kubeconfig: Path) -> dict[str, Any]:
    """One scheduler, free to call the API often and quick to try a pod again."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 500, "burst": 1000},
        "podMaxBackoffSeconds": 2,
    }


def etcd(layout: Layout) -> list[str]:
    """A single member that trusts the page cache: it survives its own death, not the machine's."""
    peer_url = f"http://{LOOPBACK}:{layout.ports.etcd_peer}"
    flags = {
        "data-dir": str(layout.directory / "etcd"),
        "listen-client-urls": layout.etcd_url,
        "advertise-client-urls": layout.etcd_url,
        "listen-peer-urls": peer_url,
        "initial-advertise-peer-urls": peer_url,
        "initial-cluster": f"default={peer_url}",
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }
    return _command(layout, "etcd", flags)


def api_server(layout: Layout) -> list[str]:
    options, credentials = layout.options, layout.credentials
    flags = {
        "etcd-servers": layout.etcd_url,
        "bind-address": options.bind_address,
        "advertise-address": options.reachable_address,
        "secure-port": str(layout.ports.api_server),
        "service-cluster-ip-range": options.service_cidr,
        "authorization-mode": "Node,RBAC",
        "allow-privileged": "true",
        "kubelet-preferred-address-types": "InternalIP",
        "default-not-ready-toleration-seconds": str(options.eviction_seconds),
        "default-unreachable-toleration-seconds": str(options.eviction_seconds),
        "client-ca-file": str(credentials.authority.certificate),
        **_key_pair("tls-cert-file", "tls-private-key-file", credentials.serving),
        **_key_pair("kubelet-client-certificate", "kubelet-client-key", credentials.kubelet_client),
        **_service_account_flags(credentials),
        **_aggregation_flags(credentials),
        **(_audit_flags(layout) if options.audit else {}),
    }
    return _command(layout, "kube-apiserver", {**flags, **_gates(options), **options.api_server_flags})


def controller_manager(layout: Layout) -> list[str]:
    options, credentials = layout.options, layout.credentials
    flags = {
        "kubeconfig": str(layout.controller_manager_kubeconfig),
        "authentication-kubeconfig": str(layout.controller_manager_kubeconfig),
        "authorization-kubeconfig": str(layout.controller_manager_kubeconfig),
        "bind-address": LOOPBACK,
        "secure-port": str(layout.ports.controller_manager),
        "leader-elect": "false",
        "use-service-account-credentials": "true",
        "service-account-private-key-file": str(credentials.service_accounts),
        "root-ca-file": str(credentials.authority.certificate),
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
        "horizontal-pod-autoscaler-sync-period": f"{options.autoscaler_sync_seconds:g}s",
        "horizontal-pod-autoscaler-downscale-stabilization": f"{options.autoscaler_scale_down_seconds:g}s",
        "node-monitor-period": f"{min(5.0, options.node_monitor_grace_seconds / 4):g}s",
        "node-monitor-grace-period": f"{options.node_monitor_grace_seconds:g}s",
        **_key_pair("tls-cert-file", "tls-private-key-file", credentials.serving),
        **_key_pair("cluster-signing-cert-file", "cluster-signing-key-file", credentials.authority),
    }
    return _command(layout, "kube-controller-manager", {**flags, **_gates(options), **options.controller_manager_flags})


def scheduler(layout: Layout) -> list[str]:
    flags = {
        "config": str(layout.scheduler_config),
        "authentication-kubeconfig": str(layout.scheduler_kubeconfig),
        "authorization-kubeconfig": str(layout.scheduler_kubeconfig),
        "bind-address": LOOPBACK,
        "secure-port": str(layout.ports.scheduler),
        **_key_pair("tls-cert-file", "tls-private-key-file", layout.credentials.serving),
    }
    return _command(layout, "kube-scheduler", {**flags, **_gates(layout.options), **layout.options.scheduler_flags})


def _service_account_flags(credentials: Credentials) -> dict[str, str]:
    return {
        "service-account-issuer": ISSUER,
        "api-audiences": ISSUER,
        "service-account-key-file": str(credentials.service_accounts),
        "service-account-signing-key-file": str(credentials.service_accounts),
    }


def _aggregation_flags(credentials: Credentials) -> dict[str, str]:
    """Let extension API servers, such as a metrics adapter, trust what the API server hands on."""
    return {
        "requestheader-client-ca-file": str(credentials.authority.certificate),
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "enable-aggregator-routing": "true",
        **_key_pair("proxy-client-cert-file", "proxy-client-key-file", credentials.front_proxy),
    }


def _audit_flags(layout: Layout) -> dict[str, str]:
    paths = {"audit-policy-file": str(layout.audit_policy), "audit-log-path": str(layout.audit_log)}
    return {**paths, "audit-log-maxsize": str(AUDIT_LOG_MEGABYTES)}


def _key_pair(certificate_flag: str, key_flag: str, pair: Certificate) -> dict[str, str]:
    return {certificate_flag: str(pair.certificate), key_flag: str(pair.key)}


def _gates(options: ControlPlaneOptions) -> dict[str, str]:
    gates = ",".join(f"{gate}={str(on).lower()}" for gate, on in options.feature_gates.items())
    return {"feature-gates": gates} if gates else {}


def _command(layout: Layout, name: str, flags: Mapping[str, str]) -> list[str]:
    return [str(layout.binaries[name]), *(f"--{flag}={value}" for flag, value in flags.items())]
