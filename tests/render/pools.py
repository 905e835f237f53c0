"""Pools and splits as the cases need them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from weft.domain.hardware import Precision
from weft.domain.reasons import Explanation, Reason
from weft.domain.scaling_spec import ScalingMode, ScalingSpec
from weft.domain.shape import EngineName, EngineRelease, Limit, Percentiles, Plan, Prediction, Shape
from weft.domain.snapshot import PoolRecord, ResourceKey, SplitRecord
from weft.domain.spec import (
    EngineSpec,
    GatewayParent,
    GatewaySpec,
    KVSpec,
    ModelSpec,
    PlacementSpec,
    PodSpec,
    PoolSpec,
    RolloutSpec,
    RouterKind,
    RouterSpec,
    ShapePins,
    SplitSpec,
)
from weft.domain.status import Assignment, ComputeDomain, Handover, PoolStatus, SplitStatus
from weft.domain.workload import Role, Slo, Workload
from weft.render import revision, shared_domain_name

NAMESPACE = "team"
RELEASE = EngineRelease(EngineName.VLLM, "0.32.0", "vllm/vllm-openai:v0.32.0")
SGLANG = EngineRelease(EngineName.SGLang, "0.5.23", "lmsysorg/sglang:v0.5.23")
TENSORRT_LLM = EngineRelease(EngineName.TensorRTLLM, "1.2.1", "nvcr.io/nvidia/tensorrt-llm/release:1.2.1")
RELEASES = {EngineName.VLLM: RELEASE, EngineName.SGLang: SGLANG, EngineName.TensorRTLLM: TENSORRT_LLM}
LLAMA = "meta-llama/Llama-3.1-8B-Instruct"
DEEPSEEK = "deepseek-ai/DeepSeek-V3"
UID = "6f1c7a52-0000-4000-8000-000000000001"


def shape(
    tensor: int = 1,
    accelerator: str = "H200",
    precision: Precision = Precision.BF16,
    engine: EngineName = EngineName.VLLM,
    **rest: Any,  # noqa: ANN401 - fields of Shape
) -> Shape:
    """A shape in one pod unless `gpus_per_pod` says otherwise."""
    gpus = tensor * rest.get("pipeline_parallel", 1) * rest.get("data_parallel", 1)
    gpus *= rest.get("prefill_context_parallel", 1)
    return Shape(engine, accelerator, precision, tensor_parallel=tensor, **{"gpus_per_pod": gpus, **rest})


def plan(chosen: Shape | None = None, release: EngineRelease | None = None, weight_bytes: float = 16e9) -> Plan:
    """A plan whose weights are `weight_bytes` in all, on a release of the shape's engine."""
    chosen = chosen or shape()
    release = release or RELEASES[chosen.engine]
    ttft, tpot = Percentiles(0.2, 0.18, 0.3, 0.4, 0.6), Percentiles(0.02, 0.02, 0.03, 0.03, 0.04)
    prediction = Prediction(5.0, ttft, tpot, 64, 400_000, weight_bytes / chosen.gpus, Limit.MemoryBandwidth)
    return Plan(chosen, prediction, release, Explanation(Reason.ShapeChosen, "cheapest that meets the SLO"))


def spec(role: Role = Role.Aggregated, **parts: Any) -> PoolSpec:  # noqa: ANN401 - fields of PoolSpec
    """A pool spec; every part has its default."""
    defaults: dict[str, Any] = {
        "model": ModelSpec(LLAMA),
        "engine": EngineSpec(),
        "kv": KVSpec(),
        "workload": Workload(1, 1000, 200, 3000, 600),
        "slo": Slo(),
        "shape": ShapePins(),
        "placement": PlacementSpec(),
        "scaling": ScalingSpec(),
        "rollout": RolloutSpec(),
        "pod": PodSpec(),
        "router": RouterSpec(),
    }
    return PoolSpec(role, **{**defaults, **parts})


def pool(wanted: PoolSpec | None = None, chosen: Plan | None = None, *nodes: tuple[str, ...]) -> PoolRecord:
    """A planned pool `chat` with one assignment per tuple of nodes; replica ids count from 3."""
    wanted, chosen = wanted or spec(), chosen or plan()
    hashed = revision(wanted, chosen)
    assigned = tuple(
        Assignment(number, hashed, at, chosen.shape.gpus_per_pod, 1000.0) for number, at in enumerate(nodes, 3)
    )
    status = PoolStatus(len(nodes), 3 + len(nodes), hashed, chosen.engine, chosen, assigned)
    return PoolRecord(ResourceKey("InferencePool", NAMESPACE, "chat", UID), 4, wanted, status)


def queued(record: PoolRecord, handover: Handover) -> PoolRecord:
    """The pool with replica 3 handed over to a scheduler that picks its nodes."""
    gpus = record.status.plan.shape.gpus_per_pod if record.status.plan else 0
    return changed(record, assignments=(Assignment(3, record.status.revision, (), gpus, 1000.0, handover=handover),))


def sharing(record: PoolRecord, *cliques: str) -> PoolRecord:
    """The pool, whose replicas share memory over NVLink, with the clique of each pod."""
    assigned = (replace(each, compute_domain=ComputeDomain(cliques)) for each in record.status.assignments)
    return changed(record, assignments=tuple(assigned))


def over_nvlink(record: PoolRecord, *cliques: str) -> PoolRecord:
    """The pool as a half of a split `chat` whose KV goes over NVLink, with the clique of each pod."""
    assert record.spec is not None
    assert record.status.plan is not None
    half = replace(record.spec, pair="0a1b2c3d4e", kv=replace(record.spec.kv, transport="NVLink"))
    key, hashed = replace(record.key, name=f"chat-{half.role.lower()}"), revision(half, record.status.plan)
    shared = ComputeDomain(cliques, shared_domain_name("chat", "5f00", half.pair))
    assigned = tuple(replace(each, revision=hashed, compute_domain=shared) for each in record.status.assignments)
    status = replace(record.status, revision=hashed, assignments=assigned)
    return replace(record, key=key, spec=half, split_uid="5f00", status=status)


def behind_a_gateway(record: PoolRecord, **router: Any) -> PoolRecord:  # noqa: ANN401 - fields of RouterSpec
    """The pool as a half of a split `chat` whose requests a Gateway sends."""
    assert record.spec is not None
    assert record.status.plan is not None
    edge = GatewaySpec((GatewayParent("gateway.networking.k8s.io", "Gateway", "edge"),), "picker", 9002)
    half = replace(record.spec, pair="0a1b2c3d4e", router=RouterSpec(RouterKind.Gateway, gateway=edge, **router))
    key = replace(record.key, name=f"chat-{half.role.lower()}")
    hashed = revision(half, record.status.plan)
    assigned = tuple(replace(each, revision=hashed) for each in record.status.assignments)
    status = replace(record.status, revision=hashed, assignments=assigned)
    return replace(record, key=key, spec=half, split_uid="5f00", status=status)


def changed(record: PoolRecord, **fields: Any) -> PoolRecord:  # noqa: ANN401 - fields of PoolStatus
    """The pool with other status fields."""
    return replace(record, status=replace(record.status, **fields))


def split(
    mode: ScalingMode = ScalingMode.Auto,
    router: RouterKind = RouterKind.Managed,
    **fields: Any,  # noqa: ANN401 - fields of SplitRecord
) -> SplitRecord:
    """A split `duo` whose engine is resolved."""
    scaling = ScalingSpec(mode, 2 if mode is ScalingMode.External else None, min_replicas=2)
    body = {"model": {"id": LLAMA}, "scaling": {"mode": mode.value, "minReplicas": 2, "maxReplicas": 10}}
    text = json.dumps(body)
    both = SplitSpec(
        spec(Role.Prefill, scaling=scaling), spec(Role.Decode, scaling=scaling), RouterSpec(router), text, text
    )
    key = ResourceKey("PDSplit", NAMESPACE, "duo", "5f00")
    return SplitRecord(key, 2, **{"spec": both, "status": SplitStatus(RELEASE), "decided": 2, **fields})
