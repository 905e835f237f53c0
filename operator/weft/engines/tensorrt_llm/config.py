"""The configuration file of `trtllm-serve`: fields of its `LlmArgs`, as YAML. They override its command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import yaml

from weft.catalog import load
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName
from weft.domain.texts.units import parse_quantity
from weft.domain.workload import Role
from weft.engines.model.speculative import speculative_wish
from weft.engines.options.settings import written
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from weft.engines.model.speculative import SpeculativeWish
    from weft.engines.terms.launch import LaunchRequest
    from weft.engines.terms.versions import Version

Settings = dict[str, Any]

SHOWS_ITERATIONS: Version = (1, 3, 0)  # gauges of each iteration on /prometheus/metrics


def config_text(request: LaunchRequest) -> str:
    """The text of the configuration file, sorted by key."""
    settings = {
        **_metrics(request),
        **_model(request),
        "kv_cache_config": _kv_cache(request),
        **_kv_transfer(request),
        **_speculative(request),
        **written(request.spec.engine.args),
    }
    text: str = yaml.safe_dump(settings, default_flow_style=False, width=1000)
    return text


def _metrics(request: LaunchRequest) -> Settings:
    """Settings that its Prometheus page needs."""
    shows = parse_version(request.plan.engine.version) >= SHOWS_ITERATIONS
    return {"return_perf_metrics": True, **({"enable_iter_perf_stats": True} if shows else {})}


def _model(request: LaunchRequest) -> Settings:
    """Chunked prefill, which the plan assumes; without it a prompt longer than one step's tokens is refused."""
    source, shape = request.spec.model.source, request.plan.shape
    cast = request.checkpoint is Precision.FP32 and shape.precision is Precision.BF16
    return {
        "enable_chunked_prefill": True,
        **({"enable_attention_dp": True} if shape.data_parallel > 1 else {}),
        **({"dtype": "bfloat16"} if cast else {}),
        **({"revision": source.revision} if source is not None and source.revision else {}),
    }


def _kv_cache(request: LaunchRequest) -> Settings:
    """The fraction of memory that the plan assumes, precision, and host memory, which is counted per GPU in bytes."""
    kv = request.spec.kv
    settings: Settings = {
        "free_gpu_memory_fraction": load().performance[EngineName.TensorRTLLM].memory_fraction,
        **({"dtype": "fp8"} if kv.precision is Precision.FP8 else {}),
    }
    if kv.offload_json is not None:
        size = parse_quantity(json.loads(kv.offload_json)["size"])
        settings["host_cache_size"] = int(size / request.plan.shape.gpus)
    return settings


def _kv_transfer(request: LaunchRequest) -> Settings:
    """The KV transfer between context and generation servers.

    Its buffer holds a whole prompt if the longest is known, else the engine's default applies.
    """
    if not request.spec.role.is_half:
        return {}
    longest = request.spec.model.max_context_tokens
    wire: Settings = {"backend": "NIXL", **({"max_tokens_in_buffer": longest} if longest else {})}
    alone = request.spec.role is Role.Prefill  # prefill's scheduler cannot overlap the next step
    return {"cache_transceiver_config": wire, **({"disable_overlap_scheduler": True} if alone else {})}


def _speculative(request: LaunchRequest) -> Settings:
    wish = speculative_wish(request.spec.engine.speculative_json)
    return {} if wish is None else {"speculative_config": _drafting(wish)}


def _drafting(wish: SpeculativeWish) -> Settings:
    """Settings of speculative decoding. From 1.3 on `Eagle` is EAGLE-3; `speculative_model_dir` has a second name."""
    if wish.method == "MTP":
        return {"decoding_type": "MTP", "num_nextn_predict_layers": wish.tokens}
    if wish.method == "NGram":
        return {"decoding_type": "NGram", "max_draft_len": wish.tokens, "max_matching_ngram_size": 2}
    kind = {"EAGLE3": "Eagle", "DraftModel": "Draft_Target"}[wish.method]
    return {"decoding_type": kind, "max_draft_len": wish.tokens, "speculative_model_dir": wish.model}
