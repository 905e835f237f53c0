"""Specs that are wrong in one way each, with the words that a refusal has to say."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from weft.domain.labels import API_VERSION

Json = dict[str, Any]


def resource(kind: str, name: str, spec: Json) -> Json:
    """A body as a user writes it, with the least model unless `spec` has its own."""
    whole = {"model": {"id": "example/model"}, **copy.deepcopy(spec)}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": whole}


@dataclass(frozen=True, slots=True)
class WrongInput:
    """Words of the API server's refusal and of our own problem: the field, and what is allowed."""

    title: str
    spec: Json = field(hash=False)
    server: tuple[str, ...]
    ours: tuple[str, ...]
    kind: str = "InferencePool"


def _model(**fields: Any) -> Json:  # noqa: ANN401 - any JSON
    return {"model": {"id": "example/model", **fields}}


_ZERO = "must be at least 1: zero is not supported yet"
_DURATION = "must be a duration above zero such as 300ms, 90s or 1h30m"
_QUANTITY = "must be a quantity above zero such as 8, 500m or 64Gi"
_NUMBER = "must be a quantity above zero such as 8 or 500m"
_ORDER = "minReplicas must not be above maxReplicas"
_AUTO = "replicas must be absent while scaling.mode is Auto"
_ONE_ENGINE = "engine.name must be VLLM, SGLang or TensorRTLLM"
_UNION = "exactly one of huggingFace, pvc, image, uri must be set"

WRONG = (
    WrongInput(
        "negative count",
        {"scaling": {"maxReplicas": -1}},
        ("spec.scaling.maxReplicas", "greater than or equal to 1"),
        ("spec.scaling.maxReplicas", "greater than or equal to 1"),
    ),
    WrongInput(
        "zero replicas",
        {"scaling": {"minReplicas": 0}},
        ("spec.scaling.minReplicas", _ZERO),
        ("spec.scaling.minReplicas", _ZERO),
    ),
    WrongInput(
        "zero replicas by hand",
        {"scaling": {"mode": "External", "replicas": 0}},
        ("spec.scaling.replicas", _ZERO),
        ("spec.scaling.replicas", _ZERO),
    ),
    WrongInput(
        "too many replicas",
        {"scaling": {"maxReplicas": 1001}},
        ("spec.scaling.maxReplicas", "less than or equal to 1000"),
        ("spec.scaling.maxReplicas", "less than or equal to 1000"),
    ),
    WrongInput(
        "zero tokens",
        {"workload": {"inputTokens": {"mean": 0}}},
        ("spec.workload.inputTokens.mean", "greater than or equal to 1"),
        ("spec.workload.inputTokens.mean", "greater than or equal to 1"),
    ),
    WrongInput(
        "min above max",
        {"scaling": {"minReplicas": 5, "maxReplicas": 3}},
        ("spec.scaling", _ORDER),
        ("spec.scaling", _ORDER),
    ),
    WrongInput(
        "min above the default max",
        {"scaling": {"minReplicas": 11}},
        ("spec.scaling", _ORDER),
        ("spec.scaling", _ORDER),
    ),
    WrongInput(
        "p95 below mean",
        {"workload": {"outputTokens": {"mean": 100, "p95": 50}}},
        ("spec.workload.outputTokens", "p95 must not be below mean"),
        ("spec.workload.outputTokens", "p95 must not be below mean"),
    ),
    WrongInput(
        "more requests than there are people",
        {"workload": {"requestsPerSecond": "1e24"}},
        ("spec.workload.requestsPerSecond", "at most 1000000 requests per second"),
        ("spec.workload.requestsPerSecond", "at most 1000000 requests per second"),
    ),
    WrongInput(
        "a misspelt field that leaves a required one unset",
        {"model": {"idd": "example/model"}},
        ("unknown field", "spec.model.idd"),
        ("spec.model.idd", "unknown field, perhaps id;", "and 1 other mistake"),
    ),
    WrongInput(
        "unknown field",
        {"scaling": {"minReplica": 2}},
        ("unknown field", "spec.scaling.minReplica"),
        ("spec.scaling.minReplica", "unknown field, perhaps minReplicas;", "maxReplicas"),
    ),
    WrongInput(
        "unknown percentile",
        {"slo": {"ttft": {"p42": "1s"}}},
        ("spec.slo.ttft", "p50, p90, p95 and p99"),
        ("spec.slo.ttft.p42", "p50", "p99"),
    ),
    WrongInput(
        "duration in weeks",
        {"slo": {"tpot": {"p95": "3 weeks"}}},
        ("spec.slo.tpot", _DURATION),
        ("spec.slo.tpot.p95", _DURATION),
    ),
    WrongInput(
        "negative duration",
        {"scaling": {"scaleDownDelay": "-5s"}},
        ("spec.scaling.scaleDownDelay", _DURATION),
        ("spec.scaling.scaleDownDelay", _DURATION),
    ),
    WrongInput(
        "duration of nothing",
        {"rollout": {"drainTimeout": "0s"}},
        ("spec.rollout.drainTimeout", _DURATION),
        ("spec.rollout.drainTimeout", _DURATION),
    ),
    WrongInput(
        "model source of two kinds",
        _model(source={"pvc": {"claimName": "a"}, "uri": {"uri": "s3://b/c"}}),
        ("spec.model.source", _UNION),
        ("spec.model.source", _UNION),
    ),
    WrongInput(
        "model source of no kind",
        _model(source={}),
        ("spec.model.source", _UNION),
        ("spec.model.source", _UNION),
    ),
    WrongInput(
        "model config of two kinds",
        _model(config={"inline": {"layers": 1}, "configMapRef": {"name": "a"}}),
        ("spec.model.config", "exactly one of inline, configMapRef must be set"),
        ("spec.model.config", "exactly one of inline, configMapRef must be set"),
    ),
    WrongInput(
        "path out of the volume",
        _model(source={"pvc": {"claimName": "a", "path": "../other"}}),
        ("spec.model.source.pvc", "must not contain '..'"),
        ("spec.model.source.pvc", "must not contain '..'"),
    ),
    WrongInput(
        "model that is a flag",
        _model(id="--trust-remote-code"),
        ("spec.model", "must not start with '-'"),
        ("spec.model", "must not start with '-'"),
    ),
    WrongInput(
        "served name that is a flag",
        _model(servedNames=["-x"]),
        ("spec.model.servedNames[0]", "should match"),
        ("spec.model.servedNames.0", "must not begin with -"),
    ),
    WrongInput(
        "adapter that is a flag",
        _model(adapters=[{"name": "-x", "source": "team/lora"}]),
        ("spec.model.adapters[0].name", "should match"),
        ("spec.model.adapters.0.name", "must not begin with -"),
    ),
    WrongInput(
        "no model",
        {"model": {}},
        ("spec.model.id", "Required value"),
        ("spec.model.id", "required"),
    ),
    WrongInput(
        "replicas in Auto mode",
        {"scaling": {"replicas": 3}},
        ("spec.scaling", _AUTO, "set scaling.mode to External"),
        ("spec.scaling", _AUTO, "set scaling.mode to External"),
    ),
    WrongInput(
        "no replicas in External mode",
        {"scaling": {"mode": "External"}},
        ("spec.scaling", "replicas is required while scaling.mode is External"),
        ("spec.scaling", "replicas is required while scaling.mode is External"),
    ),
    WrongInput(
        "freeze until some day",
        {"scaling": {"freezeUntil": "tomorrow"}},
        ("spec.scaling.freezeUntil", "date-time"),
        ("spec.scaling.freezeUntil", "2026-07-01T08:00:00Z"),
    ),
    WrongInput(
        "10,000 entries in a list",
        {"engine": {"name": "VLLM", "args": ["--x"] * 10_000}},
        ("spec.engine.args", "must have at most 128 items"),
        ("spec.engine.args", "at most 128 items"),
    ),
    WrongInput(
        "the same list entry twice",
        {"placement": {"accelerators": ["H200", "H200"]}},
        ("spec.placement.accelerators", "Duplicate value"),
        ("spec.placement.accelerators", "each entry must be there once"),
    ),
    WrongInput(
        "the same name twice",
        {"engine": {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}},
        ("spec.engine.env", "Duplicate value"),
        ("spec.engine.env", "each entry must be there once"),
    ),
    WrongInput(
        "engine that does not exist",
        {"engine": {"name": "vllm"}},
        ("spec.engine.name", '"VLLM"', '"SGLang"'),
        ("spec.engine.name", "'VLLM'", "'SGLang'"),
    ),
    WrongInput(
        "arguments for any engine",
        {"engine": {"args": ["--x"]}},
        ("spec.engine", _ONE_ENGINE),
        ("spec.engine", _ONE_ENGINE),
    ),
    WrongInput(
        "rate as a float",
        {"workload": {"requestsPerSecond": 2.5}},
        ("spec.workload.requestsPerSecond", "integer,string"),
        ("spec.workload.requestsPerSecond", _NUMBER),
    ),
    WrongInput(
        "rate in words",
        {"workload": {"requestsPerSecond": "many"}},
        ("spec.workload.requestsPerSecond", _NUMBER),
        ("spec.workload.requestsPerSecond", _NUMBER),
    ),
    WrongInput(
        "no memory",
        {"engine": {"resources": {"memory": "0"}}},
        ("spec.engine.resources.memory", _QUANTITY),
        ("spec.engine.resources.memory", _QUANTITY),
    ),
    WrongInput(
        "percentage above 100",
        {"workload": {"prefixHitPercent": 101}},
        ("spec.workload.prefixHitPercent", "less than or equal to 100"),
        ("spec.workload.prefixHitPercent", "less than or equal to 100"),
    ),
    WrongInput(
        "rollout that cannot start",
        {"rollout": {"maxSurge": "0%"}},
        ("spec.rollout", "maxSurge and maxUnavailable must not both be zero"),
        ("spec.rollout", "maxSurge and maxUnavailable must not both be zero"),
    ),
    WrongInput(
        "a trial longer than any start",
        {"rollout": {"minReadySeconds": 3601}},
        ("spec.rollout.minReadySeconds", "less than or equal to 3600"),
        ("spec.rollout.minReadySeconds", "less than or equal to 3600"),
    ),
    WrongInput(
        "negative surge",
        {"rollout": {"maxSurge": "-5%"}},
        ("spec.rollout.maxSurge", "a percentage such as 25%"),
        ("spec.rollout.maxSurge", "a percentage such as 25%"),
    ),
    WrongInput(
        "KV transfer inside one replica",
        {"kvTransfer": {"connector": "NIXL"}},
        ("spec", "kvTransfer must be absent while role is Aggregated"),
        ("spec", "kvTransfer must be absent while role is Aggregated"),
    ),
    WrongInput(
        "a label of ours",
        {"pod": {"labels": {"weft.dev/pool": "other"}}},
        ("spec.pod.labels", "belong to Weft"),
        ("spec.pod", "belong to Weft"),
    ),
    WrongInput(
        "a label that is none",
        {"pod": {"labels": {"a b": "c"}}},
        ("spec.pod.labels", "label keys such as example.com/team"),
        ("spec.pod.labels.a b", "must be the key of a label such as app or example.com/team"),
    ),
    WrongInput(
        "a label with a longer name than Kubernetes takes",
        {"pod": {"labels": {f"example.com/{'a' * 64}": "c"}}},
        ("spec.pod.labels", "label keys such as example.com/team"),
        (f"spec.pod.labels.example.com/{'a' * 52}", "63 characters at most"),
    ),
    WrongInput(
        "group by its name",
        {"pod": {"supplementalGroups": ["render"]}},
        ("spec.pod.supplementalGroups[0]", "integer"),
        ("spec.pod.supplementalGroups.0", "must be a whole number"),
    ),
    WrongInput(
        "relaxation that does not exist",
        {"pod": {"relaxations": ["Privileged"]}},
        ("spec.pod.relaxations[0]", '"IPCLock"', '"HostNetwork"'),
        ("spec.pod.relaxations.0", "'IPCLock'", "'HostNetwork'"),
    ),
    WrongInput(
        "host folder",
        {"pod": {"hostPath": "/etc"}},
        ("unknown field", "spec.pod.hostPath"),
        ("spec.pod.hostPath", "unknown field", "serviceAccountName"),
    ),
    WrongInput(
        "Secret of another namespace",
        {"router": {"apiKeySecretRef": {"name": "keys", "key": "key", "namespace": "kube-system"}}},
        ("unknown field", "spec.router.apiKeySecretRef.namespace"),
        ("spec.router.apiKeySecretRef.namespace", "unknown field", "key, name"),
    ),
    WrongInput(
        "gateway without its type",
        {"router": {"gateway": {"parentRefs": [{"name": "a"}], "endpointPickerRef": {"name": "b"}}}},
        ("spec.router", "router.gateway is required when router.type is Gateway, and allowed only then"),
        ("spec.router", "router.gateway is required when router.type is Gateway, and allowed only then"),
    ),
    WrongInput(
        "queue without Kueue",
        {"placement": {"scheduler": {"queue": "a"}}},
        ("spec.placement.scheduler", "scheduler.queue is required when scheduler.name is Kueue"),
        ("spec.placement.scheduler", "scheduler.queue is required when scheduler.name is Kueue"),
    ),
    WrongInput(
        "replicas of a split",
        {"scaling": {"mode": "External", "replicas": 3}},
        ("unknown field", "spec.scaling.replicas"),
        ("spec.scaling.replicas", "unknown field", "maxReplicas"),
        kind="PDSplit",
    ),
    WrongInput(
        "bounds of a side that cross the common ones",
        {"prefill": {"scaling": {"minReplicas": 11}}},
        ("spec", "minReplicas must not be above maxReplicas once prefill.scaling is laid over scaling"),
        ("spec.prefill.scaling", _ORDER),
        kind="PDSplit",
    ),
    WrongInput(
        "another engine on one side",
        {"engine": {"name": "VLLM"}, "decode": {"engine": {"name": "SGLang"}}},
        ("unknown field", "spec.decode.engine.name"),
        ("spec.decode.engine.name", "unknown field", "args"),
        kind="PDSplit",
    ),
    WrongInput(
        "unknown field of a side",
        {"decode": {"shape": {"tensor": 4}}},
        ("unknown field", "spec.decode.shape.tensor"),
        ("spec.decode.shape.tensor", "unknown field", "tensorParallel"),
        kind="PDSplit",
    ),
    WrongInput(
        "arguments of a side for any engine",
        {"prefill": {"engine": {"args": ["--x"]}}},
        ("spec", _ONE_ENGINE),
        ("spec.prefill.engine", _ONE_ENGINE),
        kind="PDSplit",
    ),
    WrongInput(
        "ratio upside down",
        {"ratio": {"min": 2, "max": "500m"}},
        ("spec.ratio", "ratio.min must not be above ratio.max"),
        ("spec.ratio", "ratio.min must not be above ratio.max"),
        kind="PDSplit",
    ),
    WrongInput(
        "a ratio of counts that others own",
        {"ratio": {"max": 2}, "scaling": {"mode": "External"}},
        ("spec", "ratio must be absent while scaling.mode is External"),
        ("spec", "ratio must be absent while scaling.mode is External"),
        kind="PDSplit",
    ),
)
