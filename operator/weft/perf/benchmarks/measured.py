"""A measurement as a table row states it: which replica under which load. Columns as in published benchmark tables.

`model, gpu, n_gpus, engine, engine_version, precision, kv_precision, tp, ep, pp, dp, isl, osl, concurrency,
request_rate, note`; an empty column has the default of its kind. Names are resolved as people write them: any case,
with or without the organisation, with a precision at the end of the model's name, with or without vendor, form factor
and memory of the GPU. A multiple of one replica's GPUs means several replicas.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn

from weft.catalog.spelling import accelerator_as_written, architecture_as_written, device_as_written
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, Shape
from weft.perf.benchmarks.alone import MeasuredHalf, alone_in
from weft.perf.benchmarks.closed_loop import USUAL_ROUNDS
from weft.perf.benchmarks.disaggregated import Half
from weft.perf.benchmarks.layouts import Layout, layout_of
from weft.perf.benchmarks.recipes import (
    draws_lengths,
    graph_tokens,
    overlaps_batches,
    rounds_of,
    step_tokens,
    steps_between_looks,
)
from weft.perf.crossing import across_domains
from weft.perf.replica import ReplicaModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.catalog import Catalog
    from weft.domain.model import Architecture

_ENGINES = {  # without spaces, hyphens and underscores
    "vllm": EngineName.VLLM,
    "sglang": EngineName.SGLang,
    "trtllm": EngineName.TensorRTLLM,
    "tensorrtllm": EngineName.TensorRTLLM,
}
_KV_PRECISIONS = {
    "FP8": Precision.FP8,
    "FP8_E4M3": Precision.FP8,
    "FP8_E5M2": Precision.FP8,
    "BF16": Precision.BF16,
    "FP16": Precision.BF16,
}
_MOST_GPUS, _MOST_TOKENS, _MOST_USERS, _HIGHEST_RATE = 4096, 1e8, 1e7, 1e7  # far beyond anything there is
# What people write for a precision, and so at the end of a model's name; 4-bit weights beside 16-bit activations are
# INT4 however they were found.
_SPELLINGS = {
    "FP16": "BF16",
    "HALF": "BF16",
    "BFLOAT16": "BF16",
    "FLOAT16": "BF16",
    "FP4": "NVFP4",
    "FP8-KV": "FP8",
    "FP8-DYNAMIC": "FP8",
    "FP8-BLOCK": "FP8",
    "FP8-E4M3": "FP8",
    "W8A8-FP8": "FP8",
    "W8A8": "INT8",
    "W8A8-INT8": "INT8",
    "W4A16": "INT4",
    "AWQ": "INT4",
    "GPTQ": "INT4",
    "GPTQ-INT4": "INT4",
    "AWQ-INT4": "INT4",
    "INT4-AWQ": "INT4",
}
_LONGEST_FIRST = "|".join(sorted([*map(re.escape, _SPELLINGS), *Precision], key=len, reverse=True))
_PRECISION_SUFFIX = re.compile(rf"[-_ ](?:quantized\.)?({_LONGEST_FIRST})(-v\d)?$", re.IGNORECASE)
_MEASURED_ON = re.compile(r"measured (20\d\d)-(\d\d)")
_SPREAD_MEAN = 0.9  # InferenceX draws each length evenly from 0.8 to 1.0 of the nominal one


class Kind(StrEnum):
    """How a measurement was made."""

    ClosedLoop = "closed loop"
    Offline = "offline"
    OpenLoop = "open loop"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A replica and its load. `users` of a closed loop, `rate` (requests/s) of an open one; lengths are mean tokens.

    In an open loop `users` bounds the requests in flight: the others wait outside, unmeasured. In a closed one each has
    `rounds` requests, all of which are measured.
    `release` is the engine's version, or `YYYY-MM` of the measurement where only that is known. Where prefill has
    separate replicas they are `prefill`, and `replica` is one of `decoders`. Else `copies` of it share the load. Where
    one half was measured `alone`, there are no others: answers of prefill have one token. Prompts are `overlapped` if a
    step of them is two batches, each of which computes while the other's tokens are under way.
    """

    replica: ReplicaModel
    kind: Kind
    users: float
    rate: float
    input_tokens: float
    output_tokens: float
    equal_lengths: bool
    release: str | None
    looks_every: float = 1.0
    rounds: float = USUAL_ROUNDS
    prefill: Half | None = None
    decoders: int = 1
    copies: int = 1
    alone: MeasuredHalf | None = None
    overlapped: bool = False


def measurement(row: Mapping[str, str], catalog: Catalog) -> Measurement:
    """Read a row; raises `Invalid` with the column and what is wrong with it."""
    architecture = _architecture(row, catalog)
    accelerator = accelerator_as_written(catalog, _text(row, "gpu")) or catalog.accelerator(_text(row, "gpu"))
    device = device_as_written(accelerator, _text(row, "gpu"))
    engine = _engine(row)
    precision = _precision(row, architecture)
    shape = _shape(row, architecture, Shape(engine, accelerator.name, precision))
    if device is not accelerator and shape.gpus > 1:
        raise Invalid(Reason.SharedDevice, f"gpu {_text(row, 'gpu')!r:.60} is part of a GPU: one is a replica alone")
    usual = catalog.efficiency(accelerator, engine, precision, _release(row))
    replica = ReplicaModel(
        architecture=_with_copies(architecture, shape.expert_parallel),
        shape=shape,
        accelerator=device,
        efficiency=catalog.efficiency_for(architecture, engine, usual),
        memory_bytes=device.memory_bytes,
        kv_precision=_kv_precision(row, precision, engine, accelerator.generation),
    )
    graphs = graph_tokens(row.get("source"), replica)
    budget = step_tokens(row.get("note"), replica)
    replica = replace(replica, efficiency=replace(replica.efficiency, graph_tokens=graphs, batched_tokens=budget))
    spread = draws_lengths(row.get("source"))
    scale = _SPREAD_MEAN if spread else 1.0
    users, rate = _users(row), _rate(row)
    input_tokens, output_tokens = _lengths(row, architecture)
    kind = _kind(row, users, rate)
    alone = alone_in(row.get("note") or "")
    layout = layout_of(row.get("note") or "", replica.shape) if alone is None else None
    return Measurement(
        replica=across_domains(replica),
        kind=kind,
        users=users or 0.0,
        rate=rate or 0.0,
        input_tokens=input_tokens * scale,
        output_tokens=1.0 if alone is MeasuredHalf.Prefill else output_tokens * scale,
        equal_lengths=not spread,
        release=_release(row),
        looks_every=steps_between_looks(row.get("source"), replica.shape, users or 0.0),
        rounds=rounds_of(row.get("note"), users or 0.0),
        prefill=_prefill(replica, architecture, layout) if layout else None,
        decoders=layout.decoders if layout else 1,
        copies=1 if layout else _copies(row, replica.shape),
        alone=alone,
        overlapped=overlaps_batches(row.get("note")),
    )


def impossible_number(row: Mapping[str, str]) -> str | None:
    """The message about a row's first number that is invalid or out of range, or None; empty columns are skipped."""
    readers = {"isl": _tokens, "osl": _tokens, "tp": _size, "pp": _size, "dp": _size, "ep": _size}
    given = [name for name in readers if (row.get(name) or "").strip()]
    try:
        for name in given:
            readers[name](row, name)
        _users(row)
        _rate(row)
    except Invalid as error:
        return error.message
    return None


def _shape(row: Mapping[str, str], architecture: Architecture, plain: Shape) -> Shape:
    """The shape of a row; without sizes, all GPUs are one tensor group. Raises `Invalid` if sizes do not divide."""
    stated = any((row.get(column) or "").strip() for column in ("tp", "pp", "dp"))
    tensor, data = _size(row, "tp") if stated else _size(row, "n_gpus"), _size(row, "dp")
    if _has_ranks_inside(row, tensor, data):
        tensor //= data
    shape = replace(
        plain,
        tensor_parallel=tensor,
        pipeline_parallel=_size(row, "pp"),
        expert_parallel=_size(row, "ep"),
        data_parallel=data,
    )
    if (wrong := _contradiction(shape, architecture)) is not None:
        size, allowed = wrong
        _refuse(row, "n_gpus" if size == "tp" and not stated else size, allowed)
    return shape


def _has_ranks_inside(row: Mapping[str, str], tensor: int, data: int) -> bool:
    """Whether `tp` spans all data-parallel ranks, as SGLang counts attention-DP: `tp8 dp8` on eight GPUs."""
    gpus = _number(row, "n_gpus")
    return data > 1 and tensor % data == 0 and gpus == tensor * _size(row, "pp")


def _copies(row: Mapping[str, str], shape: Shape) -> int:
    """Number of replicas that the row's GPUs hold."""
    gpus = _number(row, "n_gpus")
    return max(1, int(gpus) // shape.gpus) if gpus is not None and gpus % shape.gpus == 0 else 1


def _prefill(decode: ReplicaModel, architecture: Architecture, layout: Layout) -> Half:
    """The prefill half of a layout, of the model as it is published."""
    shape = layout.prefill_shape(decode.shape)
    if (wrong := _contradiction(shape, architecture)) is not None:
        size, allowed = wrong
        raise Invalid(Reason.SpecInvalid, f"{size} of prefill in note {layout.text!r:.90} must be {allowed}")
    slots = _with_copies(architecture, shape.expert_parallel)
    return Half(across_domains(replace(decode, shape=shape, architecture=slots)), layout.prefills)


def _with_copies(architecture: Architecture, expert_parallel: int) -> Architecture:
    """The model with as many redundant experts as give each GPU of an expert group the same number of them.

    As EPLB of all three engines has them: 256 experts over 72 GPUs take 288 slots.
    """
    experts = architecture.experts
    if experts is None or experts.count % expert_parallel == 0:
        return architecture
    slots = replace(experts, count=math.ceil(experts.count / expert_parallel) * expert_parallel)
    blocks = (
        replace(block, feed_forward=slots) if block.feed_forward == experts else block for block in architecture.blocks
    )
    return replace(architecture, blocks=tuple(blocks))


def _contradiction(shape: Shape, architecture: Architecture) -> tuple[str, str] | None:
    """(column, what is allowed) for a size that is invalid, or None; experts spread over tensor groups x DP ranks."""
    group, experts = shape.tensor_parallel * shape.data_parallel, architecture.experts
    if architecture.heads % shape.tensor_parallel:
        return "tp", f"a divisor of {architecture.heads} attention heads"
    if shape.pipeline_parallel > architecture.layers:
        return "pp", f"at most {architecture.layers}, the layers of the model"
    if experts is None:
        return ("ep", f"1 or empty: {architecture.model_id} has no experts") if shape.expert_parallel > 1 else None
    return ("ep", f"a divisor of {group}, the GPUs of tp x dp") if group % shape.expert_parallel else None


def _lengths(row: Mapping[str, str], architecture: Architecture) -> tuple[float, float]:
    """Nominal tokens of a prompt and of an answer, which share the model's context."""
    prompt, answer, context = _tokens(row, "isl"), _tokens(row, "osl"), architecture.max_context_tokens
    if prompt + answer > context:
        raise Invalid(
            Reason.ContextExceeded,
            f"isl {prompt:.10g} and osl {answer:.10g} are more than the {context} tokens that {architecture.model_id} "
            "takes, prompt and answer together",
        )
    return prompt, answer


def _kind(row: Mapping[str, str], users: float | None, rate: float | None) -> Kind:
    if rate is not None and rate != math.inf:
        return Kind.OpenLoop
    if rate is None and users is None:
        _refuse(row, "concurrency", "a number of users, or request_rate a rate (inf: all at once)")
    return Kind.ClosedLoop if rate is None else Kind.Offline


def _architecture(row: Mapping[str, str], catalog: Catalog) -> Architecture:
    name = _text(row, "model")
    plain = _PRECISION_SUFFIX.sub("", name)
    tried = (architecture_as_written(catalog, each) for each in (name, plain, f"{plain}-Instruct"))
    found = next((each for each in tried if each is not None), None)
    if found is None:
        raise Invalid(Reason.ModelUnknown, catalog.unknown_model(name))
    return found


def _engine(row: Mapping[str, str]) -> EngineName:
    name = re.sub(r"[-_ ]", "", _text(row, "engine").casefold())
    if name not in _ENGINES:
        _refuse(row, "engine", f"one of {', '.join(_ENGINES)}")
    return _ENGINES[name]


def _precision(row: Mapping[str, str], architecture: Architecture) -> Precision:
    """The precision as stated, else from the end of the model's name, else the checkpoint's own.

    Checkpoints in MXFP4 keep it, whatever the rest computes in; FP16 counts as BF16, FP4 as NVFP4.
    """
    ending = _PRECISION_SUFFIX.search(_text(row, "model"))
    stated = (row.get("precision") or "").strip() or (ending[1] if ending else "")
    stated = stated.upper().replace("_", "-")
    if architecture.checkpoint_precision is Precision.MXFP4 and stated in {"", "FP4", "FP8", "MXFP4"}:
        return Precision.MXFP4
    named = _SPELLINGS.get(stated, stated) or architecture.checkpoint_precision.value
    if named not in set(Precision):
        _refuse(row, "precision", f"one of {', '.join(Precision)}")
    return Precision(named)


def _kv_precision(row: Mapping[str, str], precision: Precision, engine: EngineName, generation: str) -> Precision:
    """The KV precision as stated; else 8 bits for quantised checkpoints, which have KV scales that all but SGLang use.

    Checkpoints in MXFP4 have none, but the recipes of engines for Blackwell (vLLM's of gpt-oss) ask for 8 bits there.
    """
    stated = (row.get("kv_precision") or "").strip().upper()
    if stated not in {"", "AUTO", *_KV_PRECISIONS}:
        _refuse(row, "kv_precision", f"auto or one of {', '.join(_KV_PRECISIONS)}")
    if stated in _KV_PRECISIONS:
        return _KV_PRECISIONS[stated]
    by_recipe = precision is Precision.MXFP4 and generation == "Blackwell"
    quantised = by_recipe or precision in {Precision.FP8, Precision.NVFP4}
    return Precision.FP8 if quantised and engine is not EngineName.SGLang else Precision.BF16


def _release(row: Mapping[str, str]) -> str | None:
    """The engine's version, else `YYYY-MM` of the measurement, else None."""
    version = (row.get("engine_version") or "").strip()
    if version:
        return version
    month = _MEASURED_ON.search(row.get("note") or "")
    return f"{month[1]}-{month[2]}" if month else None


def _size(row: Mapping[str, str], column: str) -> int:
    value = _number(row, column)
    if value is None:
        return 1
    if not 1 <= value <= _MOST_GPUS or value != int(value):
        _refuse(row, column, f"a whole number from 1 to {_MOST_GPUS}")
    return int(value)


def _tokens(row: Mapping[str, str], column: str) -> float:
    value = _number(row, column)
    if value is None or not 1 <= value <= _MOST_TOKENS:
        _refuse(row, column, f"a number from 1 to {_MOST_TOKENS:.0f}")
    return value


def _users(row: Mapping[str, str]) -> float | None:
    value = _number(row, "concurrency")
    if value is not None and (not 1 <= value <= _MOST_USERS or value != int(value)):
        _refuse(row, "concurrency", f"a whole number from 1 to {_MOST_USERS:.0f}")
    return value


def _rate(row: Mapping[str, str]) -> float | None:
    value = _number(row, "request_rate")
    if value is not None and not 0 < value <= _HIGHEST_RATE and value != math.inf:
        _refuse(row, "request_rate", f"a number above 0 and up to {_HIGHEST_RATE:.0f}, or inf")
    return value


def _number(row: Mapping[str, str], column: str) -> float | None:
    text = (row.get(column) or "").strip()
    if not text:
        return None
    try:
        value = float(text) if text.isascii() and "_" not in text else math.nan  # which Python reads as numbers too
    except ValueError:
        value = math.nan
    if math.isnan(value):
        _refuse(row, column, "a number")
    return value


def _text(row: Mapping[str, str], column: str) -> str:
    text = (row.get(column) or "").strip()
    if not text:
        _refuse(row, column, "a name")
    return text


def _refuse(row: Mapping[str, str], column: str, allowed: str) -> NoReturn:
    raise Invalid(Reason.SpecInvalid, f"{column} {row.get(column) or ''!r:.60} must be {allowed}")
