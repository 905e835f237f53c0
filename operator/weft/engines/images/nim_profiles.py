"""Profiles of a NIM of one model: what the description of one says, and which shapes fit it (ADR 0099).

A profile decides which weights NIM downloads, and so their precision; `tp` and `pp` are its sizes. Its description is
what `list-model-profiles` prints beside its id: `vllm-fp8-tp2-pp1`, `vllm-nvidia-b200-nvfp4-tp4-pp1-throughput-90.0`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.hardware import Precision
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.shape import Shape

    Refusal = tuple[Reason, str]

PROFILE = "NIM_MODEL_PROFILE"
_ENGINES = {"vllm": EngineName.VLLM, "sglang": EngineName.SGLang}
_PRECISIONS = {each.value.lower(): each for each in (Precision.BF16, Precision.FP8, Precision.MXFP4, Precision.NVFP4)}
_DESCRIPTION = re.compile(
    rf"(?P<engine>{'|'.join(_ENGINES)})-(?:(?P<gpu>[\w.-]+)-)?(?P<precision>{'|'.join(_PRECISIONS)})"
    r"-tp(?P<tensor>[1-9]\d{0,3})-pp(?P<stages>[1-9]\d{0,3})(?P<tags>(?:-[\w.]+)*)",
    re.ASCII,
)
_LORA = frozenset({"lora", "feat_lora"})
_HARMLESS = re.compile(r"throughput|latency|\d+(?:\.\d+)?")  # what it is tuned for, and the gigabytes a GPU it needs
_LONGEST = 100  # a description is short, and a variable's value may have thousands of characters
_ALLOWED = "allowed: a description that list-model-profiles of the image prints, such as vllm-fp8-tp2-pp1"


def profile_conflict(named: str | None, shape: Shape) -> Explanation | None:
    """Why a shape does not fit the profile that the user names by its description, or None.

    Without a name NIM would choose by the GPUs that it sees, and an id says nothing: both fit no shape.
    """
    why = _unclear(named) or _unfit(named or "", shape)
    return Explanation(*why) if why is not None else None


def _unclear(named: str | None) -> Refusal | None:
    """Why a profile cannot be planned with, whatever the shape."""
    if named is None:
        lacking = (
            f"a NIM of one model without {PROFILE} in spec.engine.env is not supported, as it would choose its weights"
        )
        return Reason.EngineUnsupported, f"{lacking} by the GPUs that it sees; {_ALLOWED}"
    read = _read(named)
    if read is None:
        unread = f"does not say engine, precision ({', '.join(_PRECISIONS)}), TP and PP as Weft reads them"
        return Reason.EngineUnsupported, f"{_shown(named)} {unread}; {_ALLOWED}"
    why = next((why for wrong, why in _tag_claims(read) if wrong), None)
    return (Reason.EngineUnsupported, f"{_shown(named)} {why}") if why is not None else None


def _unfit(named: str, shape: Shape) -> Refusal | None:
    """Why a shape is not that of the profile; without the shape's own words, as many shapes are told at once."""
    read = _read(named)
    if read is None:
        return None
    found = next(((reason, why) for wrong, reason, why in _shape_claims(read, shape) if wrong), None)
    return (found[0], f"{_shown(named)} {found[1]}") if found is not None else None


def _read(named: str) -> re.Match[str] | None:
    return _DESCRIPTION.fullmatch(named) if len(named) <= _LONGEST else None


def _shown(named: str) -> str:
    return f"spec.engine.env {PROFILE} {named[:_LONGEST]}"


def _tag_claims(read: re.Match[str]) -> Iterator[tuple[bool, str]]:
    """Refuse tags that change what the plan counts, or that nobody has described."""
    tags = read["tags"].split("-")[1:]
    yield not _LORA.isdisjoint(tags), "is for adapters, which are not supported in a NIM; allowed: one without"
    unknown = [each for each in tags if not _HARMLESS.fullmatch(each)]
    yield bool(unknown), f"says {'-'.join(unknown)}, which Weft cannot plan; {_ALLOWED}"
    gpu = read["gpu"]
    strange = gpu is not None and load().accelerator_of_product(gpu) is None
    yield strange, f"is for {gpu}, which Weft does not know; allowed: a profile without a GPU in its name"


def _shape_claims(read: re.Match[str], shape: Shape) -> Iterator[tuple[bool, Reason, str]]:
    engine, precision = _ENGINES[read["engine"]], _PRECISIONS[read["precision"]]
    other = f"is of {engine.value}; allowed: spec.engine.name {engine.value}"
    yield engine is not shape.engine, Reason.EngineUnsupported, other
    gpu = load().accelerator_of_product(read["gpu"]) if read["gpu"] is not None else None
    named = gpu.name if gpu is not None else shape.accelerator
    elsewhere = f"is for {read['gpu']}; allowed: spec.placement.accelerators [{named}]"
    yield named != shape.accelerator, Reason.EngineUnsupported, elsewhere
    weights = f"has weights in {precision.value}; allowed: spec.model.precision {precision.value}"
    yield precision is not shape.precision, Reason.PrecisionUnsupported, weights
    tensor, stages = int(read["tensor"]), int(read["stages"])
    sizes = f"is TP {tensor} x PP {stages}; allowed: spec.shape.tensorParallel {tensor} and pipelineParallel {stages}"
    differs = (tensor, stages) != (shape.tensor_parallel, shape.pipeline_parallel)
    yield differs, Reason.EngineUnsupported, sizes
    ranks = f"is for {tensor * stages} GPUs; allowed: one data-parallel rank, which shares no prompts"
    yield tensor * stages != shape.gpus, Reason.EngineUnsupported, ranks
