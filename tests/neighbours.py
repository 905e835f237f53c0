"""Definitions of kinds that others bring into a cluster and Weft reads: names and versions, and nothing inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.cluster.waiting import eventually
from tests.manifests import install
from weft.observe.reading import Reader
from weft.observe.report_cache import served_path
from weft.observe.report_records import COMPUTE_DOMAINS, TOPOLOGIES

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from weft.observe.report_records import OptionalKind

SCOPES = {COMPUTE_DOMAINS: "Namespaced", TOPOLOGIES: "Cluster"}


def install_neighbours(api: ApiClient) -> None:
    """ComputeDomains of NVIDIA's DRA driver and Topologies of Kueue, once the API server serves both."""
    install(api, (_definition(kind, scope) for kind, scope in SCOPES.items()))
    eventually(lambda: all(served_path(Reader(api), kind) for kind in SCOPES), "they are served")


def _definition(kind: OptionalKind, scope: str) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.versions[0], "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name},
        "spec": {"group": kind.group, "scope": scope, "names": names, "versions": [version]},
    }
