"""Which binaries there are, and where their sources are pinned."""

from __future__ import annotations

import functools
import platform
import re
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).with_name("binaries")
_KUBERNETES_VERSION = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class Component:
    """A Go module of ours that pins one project: `binaries/NAME/go.mod`."""

    name: str
    module: str  # the pinned module, whose version is the component's
    version_flags: str = ""  # for the linker; {version}, {major} and {minor} are filled in

    @property
    def directory(self) -> Path:
        return MODULES / self.name

    @property
    def version(self) -> str:
        """The version that go.mod requires, with its leading v."""
        pinned = re.search(rf"^(?:require)?\s*{re.escape(self.module)} (v\S+)$", self._go_mod, re.MULTILINE)
        if pinned is None:
            raise ValueError(f"{self.directory / 'go.mod'} does not require {self.module}")
        return pinned.group(1)

    @property
    def _go_mod(self) -> str:
        return (self.directory / "go.mod").read_text()

    @property
    def linker_flags(self) -> str:
        version = self.version
        major, minor, *_ = version.removeprefix("v").split(".")
        return f"-s -w {self.version_flags.format(version=version, major=major, minor=minor)}".strip()

    @property
    def folder_name(self) -> str:
        """The name of its folder in the cache: component, version, system and machine."""
        return f"{self.name}-{self.version}-{platform.system().lower()}-{platform.machine()}"


@dataclass(frozen=True, slots=True)
class Binary:
    """One command, built from a Go package of a component."""

    name: str
    component: Component
    package: str


_KUBERNETES = Component(
    "kubernetes",
    "k8s.io/kubernetes",
    f"-X {_KUBERNETES_VERSION}.gitVersion={{version}} -X {_KUBERNETES_VERSION}.gitMajor={{major}}"
    f" -X {_KUBERNETES_VERSION}.gitMinor={{minor}}",
)
_ETCD = Component("etcd", "go.etcd.io/etcd/server/v3")
_KWOK = Component("kwok", "sigs.k8s.io/kwok", "-X sigs.k8s.io/kwok/pkg/consts.Version={version}")
_COREDNS = Component("coredns", "github.com/coredns/coredns")
_HELM = Component("helm", "helm.sh/helm/v4", "-X helm.sh/helm/v4/internal/version.version={version}")

KUBERNETES_COMMANDS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)


@functools.cache
def known_binaries() -> dict[str, Binary]:
    """Return all binaries by name."""
    others = (
        Binary("etcd", _ETCD, "go.etcd.io/etcd/server/v3"),
        Binary("kwok", _KWOK, "sigs.k8s.io/kwok/cmd/kwok"),
        Binary("coredns", _COREDNS, "github.com/coredns/coredns"),
        Binary("helm", _HELM, "helm.sh/helm/v4/cmd/helm"),
    )
    kubernetes = (Binary(name, _KUBERNETES, f"k8s.io/kubernetes/cmd/{name}") for name in KUBERNETES_COMMANDS)
    return {binary.name: binary for binary in (*others, *kubernetes)}
