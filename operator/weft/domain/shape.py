"""How one replica is built, its predicted performance, and which alternatives lost."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from weft.domain.values.made_often import made_often

if TYPE_CHECKING:
    from weft.domain.hardware import Precision
    from weft.domain.reasons import Explanation


class EngineName(StrEnum):
    """Inference engines that Weft knows by name."""

    VLLM = "VLLM"
    SGLang = "SGLang"
    TensorRTLLM = "TensorRTLLM"


class Limit(StrEnum):
    """What limits a step or a replica's capacity: a resource, or latency."""

    Compute = "Compute"
    MemoryBandwidth = "MemoryBandwidth"
    ScaleUpNetwork = "ScaleUpNetwork"
    ScaleOutNetwork = "ScaleOutNetwork"
    Latency = "Latency"
    KVMemory = "KVMemory"


@dataclass(frozen=True, slots=True)
class Shape:
    """One replica: engine, precision and parallelism on one kind of accelerator, hence GPUs and pods.

    `expert_parallel` is 1 or the size of the expert group (TP x DP x PCP under vLLM's rules); `data_parallel` counts
    attention-DP ranks inside the replica. `decode_context_parallel` GPUs of a tensor group share a KV cache that each
    would otherwise replicate; `prefill_context_parallel` tensor groups share the tokens of a prompt. GPUs = tensor x
    pipeline x data x prefill context; all pods have `gpus_per_pod` GPUs.
    """

    engine: EngineName
    accelerator: str
    precision: Precision
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    expert_parallel: int = 1
    data_parallel: int = 1
    gpus_per_pod: int = 1
    decode_context_parallel: int = 1
    prefill_context_parallel: int = 1

    @property
    def gpus(self) -> int:
        """GPUs of one replica. Decode context parallelism reuses those of the tensor group."""
        return self.domain_group_gpus * self.pipeline_parallel

    @property
    def pods(self) -> int:
        """Pods of one replica; each sits on a node of its own when there is more than one."""
        return self.gpus // self.gpus_per_pod

    @property
    def ranks_per_pod(self) -> int:
        """Whole data-parallel ranks in each pod; 0 where one does not fit a pod."""
        return self.gpus_per_pod * self.data_parallel // self.gpus

    @property
    def domain_group_gpus(self) -> int:
        """GPUs that must share one NVLink domain: the whole replica, or one pipeline stage of it."""
        return self.tensor_parallel * self.data_parallel * self.prefill_context_parallel

    def __str__(self) -> str:
        """`H200 FP8 TP4` or `GB200 NVFP4 TP4 DP4 EP16`: the words of `weft plan` and of the SHAPE column."""
        parts = (
            ("TP", self.tensor_parallel),
            ("DCP", self.decode_context_parallel),
            ("PCP", self.prefill_context_parallel),
            ("PP", self.pipeline_parallel),
            ("DP", self.data_parallel),
            ("EP", self.expert_parallel),
        )
        words = [f"{word}{size}" for word, size in parts if size > 1 or word == "TP"]
        return " ".join([self.accelerator, self.precision.value, *words])


@made_often
@dataclass(frozen=True, slots=True)
class Calibration:
    """How a running pool differs from its prediction: measured over predicted time, for prefill and for decode steps.

    `points` counts the measurements used, `prompt_points` those of them that were informative about prefill; 0: nothing
    is known yet. The tails are the percentiles that have targets, measured over predicted with these factors; None
    where not measured.
    """

    prefill: float = 1.0
    decode: float = 1.0
    points: int = 0
    prompt_points: int = 0
    ttft_tail: float | None = None
    tpot_tail: float | None = None


@dataclass(frozen=True, slots=True)
class Percentiles:
    """A latency in seconds: mean and percentiles over requests."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The performance model's prediction for one replica of a shape under a workload and an SLO.

    `capacity` is requests per second per replica at the SLO (0 when it cannot be met at any rate, except in a
    best-effort plan, which takes 1.5 times an idle replica's latency for a target out of reach); `ttft` and `tpot` are
    at that rate, and in a plan at the rate that each replica gets (`tpot` is 0 in a prefill replica, and in a plan for
    answers of one token; `ttft` of a decode replica starts when it gets the prompt). One time in ten, latencies exceed
    the prediction by more than the error bars `ttft_doubt` and `tpot_doubt`, which are factors. `kv_tokens` is the
    whole replica's KV room; `limit` is what binds.
    """

    capacity: float
    ttft: Percentiles
    tpot: Percentiles
    max_batch: int
    kv_tokens: int
    weight_bytes_per_gpu: float
    limit: Limit
    ttft_doubt: float = 1.0
    tpot_doubt: float = 1.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A considered shape; `verdict` says why it won or lost. `prediction` is None if it was refused before."""

    shape: Shape
    verdict: Explanation
    prediction: Prediction | None = None


@dataclass(frozen=True, slots=True)
class EngineRelease:
    """An engine version, resolved once and then kept in status, and its image."""

    name: EngineName
    version: str
    image: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The chosen shape with its prediction, and the best alternatives (at most 10, best first)."""

    shape: Shape
    prediction: Prediction
    engine: EngineRelease
    verdict: Explanation
    alternatives: tuple[Candidate, ...] = ()
