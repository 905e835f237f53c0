"""Facts about starts of any pool: the speed of each source of weights, and the engines' own start time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.shape import EngineName

CACHE = "Cache"  # a claim that keeps downloads; other sources are named as in `SourceKind`


@dataclass(frozen=True, slots=True)
class SourceSpeed:
    """Bytes per second on one node; infinite for a step that does not exist.

    `fetched` is what reaches the node before the engine reads, `read` what the engine reads. If `streamed`, engines
    copy to GPUs as fast as they read.
    """

    fetched: float
    read: float
    streamed: bool


@dataclass(frozen=True, slots=True)
class EngineStart:
    """Bytes of an engine's image as pulled, and its own start: seconds, plus seconds per layer."""

    image_bytes: float
    seconds: float
    layer_seconds: float


@dataclass(frozen=True, slots=True)
class StartConstants:
    """All constants of a start estimate, from `starting.yaml`, which has the sources. Speeds are bytes per second."""

    registry: float
    loader: float
    sources: dict[str, SourceSpeed]
    engines: dict[EngineName, EngineStart]
