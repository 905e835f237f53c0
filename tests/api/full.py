"""Pools in which every field of the API is set, and to something else than its default."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
Path = tuple[str, ...]

_HUGGING_FACE: Json = {
    "huggingFace": {
        "repository": "other/repository",
        "revision": "0123abc",
        "tokenSecretRef": {"name": "token", "key": "value"},
        "cacheClaimName": "downloads",
        "warmUp": True,
    }
}

_FIRST: Json = {
    "role": "Decode",
    "model": {
        "id": "example/model",
        "servedNames": ["chat", "default"],
        "source": _HUGGING_FACE,
        "config": {"configMapRef": {"name": "config", "key": "other.json"}},
        "precision": "FP8",
        "maxModelLen": 32768,
        "adapters": [{"name": "legal", "source": "example/legal-lora", "rank": 64}],
    },
    "engine": {
        "name": "VLLM",
        "version": "0.32.0",
        "image": "vllm/vllm-openai@sha256:00",
        "args": ["--seed", "1"],
        "env": [{"name": "A", "value": "1"}],
        "resources": {
            "cpu": 16,
            "memory": "128Gi",
            "sharedMemory": "16Gi",
            "hugePages2Mi": 512,
            "hugePages1Gi": 4,
            "rdma": {"resource": "rdma/hca", "count": 8},
        },
        "speculative": {"method": "EAGLE3", "model": "example/eagle", "tokens": 5},
        "distributed": "Ray",
    },
    "kvCache": {"precision": "FP8", "offload": {"size": "256Gi", "backend": "LMCache", "diskGiB": 500}},
    "kvTransfer": {"connector": "Mooncake", "transport": "TCP", "locality": "Required"},
    "workload": {
        "requestsPerSecond": "2500m",
        "inputTokens": {"mean": 2000, "p95": 9000},
        "outputTokens": {"mean": 300, "p95": 900},
        "prefixHitPercent": 30,
        "arrivalVariationPercent": 150,
    },
    "slo": {"ttft": {"p99": "1m30s", "p50": "300ms"}, "tpot": {"p95": "40ms"}},
    "shape": {
        "tensorParallel": 8,
        "pipelineParallel": 2,
        "expertParallel": 4,
        "dataParallel": 3,
        "decodeContextParallel": 6,
        "prefillContextParallel": 7,
        "dataParallelBalancing": "Hybrid",
    },
    "placement": {
        "accelerators": ["H200", "GB200"],
        "nodeSelector": {"example.com/pool": "inference"},
        "tolerations": [{"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 60}],
        "domain": "Preferred",
        "spread": "Zone",
        "spareNodesPerDomain": 2,
        "scheduler": {"name": "Kueue", "queue": "inference"},
    },
    "scaling": {
        "mode": "External",
        "replicas": 4,
        "minReplicas": 2,
        "maxReplicas": 20,
        "maxGPUs": 64,
        "maxStep": 3,
        "freezeUntil": "2026-07-01T08:00:00Z",
        "scaleDownDelay": "10m",
        "headroomPercent": 20,
        "riskPercent": 5,
    },
    "rollout": {
        "strategy": "Recreate",
        "maxSurge": "25%",
        "maxUnavailable": 2,
        "minReadySeconds": 60,
        "paused": True,
        "drainTimeout": "20m",
        "startTimeout": "2h",
    },
    "pod": {
        "labels": {"example.com/team": "chat"},
        "annotations": {"example.com/note": "text"},
        "serviceAccountName": "engine",
        "imagePullSecrets": [{"name": "registry"}],
        "runtimeClassName": "nvidia",
        "priorityClassName": "high",
        "supplementalGroups": [44, 109],
        "relaxations": ["IPCLock"],
    },
    "router": {
        "type": "Gateway",
        "replicas": 2,
        "image": "example/router:1",
        "resources": {"cpu": "500m", "memory": "1Gi"},
        "apiKeySecretRef": {"name": "keys", "key": "key"},
        "gateway": {
            "parentRefs": [{"group": "g", "kind": "k", "name": "n", "namespace": "ns", "sectionName": "s", "port": 80}],
            "hostnames": ["chat.example.com"],
            "endpointPickerRef": {"name": "picker", "port": 9003},
        },
    },
}


def _with_model(**fields: Any) -> Json:  # noqa: ANN401 - any JSON
    """The rest of the unions, on an otherwise least pool."""
    return {"model": {"id": "example/model", **fields}}


FULL_POOLS: tuple[Json, ...] = (
    _FIRST,
    _with_model(source={"pvc": {"claimName": "models", "path": "llama"}}, config={"inline": {"num_hidden_layers": 2}}),
    _with_model(source={"image": {"reference": "example/weights:1", "pullPolicy": "Always"}}),
    _with_model(source={"uri": {"uri": "s3://bucket/model", "secretRef": {"name": "store"}}}),
    _with_model(precisions=["FP8", "BF16"]),
    {"placement": {"tolerations": [{"operator": "Exists"}]}},
)


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:  # noqa: ANN401 - any JSON
    """Paths of all fields that hold no object; the items of a list are looked into by their fields alone."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, (*path, name))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        yield from leaves(value[0], path)
    else:
        yield path


def without(full: Json, path: Path) -> Json:
    """A copy that lacks one field."""
    spec = copy.deepcopy(full)
    del _parent(spec, path)[path[-1]]
    return spec


def replaced(full: Json, path: Path, value: Any) -> Json:  # noqa: ANN401 - any JSON
    """A copy with another value in one place."""
    spec = copy.deepcopy(full)
    _parent(spec, path)[path[-1]] = value
    return spec


def _parent(spec: Json, path: Path) -> Json:
    """The object that holds the last field of a path; lists are entered by their first item."""
    parent: Any = spec
    for name in path[:-1]:
        parent = parent[name]
        parent = parent[0] if isinstance(parent, list) else parent
    found: Json = parent
    return found
