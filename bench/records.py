"""Nodes, pools and their pods as a cluster would show them, made up: a benchmark says only what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weft.domain.cluster import ContainerFailure, NodeRecord, PodIdentity, PodPhase, PodRecord
from weft.domain.scaling_spec import ScalingMode, ScalingSpec
from weft.domain.snapshot import PoolRecord, ResourceKey
from weft.domain.spec import (
    EngineSpec,
    KVSpec,
    ModelSpec,
    PlacementSpec,
    PodSpec,
    PoolSpec,
    RolloutSpec,
    RouterSpec,
    ShapePins,
)
from weft.domain.status import Assignment, PoolStatus
from weft.domain.workload import Role, Slo, Workload

START = 1_800_000_000.0
GPU = "nvidia.com/gpu"
LLAMA_70B = "meta-llama/Llama-3.3-70B-Instruct"


def node_record(name: str, product: str, gpus: int, labels: dict[str, str] | None = None, **more: Any) -> NodeRecord:  # noqa: ANN401 - fields of NodeRecord
    """One with GPUs of a product, as its label names that, beside `labels`."""
    tags = {f"{GPU}.product": product, **(labels or {})}
    devices = ((GPU, gpus),)
    return NodeRecord(name, f"uid-{name}", tuple(sorted(tags.items())), devices, devices, **more)


def in_clique(clique: str) -> dict[str, str]:
    """The label of a tray that shares NVLink with the others of its clique."""
    return {f"{GPU}.clique": clique}


def pool_spec(model: str = LLAMA_70B, **parts: Any) -> PoolSpec:  # noqa: ANN401 - fields of PoolSpec
    """A request a second of 1000 tokens and 200 in answer, without an SLO; every part may be another."""
    usual: dict[str, Any] = {
        "role": Role.Aggregated,
        "model": ModelSpec(model),
        "engine": EngineSpec(),
        "kv": KVSpec(),
        "workload": Workload(1.0, 1000, 200, 3000, 500),
        "slo": Slo(),
        "shape": ShapePins(),
        "placement": PlacementSpec(),
        "scaling": ScalingSpec(),
        "rollout": RolloutSpec(),
        "pod": PodSpec(),
        "router": RouterSpec(),
    }
    return PoolSpec(**{**usual, **parts})


def exactly(replicas: int) -> ScalingSpec:
    """So many, as somebody else says."""
    return ScalingSpec(mode=ScalingMode.External, replicas=replicas, max_replicas=replicas)


def pool_record(index: int, spec: PoolSpec, namespace: str = "team", **more: Any) -> PoolRecord:  # noqa: ANN401 - fields of PoolRecord
    """One that was just applied."""
    key = ResourceKey("InferencePool", namespace, f"pool-{index:04}", f"uid-{index}")
    return PoolRecord(key, 1, spec, PoolStatus(), **more)


def pod_record(record: PoolRecord, assignment: Assignment, rank: int, **more: Any) -> PodRecord:  # noqa: ANN401 - fields of PodRecord
    """One of a replica, up and ready."""
    name = f"{record.key.name}-{assignment.replica}-{rank}"
    return PodRecord(
        record.key.namespace,
        name,
        f"uid-{name}",
        phase=PodPhase.Running,
        node=assignment.nodes[rank],
        requests=((GPU, assignment.gpus_per_pod),),
        identity=PodIdentity(record.key.uid, assignment.replica, rank, assignment.revision),
        ready=True,
        created=assignment.since,
        released=assignment.since,
        **more,
    )


def edited(record: PoolRecord, stamp: float) -> PoolRecord:
    """Its user sets a variable of the engine, which makes a new revision."""
    if record.spec is None:
        return record
    engine = replace(record.spec.engine, env=(("STAMP", str(stamp)),))
    return replace(record, spec=replace(record.spec, engine=engine))


def ended(running: PodRecord) -> PodRecord:
    """Its engine ends by a fault of its GPU."""
    failure = ContainerFailure("Error", "RuntimeError: CUDA error: an illegal memory access was encountered", 1)
    return replace(running, phase=PodPhase.Failed, ready=False, failure=failure)
