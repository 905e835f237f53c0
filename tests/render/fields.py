"""Every field of an InferencePool: a value to change it to, and what that shall come to.

A row says beside what the field is looked at, where it means nothing alone.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
BASE: Json = {
    "model": {"id": LLAMA},
    "engine": {"name": "VLLM"},
    "placement": {"accelerators": ["H200"]},
    "scaling": {"maxReplicas": 4},
    "rollout": {"strategy": "Recreate"},  # so that nodes are free again before the next place is looked for
}
# Fields that steer the choice of a shape, a node or a count, or what is chosen once
STEERING = (
    *("model.id", "model.precision", "engine.name", "engine.version"),
    *("workload", "slo", "shape", "scaling", "placement.accelerators", "placement.nodeSelector", "rollout"),
)
PAIRS = 24  # sampled ways from a spec to another and on to a third
PODS = frozenset({"Pod"})
BUDGETS = frozenset({"PodDisruptionBudget"})
COUNT = PODS | BUDGETS
ROUTERS = frozenset({"Deployment"})
FRONT = frozenset({"Service", "Deployment", "PodDisruptionBudget"})


@dataclass(frozen=True, slots=True)
class Rendered:
    """The value changes objects of these kinds. `lasts`: why what runs keeps it once it is taken back."""

    value: Any
    kinds: frozenset[str] = PODS
    beside: Json = field(default_factory=dict)
    lasts: str = ""


@dataclass(frozen=True, slots=True)
class Decided:
    """The value renders nothing: it changes what is decided on, for this reason."""

    value: Any
    reason: str
    beside: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """The value is refused in a sentence that has these words."""

    value: Any
    words: str
    beside: Json = field(default_factory=dict)


Row = Rendered | Decided | Refused


def laid_over(base: Json, more: Json) -> Json:
    """A copy of a spec with other fields laid over it; lists are replaced."""
    merged = copy.deepcopy(base)
    for key, value in more.items():
        inner = merged.get(key)
        merged[key] = laid_over(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return copy.deepcopy(merged)


def put(spec: Json, path: str, value: Any) -> Json:  # noqa: ANN401 - any JSON
    """A copy with one field set; lists are entered by their first item."""
    changed = copy.deepcopy(spec)
    *parents, last = path.split(".")
    inside = changed
    for name in parents:
        inside = inside.setdefault(name, {})
        inside = inside[0] if isinstance(inside, list) else inside
    inside[last] = value
    return changed


def _source(**kind: Any) -> Json:  # noqa: ANN401 - any JSON
    return {"model": {"source": kind}}


_HUB = _source(
    huggingFace={"revision": "main", "tokenSecretRef": {"name": "hub", "key": "token"}, "cacheClaimName": "downloads"}
)
_PVC = _source(pvc={"claimName": "models", "path": "a"})
_IMAGE = _source(image={"reference": "example/weights:1"})
_STORE = _source(uri={"uri": "s3://bucket/a", "secretRef": {"name": "store"}})
_ARCHITECTURE = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}
_INLINE = {"model": {"id": "example/new", "config": {"inline": _ARCHITECTURE}}}
_CONFIG_MAP = {"model": {"id": "example/new", "config": {"configMapRef": {"name": "config"}}}}
_ADAPTERS = {"model": {"adapters": [{"name": "legal", "source": "example/legal"}]}}
_ENV = {"engine": {"env": [{"name": "A", "value": "1"}]}}
_RDMA = {"engine": {"resources": {"rdma": {"resource": "rdma/hca", "count": 1}}}}
_DRAFTING = {"engine": {"speculative": {"method": "EAGLE3", "model": "example/eagle"}}}
_OFFLOAD = {"kvCache": {"offload": {"size": "64Gi"}}}
_ON_DISKS = {**_OFFLOAD, "engine": {"name": "SGLang"}}
_MOVING = {"role": "Decode", "kvTransfer": {}}
_BUSY: Json = {"workload": {"requestsPerSecond": 50}, "slo": {"ttft": {"p95": "1s"}, "tpot": {"p95": "50ms"}}}
_LENGTHS = {
    **_BUSY,
    "workload": {"requestsPerSecond": 45, "inputTokens": {"mean": 1024}, "outputTokens": {"mean": 256}},
}
_EXPERTS = {"model": {"id": "Qwen/Qwen3-30B-A3B"}, "shape": {"tensorParallel": 2}}
_LATENT = {
    "model": {"id": "deepseek-ai/DeepSeek-V3"},
    "shape": {"tensorParallel": 8, "expertParallel": 1, "dataParallel": 1, "pipelineParallel": 1},
}
_PROMPTS = {
    "role": "Prefill",
    "model": {"id": "deepseek-ai/DeepSeek-V3"},
    "shape": {"tensorParallel": 8},
    "placement": {"accelerators": ["GB200"]},
}
_RANKS = {
    "model": {"id": "deepseek-ai/DeepSeek-V3"},
    "shape": {"tensorParallel": 2, "dataParallel": 4},
    "placement": {"accelerators": ["GB200"]},
}
_TOLERATION = {"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 60}
_TOLERATIONS = {"placement": {"tolerations": [_TOLERATION]}}
_STAGES = {
    "shape": {"tensorParallel": 4, "pipelineParallel": 2, "dataParallel": 1},
    "placement": {"accelerators": ["GB200"], "nodeSelector": {"alone": "true"}},
}
_TRAYS = {
    "shape": {"tensorParallel": 4, "pipelineParallel": 1, "dataParallel": 1},
    "placement": {"accelerators": ["GB200"]},
    "scaling": {"minReplicas": 6, "maxReplicas": 6},
}
_KUEUE = {"placement": {"scheduler": {"name": "Kueue", "queue": "a"}}}
_EXTERNAL = {"scaling": {"mode": "External", "replicas": 1}}
_SURGE = {"rollout": {"strategy": "Surge"}, "scaling": {"minReplicas": 4}}
_MANAGED = {"router": {"type": "Managed"}}
_KEY = {"router": {"apiKeySecretRef": {"name": "keys", "key": "token"}}}
_GATEWAY = {
    "router": {
        "type": "Gateway",
        "gateway": {"parentRefs": [{"name": "front"}], "endpointPickerRef": {"name": "picker"}},
    }
}
_RESOLVED = "a release that was resolved stays until another is asked for"
_KEEPS_SHAPE = "a pool keeps its shape unless another is at least 15 % better"
_UNMEASURED = "without metrics counts stay"
_NO_PLAN = "a spec that has no plan leaves what runs as it is"

ROWS: dict[str, Row] = {
    "role": Rendered("Prefill", PODS | BUDGETS | {"Service"}),
    "model.id": Rendered("Qwen/Qwen3-8B"),
    "model.servedNames": Rendered(["chat"]),
    "model.source.huggingFace.repository": Rendered("example/copy", beside=_HUB),
    "model.source.huggingFace.revision": Rendered("0123abc", beside=_HUB),
    "model.source.huggingFace.tokenSecretRef.name": Rendered("other", beside=_HUB),
    "model.source.huggingFace.tokenSecretRef.key": Rendered("other", beside=_HUB),
    "model.source.huggingFace.cacheClaimName": Rendered("others", beside=_HUB),
    "model.source.huggingFace.warmUp": Rendered(value=True, beside=_HUB),
    "model.source.pvc.claimName": Rendered("others", beside=_PVC),
    "model.source.pvc.path": Rendered("b", beside=_PVC),
    "model.source.image.reference": Rendered("example/weights:2", beside=_IMAGE),
    "model.source.image.pullPolicy": Rendered("Always", beside=_IMAGE),
    "model.source.uri.uri": Rendered("s3://bucket/b", beside=_STORE),
    "model.source.uri.secretRef.name": Rendered("other", beside=_STORE),
    "model.config.inline": Rendered({**_ARCHITECTURE, "num_hidden_layers": 400}, beside=_INLINE),
    "model.config.configMapRef.name": Decided("other", "which ConfigMap is read before deciding", _CONFIG_MAP),
    "model.config.configMapRef.key": Decided("other.json", "which of its keys is read", _CONFIG_MAP),
    "model.precision": Rendered("FP8"),
    "model.precisions": Rendered(["FP8"]),
    "model.maxModelLen": Rendered(4096),
    "model.adapters.name": Rendered("code", beside=_ADAPTERS),
    "model.adapters.source": Rendered("example/code", beside=_ADAPTERS),
    "model.adapters.rank": Rendered(64, beside=_ADAPTERS),
    "engine.args": Rendered(["--max-num-seqs=64"]),
    "engine.env.name": Rendered("B", beside=_ENV),
    "engine.env.value": Rendered("2", beside=_ENV),
    "engine.resources.cpu": Rendered("4"),
    "engine.resources.memory": Rendered("32Gi"),
    "engine.resources.sharedMemory": Rendered("3Gi"),
    "engine.resources.hugePages2Mi": Rendered(512, beside={"engine": {"resources": {"memory": "8Gi"}}}),
    "engine.resources.hugePages1Gi": Rendered(4, beside={"engine": {"resources": {"memory": "8Gi"}}}),
    "engine.resources.rdma.resource": Rendered("rdma/other", beside=_RDMA),
    "engine.resources.rdma.count": Rendered(2, beside=_RDMA),
    "engine.speculative.method": Rendered("DraftModel", beside=_DRAFTING),
    "engine.speculative.model": Rendered("example/other", beside=_DRAFTING),
    "engine.speculative.tokens": Rendered(5, beside=_DRAFTING),
    "engine.distributed": Refused("Ray", "engine.distributed Ray"),
    "engine.name": Rendered("SGLang"),
    "engine.version": Rendered("0.31.0", lasts=_RESOLVED),
    "engine.image": Rendered("example/engine:1"),
    "kvCache.precision": Rendered("FP8"),
    "kvCache.offload.size": Rendered("128Gi", beside=_OFFLOAD),
    "kvCache.offload.backend": Rendered("LMCache", beside=_OFFLOAD),
    "kvCache.offload.diskGiB": Rendered(500, beside=_ON_DISKS),
    "kvTransfer.connector": Rendered("Mooncake", beside=_MOVING),
    "kvTransfer.transport": Rendered("TCP", beside=_MOVING),
    "kvTransfer.locality": Decided("Any", "where a half of a split goes beside the other", _MOVING),
    "workload.requestsPerSecond": Rendered(50, COUNT),
    "workload.inputTokens.mean": Rendered(4096, COUNT, _BUSY),
    "workload.inputTokens.p95": Rendered(60000, COUNT, _LENGTHS),
    "workload.outputTokens.mean": Rendered(1024, COUNT, _BUSY),
    "workload.outputTokens.p95": Rendered(60000, COUNT, _LENGTHS),
    "workload.prefixHitPercent": Rendered(90, COUNT, _BUSY),
    "workload.arrivalVariationPercent": Rendered(1000, COUNT, _BUSY),
    "slo.ttft": Rendered({"p95": "40ms"}, COUNT, _BUSY),
    "slo.tpot": Rendered({"p95": "4ms"}, COUNT, _BUSY),
    "shape.tensorParallel": Rendered(2),
    "shape.pipelineParallel": Rendered(2),
    "shape.expertParallel": Rendered(2, beside=_EXPERTS, lasts=_KEEPS_SHAPE),
    "shape.dataParallel": Rendered(2, beside=_EXPERTS),
    "shape.decodeContextParallel": Rendered(8, beside=_LATENT, lasts=_KEEPS_SHAPE),
    "shape.prefillContextParallel": Rendered(2, COUNT, _PROMPTS),
    "shape.dataParallelBalancing": Rendered("Hybrid", PODS | {"Service"}, _RANKS),
    "placement.accelerators": Rendered(["H100"]),
    "placement.nodeSelector": Rendered({"topology.kubernetes.io/zone": "z-2"}),
    "placement.tolerations.key": Rendered("c", beside=_TOLERATIONS),
    "placement.tolerations.operator": Rendered("Exists", beside={"placement": {"tolerations": [{"key": "a"}]}}),
    "placement.tolerations.value": Rendered("c", beside=_TOLERATIONS),
    "placement.tolerations.effect": Rendered(
        "NoSchedule", beside={"placement": {"tolerations": [{"key": "a", "effect": "NoExecute"}]}}
    ),
    "placement.tolerations.tolerationSeconds": Rendered(30, beside=_TOLERATIONS),
    "placement.domain": Rendered("Preferred", COUNT | {"Service"}, _STAGES, _NO_PLAN),
    "placement.spread": Rendered("Zone", beside={"scaling": {"minReplicas": 2}}),
    "placement.spareNodesPerDomain": Rendered(1, COUNT, _TRAYS),
    "placement.scheduler.name": Refused("Kueue", "scheduler.queue is required"),
    "placement.scheduler.queue": Rendered("b", beside=_KUEUE),
    "scaling.minReplicas": Rendered(2, COUNT, lasts=_UNMEASURED),
    "scaling.maxReplicas": Rendered(2, COUNT, _BUSY),
    "scaling.maxGPUs": Rendered(2, COUNT, _BUSY, _UNMEASURED),
    "scaling.maxStep": Decided(1, "how fast counts move"),
    "scaling.scaleDownDelay": Decided("1m", "when counts fall"),
    "scaling.headroomPercent": Rendered(100, COUNT, _BUSY),
    "scaling.riskPercent": Decided(50, "how often demand may outgrow its forecasts", _BUSY),
    "scaling.mode": Refused("External", "replicas is required"),
    "scaling.replicas": Rendered(2, COUNT, _EXTERNAL),
    "scaling.freezeUntil": Decided("2030-01-01T00:00:00Z", "until when counts stay"),
    "rollout.strategy": Decided("Surge", "in which order replicas are replaced"),
    "rollout.maxSurge": Decided(2, "how many are replaced at a time", _SURGE),
    "rollout.maxUnavailable": Rendered(2, BUDGETS, {"scaling": {"minReplicas": 3}}),
    "rollout.minReadySeconds": Decided(60, "when earlier replicas leave for new ones", _SURGE),
    "rollout.paused": Decided(True, "whether running replicas follow the spec"),  # noqa: FBT003 - a field's value
    "rollout.drainTimeout": Rendered("60s"),
    "rollout.startTimeout": Rendered("2h"),
    "pod.labels": Rendered({"team": "llm"}),
    "pod.annotations": Rendered({"note": "text"}),
    "pod.serviceAccountName": Rendered("engine"),
    "pod.imagePullSecrets.name": Rendered("other", beside={"pod": {"imagePullSecrets": [{"name": "registry"}]}}),
    "pod.runtimeClassName": Rendered("nvidia"),
    "pod.priorityClassName": Rendered("high"),
    "pod.supplementalGroups": Rendered([44, 109]),
    "pod.relaxations": Refused(["RunAsRoot"], "pod.relaxations RunAsRoot is not allowed in this cluster"),
    "router.type": Rendered("Managed", FRONT),
    "router.replicas": Rendered(2, ROUTERS | BUDGETS, _MANAGED),
    "router.image": Rendered("example/router:1", ROUTERS, _MANAGED),
    "router.resources.cpu": Rendered("500m", ROUTERS, _MANAGED),
    "router.resources.memory": Rendered("1Gi", ROUTERS, _MANAGED),
    "router.apiKeySecretRef.name": Rendered("other", beside=_KEY),
    "router.apiKeySecretRef.key": Rendered("other", beside=_KEY),
    "router.gateway.parentRefs.group": Rendered("example.com", frozenset({"HTTPRoute"}), _GATEWAY),
    "router.gateway.parentRefs.kind": Rendered("Other", frozenset({"HTTPRoute"}), _GATEWAY),
    "router.gateway.parentRefs.name": Rendered("other", frozenset({"HTTPRoute"}), _GATEWAY),
    "router.gateway.parentRefs.namespace": Rendered("other", frozenset({"HTTPRoute"}), _GATEWAY),
    "router.gateway.parentRefs.sectionName": Rendered("http", frozenset({"HTTPRoute"}), _GATEWAY),
    "router.gateway.parentRefs.port": Rendered(80, frozenset({"HTTPRoute"}), _GATEWAY),
    "router.gateway.hostnames": Rendered(["chat.example.com"], frozenset({"HTTPRoute"}), _GATEWAY),
    "router.gateway.endpointPickerRef.name": Rendered("other", frozenset({"InferencePool"}), _GATEWAY),
    "router.gateway.endpointPickerRef.port": Rendered(9003, frozenset({"InferencePool"}), _GATEWAY),
}


def leaves_of(schema: Json, path: str = "") -> Iterator[str]:
    """Paths of all fields that have no fields of their own; lists are entered."""
    members = schema.get("properties") or schema.get("items", {}).get("properties")
    if not members:
        yield path
    for name, member in (members or {}).items():
        yield from leaves_of(member, f"{path}.{name}" if path else name)
