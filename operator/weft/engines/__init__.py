"""One adapter per engine: a shape becomes a command, environment, ports, probes and metric names."""

from __future__ import annotations

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.engines.contract import EngineAdapter
from weft.engines.launch import (
    ContainerLaunch,
    EnvValue,
    FrontRequest,
    HttpProbe,
    LaunchRequest,
    ModelMount,
    MountKind,
    NamedPort,
)
from weft.engines.series import EngineSeries
from weft.engines.vllm import VLLM

__all__ = [
    "ContainerLaunch",
    "EngineAdapter",
    "EngineSeries",
    "EnvValue",
    "FrontRequest",
    "HttpProbe",
    "LaunchRequest",
    "ModelMount",
    "MountKind",
    "NamedPort",
    "adapter_for",
]

_ADAPTERS: dict[EngineName, EngineAdapter] = {EngineName.VLLM: VLLM()}


def adapter_for(engine: EngineName) -> EngineAdapter:
    """The adapter of an engine; raises `Invalid(EngineUnsupported)` for one that cannot be launched yet."""
    adapter = _ADAPTERS.get(engine)
    if adapter is None:
        known = ", ".join(sorted(_ADAPTERS))
        raise Invalid(Reason.EngineUnsupported, f"engine {engine.value} cannot be launched yet: use {known}")
    return adapter
