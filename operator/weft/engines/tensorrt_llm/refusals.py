"""What a pool may ask for but TensorRT-LLM, or the way Weft starts it, does not support: refused by field."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import SourceKind
from weft.engines.images.foreign import foreign_server
from weft.engines.kv.libfabric import over_efa
from weft.engines.kv.nvlink import over_nvlink
from weft.engines.model.precision import precision_conflict
from weft.engines.model.speculative import refuse_drafting
from weft.engines.options.vllm_only import refuse_what_vllm_alone_does
from weft.engines.tensorrt_llm.arguments import NAMES_ITS_MODEL
from weft.engines.tensorrt_llm.shapes import tensorrt_llm_shape_conflict
from weft.engines.terms.versions import release_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.engines.terms.launch import LaunchRequest


def refuse_what_it_cannot(request: LaunchRequest) -> None:
    """Raise `Invalid` for the first field that is not supported, with what is allowed."""
    refuse_what_vllm_alone_does(request.spec, "TensorRT-LLM")
    if request.checkpoint is not None:
        why = precision_conflict(request.checkpoint, request.plan.shape.precision, EngineName.TensorRTLLM)
        if why is not None:
            raise Invalid(Reason.PrecisionUnsupported, why)
    shaped = tensorrt_llm_shape_conflict(request.plan.shape)
    if shaped is not None:
        raise Invalid(Reason.ShapeInvalid, shaped)
    for wrong, field, allowed in (*_model_claims(request), *_engine_claims(request), *_kv_claims(request)):
        if wrong:
            release = f"TensorRT-LLM {request.plan.engine.version}"
            raise Invalid(Reason.FeatureUnsupported, f"{field} is not supported on {release}: {allowed}")
    refuse_drafting(request)


def _model_claims(request: LaunchRequest) -> Iterator[tuple[bool, str, str]]:
    model = request.spec.model
    names, uri = model.served_names, model.source is not None and model.source.kind is SourceKind.URI
    unnamed = release_order(request.plan.engine.version) < NAMES_ITS_MODEL
    yield uri, "spec.model.source.uri", "use huggingFace, pvc or image"
    # `lora_config` has no names: a request brings `lora_request` with a path, and so could read any folder of the pod.
    nameless = "remove it, as its server knows no adapter by name, only by a path in each request"
    yield bool(model.adapters), "spec.model.adapters", nameless
    yield bool(names) and unnamed, "spec.model.servedNames", "remove it, or use version 1.3.0rc6 or later"
    yield len(names) > 1, "more than one of spec.model.servedNames", "name one"


def _engine_claims(request: LaunchRequest) -> Iterator[tuple[bool, str, str]]:
    spec, engine = request.spec, request.plan.engine
    other, why = foreign_server(engine.image) or ("", "")
    instead = (
        f"leave spec.engine.image out, or name one with trtllm-serve, not {other}, {why}; "
        "spec.model.source takes the weights"
    )
    yield bool(other), f"spec.engine.image {engine.image}", instead
    asks_for_keys = spec.router.api_key_secret is not None
    yield asks_for_keys, "spec.router.apiKeySecretRef", "remove it, as its server asks for no key"


def _kv_claims(request: LaunchRequest) -> Iterator[tuple[bool, str, str]]:
    kv = request.spec.kv
    stored = kv.precision not in {None, Precision.BF16, Precision.FP8}
    yield stored, f"spec.kvCache.precision {kv.precision}", "use BF16 or FP8"
    other = request.spec.role.is_half and kv.connector != "NIXL"
    yield other, f"spec.kvTransfer.connector {kv.connector}", "use NIXL"
    yield over_efa(request.spec), "spec.kvTransfer.transport EFA", "use Auto, RDMA or TCP"
    yield over_nvlink(request.spec), "spec.kvTransfer.transport NVLink", "use Auto, RDMA or TCP"
    if kv.offload_json is not None:
        yield request.spec.role.is_half, "spec.kvCache.offload in a half of a split", "use it in Aggregated pools"
        backend = json.loads(kv.offload_json).get("backend", "Native")
        yield backend != "Native", f"spec.kvCache.offload.backend {backend}", "use Native"
