"""A row as a user of aiconfigurator would ask it: the arguments of its `cli_estimate`.

Models, precisions, sizes and batch follow the adapter for InferenceX records that it brings along
(`aiconfigurator.sdk.config_adapter.inferencex`); everything that is not said here has its defaults. Where there is more
than one way to ask, the first is the one that comes closer to what was measured.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from weft.domain.hardware import Precision
from weft.domain.shape import EngineName

if TYPE_CHECKING:
    from bench.fitting.rows import Row
    from weft.domain.shape import Shape
    from weft.perf.benchmarks.measured import Measurement
    from weft.perf.replica import ReplicaModel

_SYSTEMS = {
    "A100": "a100_sxm",
    "H100": "h100_sxm",
    "H200": "h200_sxm",
    "B200": "b200_sxm",
    "B300": "b300_sxm",
    "GB200": "gb200",
    "GB300": "gb300",
    "L40S": "l40s",
}
BACKENDS = {EngineName.VLLM: "vllm", EngineName.SGLang: "sglang", EngineName.TensorRTLLM: "trtllm"}
_MODELS = {  # of the same architecture, among those whose configuration it brings along
    "meta-llama/Llama-3.3-70B-Instruct": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-70B-Instruct": "meta-llama/Meta-Llama-3.1-70B",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3.1-8B",
    "meta-llama/Llama-3.1-405B-Instruct": "meta-llama/Meta-Llama-3.1-405B",
}
_MODES = {Precision.FP8: "fp8", Precision.NVFP4: "nvfp4", Precision.INT4: "int4_wo", Precision.INT8: "int8_wo"}
_BLOCKS = "fp8_block"  # scales per block of 128, as DeepSeek publishes its weights
_MXFP4_ON_BLACKWELL = "w4a8_mxfp4_mxfp8"  # "recommended for Blackwell", where its default is that of older GPUs

Arguments = tuple[tuple[str, int | str], ...]


@dataclass(frozen=True, slots=True)
class Question:
    """One call of it: `estimate` or `plan`."""

    call: str
    arguments: Arguments

    @property
    def text(self) -> str:
        """The same for the same question."""
        return json.dumps({"call": self.call, "arguments": dict(self.arguments)}, sort_keys=True)


def questions(row: Row) -> tuple[Question, ...]:
    """The ways to ask for a row, to be tried in this order; none where it does not know the GPU."""
    replica = row.at.replica
    system = _SYSTEMS.get(replica.accelerator.name)
    if system is None:
        return ()
    place: Arguments = (
        ("model_path", _MODELS.get(replica.architecture.model_id, replica.architecture.model_id)),
        ("system_name", system),
        ("backend_name", BACKENDS[replica.shape.engine]),
    )
    common = (*place, *_load(row.at), *_sizes(replica.shape), *_cache_mode(row))
    ways = product(_expert_sizes(replica), _modes(replica))
    return tuple(Question("estimate", (*common, *sizes, *modes)) for sizes, modes in ways)


def _load(at: Measurement) -> Arguments:
    """Mean lengths, and the users of one attention rank: its batch is per rank."""
    return (
        ("isl", round(at.input_tokens)),
        ("osl", round(at.output_tokens)),
        ("batch_size", max(1, int(at.users) // at.replica.shape.data_parallel)),
    )


def _sizes(shape: Shape) -> Arguments:
    return (
        ("tp_size", shape.tensor_parallel),
        ("pp_size", shape.pipeline_parallel),
        ("attention_dp_size", shape.data_parallel),
    )


def _cache_mode(row: Row) -> Arguments:
    """Its default is that of the checkpoint's configuration, mostly BF16; TensorRT-LLM takes FP8 for quantised ones."""
    known = row.columns.get("kv_precision") or row.at.replica.shape.engine is EngineName.TensorRTLLM
    return (("kvcache_quant_mode", "fp8"),) if known and row.at.replica.kv_precision is Precision.FP8 else ()


def _expert_sizes(replica: ReplicaModel) -> tuple[Arguments, ...]:
    """Expert weights by tensor and by expert: vLLM parts experts over all GPUs of a stage or not at all.

    Kernels that part each expert were not measured with every engine: then as if experts were parted, not each of them.
    """
    if replica.architecture.experts is None:
        return ((),)
    shape = replica.shape
    gpus, groups = shape.tensor_parallel * shape.data_parallel, shape.expert_parallel
    if shape.engine is EngineName.VLLM and groups > 1:
        groups = gpus
    ways = dict.fromkeys((groups, gpus))
    return tuple((("moe_tp_size", gpus // each), ("moe_ep_size", each)) for each in ways)


def _modes(replica: ReplicaModel) -> tuple[Arguments, ...]:
    """Modes of matrix multiplications; none are said where it finds them in the configuration of the model."""
    precision, engine = replica.shape.precision, replica.shape.engine
    if precision is Precision.MXFP4:
        recommended = replica.accelerator.generation == "Blackwell" and engine is not EngineName.VLLM
        return ((("moe_quant_mode", _MXFP4_ON_BLACKWELL),), ()) if recommended else ((),)
    mode = _MODES.get(precision)
    if mode is None:
        return ((),)
    if replica.architecture.experts is None:
        return ((("gemm_quant_mode", mode),),)
    if precision is not Precision.FP8:
        return (_both(mode, mode),)
    usual = _both(mode, _BLOCKS if engine is EngineName.SGLang else mode)
    return (usual, _both(_BLOCKS, _BLOCKS))


def _both(dense: str, experts: str) -> Arguments:
    return (("gemm_quant_mode", dense), ("moe_quant_mode", experts))
