"""How long a replica's start should take, before one of its pool was measured: a sum of known costs.

start = image / registry + weights fetched + weights loaded + engine (a + b x layers). Weights count per node, where a
replica reads them once, and in the precision in which they are stored: engines convert them afterwards. Everything is
counted as if a node saw it for the first time, but volume claims, which are taken to be filled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import parameter_count
from weft.catalog.parameters import embedding_parameters, expert_parameters
from weft.catalog.starting import CACHE
from weft.domain.spec import SourceKind
from weft.domain.start_up import StartUp
from weft.perf.memory import bytes_of_embeddings, bytes_outside_experts

if TYPE_CHECKING:
    from weft.catalog.starting import SourceSpeed, StartConstants
    from weft.domain.model import Architecture
    from weft.domain.shape import Plan
    from weft.domain.spec import ModelSource


def estimated_start(
    architecture: Architecture, plan: Plan, source: ModelSource | None, known: StartConstants
) -> StartUp:
    """Whole seconds from a node to the first answer of a replica; `source` None is Hugging Face."""
    engine = known.engines[plan.shape.engine]
    speed = known.sources[_kind(source)]
    weights = weights_seconds(checkpoint_bytes(architecture), plan.prediction.weight_bytes_per_gpu, speed, known.loader)
    return StartUp(
        image=round(engine.image_bytes / known.registry),
        weights=round(weights),
        engine=round(engine.seconds + engine.layer_seconds * architecture.layers),
    )


def weights_seconds(node_bytes: float, gpu_bytes: float, speed: SourceSpeed, loader: float) -> float:
    """Seconds until every GPU has its weights: `node_bytes` are read by a node, and `gpu_bytes` held by one GPU."""
    loaded = node_bytes / speed.read
    if not speed.streamed:
        loaded = max(loaded, gpu_bytes / loader)
    return node_bytes / speed.fetched + loaded


def checkpoint_bytes(architecture: Architecture) -> float:
    """Bytes of all weights as the checkpoint stores them, each once."""
    stored, experts = architecture.checkpoint_precision, architecture.experts
    routed = 0.0
    if experts is not None:
        routed = architecture.expert_layers * experts.count * expert_parameters(architecture.hidden, experts)
    embeddings = embedding_parameters(architecture)
    others = parameter_count(architecture) - routed - embeddings
    return (
        others * bytes_outside_experts(architecture, stored)
        + routed * stored.bytes_per_weight
        + embeddings * bytes_of_embeddings(stored)
    )


def _kind(source: ModelSource | None) -> str:
    if source is None:
        return SourceKind.HuggingFace.value
    return CACHE if source.cache is not None else source.kind.value
