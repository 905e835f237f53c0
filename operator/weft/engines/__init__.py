"""One adapter per engine: a shape becomes a command, environment, ports, probes and metric names.

`terms`: what every adapter is asked, and answers. `options`: what users may say to an engine. `model`, `kv`, `pods`,
`images` and `routers`: what follows from the model, where KV goes, what surrounds an engine in its pod, NVIDIA's images
and others, and what stands before replicas. Then the engines, which know none of each other: `vllm`, `sglang`,
`tensorrt_llm`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.shape import EngineName
from weft.engines.images.nim import METRICS_PATH, is_driven
from weft.engines.images.running import engine_in, engine_label, release_in
from weft.engines.routers.counted import FRONTS, Counter, FrontSeries
from weft.engines.sglang.adapter import SGLang
from weft.engines.sglang.series import sglang_series
from weft.engines.tensorrt_llm.adapter import TensorRTLLM
from weft.engines.tensorrt_llm.series import tensorrt_llm_series
from weft.engines.terms.contract import EngineAdapter
from weft.engines.terms.launch import (
    DISK_PATH,
    FILES_PATH,
    ContainerLaunch,
    EnvValue,
    FrontRequest,
    HttpProbe,
    LaunchFile,
    LaunchRequest,
    LeavesBy,
    ModelMount,
    MountKind,
    NamedPort,
)
from weft.engines.terms.series import EngineSeries
from weft.engines.terms.sizing import MARGIN_SECONDS, grace_seconds, still_chosen_seconds
from weft.engines.vllm.adapter import VLLM
from weft.engines.vllm.series import vllm_series

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.shape import EngineRelease

__all__ = [
    "DISK_PATH",
    "FILES_PATH",
    "FRONTS",
    "MARGIN_SECONDS",
    "ContainerLaunch",
    "Counter",
    "EngineAdapter",
    "EngineSeries",
    "EnvValue",
    "FrontRequest",
    "FrontSeries",
    "HttpProbe",
    "LaunchFile",
    "LaunchRequest",
    "LeavesBy",
    "ModelMount",
    "MountKind",
    "NamedPort",
    "adapter_for",
    "engine_in",
    "engine_label",
    "finished_by_engine",
    "grace_seconds",
    "ports_by_label",
    "release_in",
    "series_for",
    "series_in_image",
    "still_chosen_seconds",
]

_ADAPTERS: dict[EngineName, EngineAdapter] = {
    EngineName.VLLM: VLLM(),
    EngineName.SGLang: SGLang(),
    EngineName.TensorRTLLM: TensorRTLLM(),
}
_SERIES: dict[EngineName, Callable[[str], EngineSeries]] = {
    EngineName.VLLM: vllm_series,
    EngineName.SGLang: sglang_series,
    EngineName.TensorRTLLM: tensorrt_llm_series,
}


def adapter_for(engine: EngineName) -> EngineAdapter:
    """The adapter of an engine."""
    return _ADAPTERS[engine]


def series_for(engine: EngineName, version: str) -> EngineSeries:
    """Names of the metrics that a version of an engine exposes; raises `Invalid` for a version without numbers."""
    return _SERIES[engine](version)


def ports_by_label() -> dict[str, int]:
    """The port on which each engine serves, keyed by the engine's value in the pod label."""
    return {engine_label(engine): adapter.port for engine, adapter in _ADAPTERS.items()}


def finished_by_engine() -> tuple[str, ...]:
    """Names of the counters of finished requests, one per engine; they are the same in every version."""
    known = load()
    return tuple(series_for(engine, known.engine(engine).version).finished for engine in EngineName)


def series_in_image(release: EngineRelease) -> EngineSeries:
    """The metric names of a release as its image serves them: a NIM has a proxy with another path before the engine."""
    found = series_for(release.name, release.version)
    return replace(found, path=METRICS_PATH) if is_driven(release) else found
