"""The plan of a pool as the API shows it: the chosen shape, what is expected of it, and those that lost."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from weft.api.fields import ATOMIC, Precision, described
from weft.api.rules import ApiModel
from weft.api.status_fields import Count, Figure, Latencies, Message, ReasonWord, Word


class EngineStatus(ApiModel):
    """The engine as resolved once and then kept."""

    name: Word = Field(description="VLLM, SGLang or TensorRTLLM.")
    version: Word = Field(description="Its version.")
    image: Annotated[str, Field(max_length=512)] = Field(description="Its image.")


class PredictionStatus(ApiModel):
    """What the performance model expects of one replica."""

    capacity: Figure = Field(description="Requests per second of one replica within the SLO; 0 where it cannot be met.")
    ttft: Latencies = Field(description="Time to the first token at the rate that a replica gets.")
    tpot: Latencies = Field(description="Time per further token at the rate that a replica gets.")
    ttft_doubt: Figure = Field(default="1", description="Factor that TTFT exceeds one time in ten.")
    tpot_doubt: Figure = Field(default="1", description="Factor that TPOT exceeds one time in ten.")
    max_batch: Count = Field(description="Requests served at once.")
    kv_tokens: Count = Field(description="Tokens of KV that the replica holds.")
    weight_bytes_per_gpu: Figure = Field(alias="weightBytesPerGPU", description="Bytes of weights on each GPU.")
    limit: Word = Field(
        description="What binds: Compute, MemoryBandwidth, ScaleUpNetwork, ScaleOutNetwork, Latency or KVMemory."
    )


class ShapeFields(ApiModel):
    """A shape with the verdict on it."""

    shape: Word = Field(description="The shape in words, such as H200 FP8 TP4.")
    engine: Word = Field(description="Engine.")
    accelerator: Word = Field(description="Accelerator, by catalog name.")
    precision: Precision = Field(description="Precision of the weights.")
    tensor_parallel: Count = Field(description="GPUs that share each layer.")
    pipeline_parallel: Count = Field(description="Stages that share the layers.")
    expert_parallel: Count = Field(description="GPUs that share the experts; 1 is none.")
    data_parallel: Count = Field(description="Attention-DP ranks inside one replica.")
    decode_context_parallel: Count = Field(default=1, description="GPUs that share one copy of the KV cache.")
    prefill_context_parallel: Count = Field(default=1, description="Tensor groups that share each prompt.")
    gpus_per_pod: Count = Field(alias="gpusPerPod", description="GPUs of each pod.")
    gpus: Count = Field(description="GPUs of one replica.")
    pods: Count = Field(description="Pods of one replica.")
    reason: ReasonWord = Field(description="Why it was chosen, or why it lost.")
    message: Message = Field(default="", description="The sentence for people.")


class AlternativeStatus(ShapeFields):
    """A shape that lost."""

    prediction: PredictionStatus | None = described("What was expected of it, where it got that far.")


class PlanStatus(ShapeFields):
    """The chosen shape, what is expected of it, and what else was looked at."""

    engine_release: EngineStatus = Field(description="The engine that the shape was chosen for.")
    prediction: PredictionStatus = Field(description="What is expected of one replica.")
    alternatives: list[AlternativeStatus] = Field(
        default_factory=list,
        max_length=10,
        description="The best of the shapes that lost, best first, and why.",
        json_schema_extra=ATOMIC,
    )
