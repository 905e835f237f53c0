"""Definitions of kinds that others bring into a cluster and Weft reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from e2e.cluster.waiting import eventually
from tests.manifests import install
from weft.observe.api_server.reading import Reader
from weft.observe.informers.gateway import KINDS as GATEWAY_KINDS
from weft.observe.informers.reports import served_path
from weft.observe.objects.queues import LOCAL_QUEUES, WORKLOADS
from weft.observe.objects.reports import COMPUTE_DOMAINS, TOPOLOGIES

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

DEFINITIONS = tuple(Path(__file__).parent / f"{name}_crds.yaml" for name in ("nvidia", "kueue", "gateway"))
KINDS = (COMPUTE_DOMAINS, TOPOLOGIES, LOCAL_QUEUES, WORKLOADS, *GATEWAY_KINDS)


def install_neighbours(api: ApiClient) -> None:
    """ComputeDomains of NVIDIA's driver, Kueue's kinds and what Gateways route by, once the API server serves them."""
    for path in DEFINITIONS:
        install(api, tuple(yaml.safe_load_all(path.read_text())))
    eventually(lambda: all(served_path(Reader(api), kind) for kind in KINDS), "they are served")
