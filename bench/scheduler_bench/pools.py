"""The same gangs as InferencePools whose replicas are as large: one pool a size, the counts are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kubernetes import client

from bench.scheduler_bench.demand import GPUS_PER_TRAY
from weft.domain import labels

if TYPE_CHECKING:
    from e2e.cluster.control_plane import ControlPlane

Json = dict[str, Any]
USER = "system:serviceaccount:weft-system:weft-controller"
POOL_PREFIX = "trays-"


def create(cluster: ControlPlane, namespace: str, sizes: dict[int, int]) -> None:
    """Create one pool for each size."""
    with cluster.api_client() as api:
        custom = client.CustomObjectsApi(api)
        for size, count in sizes.items():
            custom.create_namespaced_custom_object(
                "weft.dev", "v1alpha1", namespace, "inferencepools", pool(size, count)
            )


def pool(trays: int, replicas: int) -> Json:
    """Replicas over that many trays, as many as somebody outside of Weft asked for."""
    return {
        "apiVersion": labels.API_VERSION,
        "kind": "InferencePool",
        "metadata": {"name": f"{POOL_PREFIX}{trays}"},
        "spec": {
            "model": {"id": "meta-llama/Llama-3.3-70B-Instruct"},
            "shape": {"tensorParallel": trays * GPUS_PER_TRAY},
            "placement": {"accelerators": ["GB200"]},
            "router": {"type": "None"},
            "scaling": {"mode": "External", "replicas": replicas, "maxReplicas": 1000},
        },
    }


def identify(body: Json) -> tuple[str, int] | None:
    """Replica and size of a pod."""
    tags = body["metadata"].get("labels") or {}
    if labels.POOL not in tags or labels.REPLICA not in tags:
        return None
    return f"{tags[labels.POOL]}/{tags[labels.REPLICA]}", int(tags[labels.POOL].removeprefix(POOL_PREFIX))
