"""Shapes and free maps as the cases need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, Shape
from weft.domain.spec import PlacementSpec
from weft.fabric import build_fabric
from weft.placement import FreeMap

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord, PodRecord

ANYWHERE = PlacementSpec()


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


def free_map(nodes: list[NodeRecord], *pods: PodRecord) -> FreeMap:
    """What is free beside these pods, each of which is named as somebody's."""
    occupants = {pod.node: (f"{pod.namespace}/{pod.name}",) for pod in pods if pod.node}
    return FreeMap.of(build_fabric(nodes, pods, load()), (), occupants)
