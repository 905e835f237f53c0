"""Shapes and free maps as the cases need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.hardware import Precision
from weft.domain.reports import Reports
from weft.domain.shape import EngineName, Shape
from weft.domain.spec import PlacementSpec
from weft.fabric import build_fabric
from weft.placement import FreeMap

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.domain.cluster import NodeRecord, PodRecord

ANYWHERE = PlacementSpec()
NOTHING_REPORTED = Reports()


def tp(size: int, accelerator: str = "H200", stages: int = 1, per_pod: int | None = None) -> Shape:
    """A tensor-parallel shape on whole boards, or on trays of 4."""
    per_pod = per_pod or min(size, 4 if accelerator == "GB200" else 8)
    return Shape(
        EngineName.VLLM,
        accelerator,
        Precision.FP8,
        tensor_parallel=size,
        pipeline_parallel=stages,
        gpus_per_pod=per_pod,
    )


def experts(tensor: int, data: int, accelerator: str = "H200", stages: int = 1) -> Shape:
    """A shape of data-parallel ranks whose GPUs, in every stage, share the experts; per pod a board, or a tray of 4."""
    return Shape(
        EngineName.VLLM,
        accelerator,
        Precision.FP8,
        tensor_parallel=tensor,
        pipeline_parallel=stages,
        expert_parallel=tensor * data,
        data_parallel=data,
        gpus_per_pod=min(tensor * data, 4 if accelerator == "GB200" else 8),
    )


def stages_apart(shape: Shape, nodes: Sequence[str], domains: Mapping[str, str]) -> list[int]:
    """Pipeline stages whose GPUs, counted one by one in the order of the pods, are not all in one NVLink domain."""
    gpus = [domains[node] for node in nodes for _ in range(shape.gpus_per_pod)]
    size = shape.tensor_parallel * shape.data_parallel
    assert len(gpus) == size * shape.pipeline_parallel, f"{len(gpus)} GPUs are not {shape}"
    return [stage for stage in range(shape.pipeline_parallel) if len(set(gpus[stage * size :][:size])) > 1]


def free_map(nodes: list[NodeRecord], *pods: PodRecord, reports: Reports = NOTHING_REPORTED) -> FreeMap:
    """What is free beside these pods, each of which is named as somebody's."""
    fabric = build_fabric(nodes, pods, load(), reports)
    known = fabric.nodes()
    bound = [(pod, known[pod.node]) for pod in pods if pod.node is not None and pod.node in known]
    held = {node.name: {f"{pod.namespace}/{pod.name}": pod.asks_for(node.resource)} for pod, node in bound}
    return FreeMap.of(fabric, (), held)
