"""Features of a pool that vLLM alone has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.spec import Balancing

if TYPE_CHECKING:
    from weft.domain.spec import PoolSpec


def refuse_what_vllm_alone_does(spec: PoolSpec, engine: str) -> None:
    """Raise `Invalid` if a pool asks another engine for a feature that only vLLM has."""
    if spec.engine.distributed != "Native":
        raise Invalid(
            Reason.FeatureUnsupported,
            f"spec.engine.distributed Ray is not supported on {engine}: use Native, or spec.engine.name VLLM",
        )
    if spec.balancing is not Balancing.Internal:
        raise Invalid(
            Reason.FeatureUnsupported,
            f"spec.shape.dataParallelBalancing {spec.balancing.value} is not supported on {engine}: use Internal, or "
            "spec.engine.name VLLM",
        )
