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

    Claim = tuple[bool, Reason, str]

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
    if named is None:
        lacking = f"a NIM of one model without {PROFILE} in engine.env is not supported, as it would choose its weights"
        return Explanation(Reason.FeatureUnsupported, f"{lacking} by the GPUs that it sees; {_ALLOWED}")
    read = _DESCRIPTION.fullmatch(named) if len(named) <= _LONGEST else None
    if read is None:
        unclear = f"does not say engine, precision ({', '.join(_PRECISIONS)}), TP and PP as Weft reads them"
        return Explanation(Reason.FeatureUnsupported, f"{_shown(named)} {unclear}; {_ALLOWED}")
    wrong = next((claim for claim in (*_tag_claims(read), *_shape_claims(read, shape)) if claim[0]), None)
    return Explanation(wrong[1], f"{_shown(named)} {wrong[2]}") if wrong is not None else None


def _shown(named: str) -> str:
    return f"engine.env {PROFILE} {named[:_LONGEST]}"


def _tag_claims(read: re.Match[str]) -> Iterator[Claim]:
    """Refuse tags that change what the plan counts: adapters, and whatever nobody has described."""
    tags = read["tags"].split("-")[1:]
    adapters = not _LORA.isdisjoint(tags)
    yield adapters, Reason.FeatureUnsupported, "is for adapters, which are not supported in a NIM; allowed: one without"
    unknown = [each for each in tags if not _HARMLESS.fullmatch(each)]
    yield bool(unknown), Reason.FeatureUnsupported, f"says {'-'.join(unknown)}, which Weft cannot plan; {_ALLOWED}"


def _shape_claims(read: re.Match[str], shape: Shape) -> Iterator[Claim]:
    engine, precision = _ENGINES[read["engine"]], _PRECISIONS[read["precision"]]
    other = f"is of {engine.value}, not of {shape.engine.value}; allowed: engine.name {engine.value}"
    yield engine is not shape.engine, Reason.EngineUnsupported, other
    yield _is_for_another_gpu(read["gpu"], shape), Reason.EngineUnsupported, _other_gpu(read["gpu"], shape)
    weights = f"has weights in {precision.value}, not in {shape.precision.value}; allowed: model.precision "
    yield precision is not shape.precision, Reason.PrecisionUnsupported, weights + precision.value
    tensor, stages = int(read["tensor"]), int(read["stages"])
    planned = f"TP {shape.tensor_parallel} x PP {shape.pipeline_parallel}"
    sizes = f"allowed: shape.tensorParallel {tensor} and pipelineParallel {stages}"
    differs = (tensor, stages) != (shape.tensor_parallel, shape.pipeline_parallel)
    yield differs, Reason.EngineUnsupported, f"is TP {tensor} x PP {stages}, not {planned}; {sizes}"
    ranks = f"is for {tensor * stages} GPUs, not {shape.gpus}; allowed: one data-parallel rank, and whole prompts"
    yield tensor * stages != shape.gpus, Reason.EngineUnsupported, ranks


def _is_for_another_gpu(gpu: str | None, shape: Shape) -> bool:
    """Whether a profile is for one kind of GPU, written as the node's product label in lower case, and not this one."""
    if gpu is None:
        return False
    found = load().accelerator_of_product(gpu)
    return found is None or found.name != shape.accelerator


def _other_gpu(gpu: str | None, shape: Shape) -> str:
    found = load().accelerator_of_product(gpu or "")
    allowed = f"placement.accelerators [{found.name}]" if found is not None else "a profile without a GPU in its name"
    return f"is for {gpu}, not for {shape.accelerator}; allowed: {allowed}"
