"""What is known of starts, whatever the pool: how fast each source of weights is, and what engines take themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.shape import EngineName

CACHE = "Cache"  # a claim that keeps downloads; the other sources are called as in `SourceKind`


@dataclass(frozen=True, slots=True)
class SourceSpeed:
    """Bytes a second of one node; infinite where a step is none.

    `fetched` is what comes to the node before an engine reads, `read` what the engine reads. Where it is `streamed`
    engines copy to GPUs as fast as they read.
    """

    fetched: float
    read: float
    streamed: bool


@dataclass(frozen=True, slots=True)
class EngineStart:
    """Bytes of an engine's image as pulled, and its own seconds: so many, and so many more for each layer."""

    image_bytes: float
    seconds: float
    layer_seconds: float


@dataclass(frozen=True, slots=True)
class Starting:
    """All constants of an estimate, `starting.yaml` with its sources. Speeds are bytes a second."""

    registry: float
    loader: float
    sources: dict[str, SourceSpeed]
    engines: dict[EngineName, EngineStart]
