"""Definitions of kinds that others bring into a cluster and Weft reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from e2e.cluster.waiting import eventually
from tests.manifests import install
from weft.observe.queue_records import LOCAL_QUEUES, WORKLOADS
from weft.observe.reading import Reader
from weft.observe.report_cache import served_path
from weft.observe.report_records import COMPUTE_DOMAINS, TOPOLOGIES

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from weft.observe.report_records import OptionalKind

KUEUE = Path(__file__).parent / "kueue_crds.yaml"
KINDS = (COMPUTE_DOMAINS, TOPOLOGIES, LOCAL_QUEUES, WORKLOADS)


def install_neighbours(api: ApiClient) -> None:
    """ComputeDomains of NVIDIA's DRA driver and Kueue's kinds, once the API server serves them all."""
    install(api, (_definition(COMPUTE_DOMAINS, "Namespaced"), *yaml.safe_load_all(KUEUE.read_text())))
    eventually(lambda: all(served_path(Reader(api), kind) for kind in KINDS), "they are served")


def _definition(kind: OptionalKind, scope: str) -> dict[str, Any]:
    """Name and version, and nothing inside."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.versions[0], "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name},
        "spec": {"group": kind.group, "scope": scope, "names": names, "versions": [version]},
    }
