"""Arguments of `vllm serve`, one function per subject."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.spec import SourceKind
from weft.domain.texts.units import GIB, parse_quantity
from weft.engines.model.precision import precision_flags
from weft.engines.model.speculative import speculative_wish
from weft.engines.options.loading import STREAMER
from weft.engines.terms.versions import parse_version
from weft.engines.vllm import ray
from weft.engines.vllm.balancing import data_parallel
from weft.engines.vllm.lmcache import names_lmcache
from weft.engines.vllm.lora import adapter_arguments

if TYPE_CHECKING:
    from weft.domain.shape import Shape
    from weft.engines.terms.launch import LaunchRequest
    from weft.engines.terms.versions import Version

Arguments = tuple[str, ...]

MASTER_PORT = 29501
FITS_CONTEXT: Version = (0, 14, 0)  # vLLM pull request 29431
_SPECULATIVE_METHODS = {"MTP": "mtp", "EAGLE3": "eagle3", "DraftModel": "draft_model", "NGram": "ngram"}


def model(request: LaunchRequest) -> Arguments:
    """Arguments for names, revision, precision, context and adapters."""
    spec = request.spec.model
    names = ("--served-model-name", *(spec.served_names or (spec.model_id,)))
    source = spec.source
    revision = ("--revision", source.revision) if source is not None and source.revision else ()
    streamed = ("--load-format", STREAMER) if source is not None and source.kind is SourceKind.URI else ()
    return (*names, *revision, *streamed, *precision_flags(request), *_context(request), *adapter_arguments(request))


def _context(request: LaunchRequest) -> Arguments:
    """The longest context: the user's, else what fits beside the weights, as vLLM refuses to start with more."""
    if request.spec.model.max_context_tokens:
        return ("--max-model-len", str(request.spec.model.max_context_tokens))
    on_cpu = request.plan.shape.accelerator == "cpu"  # where `auto` silently means 512 tokens
    fits = parse_version(request.plan.engine.version) >= FITS_CONTEXT and not on_cpu
    return ("--max-model-len", "auto") if fits else ()


def parallel(request: LaunchRequest) -> Arguments:
    """Arguments for the parallelism of the replica over GPUs and pods."""
    shape = request.plan.shape
    sizes = (
        *(("--tensor-parallel-size", str(shape.tensor_parallel)) if shape.tensor_parallel > 1 else ()),
        *(("--pipeline-parallel-size", str(shape.pipeline_parallel)) if shape.pipeline_parallel > 1 else ()),
        *_context_parallel(shape),
        *(("--enable-expert-parallel",) if shape.expert_parallel > 1 else ()),
    )
    if ray.on_ray(request):
        return (*sizes, *ray.parallel(request))
    if shape.data_parallel > 1:
        return (*sizes, *data_parallel(request))
    return (*sizes, *_nodes(request)) if shape.pods > 1 else sizes


def kv_cache(request: LaunchRequest) -> Arguments:
    """Arguments for the precision of the KV cache and its offloading to host memory."""
    kv = request.spec.kv
    if kv.precision not in {None, Precision.BF16, Precision.FP8}:
        raise Invalid(
            Reason.FeatureUnsupported,
            (f"spec.kvCache.precision {kv.precision} is not supported on vLLM: use BF16 or FP8"),
        )
    stored = ("--kv-cache-dtype", "fp8") if kv.precision is Precision.FP8 else ()
    return (*stored, *_offload(request))


def speculative(wish_json: str | None) -> Arguments:
    """Arguments for speculative decoding, from `spec.engine.speculative` as JSON."""
    wish = speculative_wish(wish_json)
    if wish is None:
        return ()
    config = {"method": _SPECULATIVE_METHODS[wish.method], "num_speculative_tokens": wish.tokens}
    if wish.model:
        config["model"] = wish.model
    return ("--speculative-config", compact_json(config))


def compact_json(value: object) -> str:
    """JSON without spaces and in a stable order."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _context_parallel(shape: Shape) -> Arguments:
    """Arguments for DCP (GPUs of a tensor group share a KV cache) and PCP (tensor groups share prompts)."""
    decode, prefill = shape.decode_context_parallel, shape.prefill_context_parallel
    return (
        *(("--decode-context-parallel-size", str(decode)) if decode > 1 else ()),
        *(("--prefill-context-parallel-size", str(prefill)) if prefill > 1 else ()),
    )


def _nodes(request: LaunchRequest) -> Arguments:
    """Arguments for tensor and pipeline ranks over several pods, without Ray; pods differ in their rank alone."""
    place = ("--nnodes", str(request.plan.shape.pods), "--node-rank", str(request.rank))
    master = ("--master-addr", request.leader_host, "--master-port", str(MASTER_PORT))
    return (*place, *master, *(("--headless",) if request.rank > 0 else ()))


def _offload(request: LaunchRequest) -> Arguments:
    """Arguments for host memory as a second tier without a connector. The flag is GiB per data-parallel rank."""
    wish_json = request.spec.kv.offload_json
    if wish_json is None or request.spec.role.is_half or names_lmcache(request):
        return ()
    wish = json.loads(wish_json)
    gib, backend = parse_quantity(wish["size"]) / request.plan.shape.data_parallel / GIB, wish.get("backend", "Native")
    return ("--kv-offloading-size", f"{gib:g}", "--kv-offloading-backend", backend.lower())
