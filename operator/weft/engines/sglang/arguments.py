"""Arguments of `sglang.launch_server`, one function per subject.

Read from the packages 0.5.3.post3, 0.5.6, 0.5.8, 0.5.10.post1, 0.5.12.post1, 0.5.15, 0.5.17 and 0.5.19 to 0.5.23.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.spec import SourceKind
from weft.domain.texts.figures import counted
from weft.domain.texts.units import parse_quantity
from weft.domain.workload import Role
from weft.engines.kv.disks import disk_arguments
from weft.engines.kv.libfabric import refuse_what_lacks_efa
from weft.engines.kv.nvlink import over_nvlink
from weft.engines.model.precision import precision_flags
from weft.engines.model.speculative import speculative_wish
from weft.engines.model.weights import model_location
from weft.engines.options.loading import STREAMER
from weft.engines.sglang.context_parallelism import BACKEND, sglang_prefill_context_conflict
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from weft.domain.shape import Shape
    from weft.domain.spec import ModelSpec
    from weft.engines.terms.launch import LaunchRequest
    from weft.engines.terms.versions import Version

Arguments = tuple[str, ...]

MEETING_PORT = 20000  # ranks of several pods meet here; attention-DP ranks take the next six ports too
BOOTSTRAP_PORT = 8998
OWN_ADDRESS = "SGLANG_HOST_IP"
API_KEY = "WEFT_API_KEY"
COUNTS_ATTENTION_RANKS: Version = (0, 5, 22)  # it has --attn-dp-size; before, --dp-size with a switch
BALANCES_BY_ITSELF: Version = (0, 5, 8)  # before, decode refuses several ranks unless told how prefill balances
COUNTS_LENGTHS: Version = (0, 5, 20)  # before, with a switch only
BYTES_PER_GB = 1e9
_CONNECTORS = {"NIXL": "nixl", "Mooncake": "mooncake"}
_ALGORITHMS = {"MTP": "EAGLE", "EAGLE3": "EAGLE3", "DraftModel": "STANDALONE", "NGram": "NGRAM"}
_DRAFT_FOR_ONE_RANK = frozenset({"DraftModel", "NGram"})


def weights(request: LaunchRequest) -> Arguments:
    """The argument with the location of the weights."""
    return ("--model-path", model_location(request))


def model(request: LaunchRequest) -> Arguments:
    """Arguments for the name, revision, precision, context and adapters."""
    spec = request.spec.model
    source, context = spec.source, spec.max_context_tokens
    return (
        *("--served-model-name", _served_name(spec)),
        *(("--revision", source.revision) if source is not None and source.revision else ()),
        *_streamed(request),
        *precision_flags(request),
        *(("--context-length", str(context)) if context else ()),
        *_adapters(spec),
    )


def parallel(request: LaunchRequest) -> Arguments:
    """Arguments for the parallelism of the replica. SGLang's tensor group includes the attention-DP ranks."""
    shape = request.plan.shape
    _refuse_shared_prompts(shape)
    group = shape.tensor_parallel * shape.data_parallel
    return (
        *(("--tp-size", str(group)) if group > 1 else ()),
        *(("--pp-size", str(shape.pipeline_parallel)) if shape.pipeline_parallel > 1 else ()),
        *_shared_contexts(shape),
        *(("--ep-size", str(shape.expert_parallel)) if shape.expert_parallel > 1 else ()),
        *(_attention_ranks(request) if shape.data_parallel > 1 else ()),
        *(_nodes(request) if shape.pods > 1 else ()),
    )


def kv_cache(request: LaunchRequest) -> Arguments:
    """Arguments for the precision of the KV cache and its offloading to host memory."""
    kv = request.spec.kv
    if kv.precision not in {None, Precision.BF16, Precision.FP8}:
        raise _unsupported(f"spec.kvCache.precision {kv.precision}", "use BF16 or FP8")
    stored = ("--kv-cache-dtype", "fp8_e4m3") if kv.precision is Precision.FP8 else ()
    return (*stored, *_offload(request))


def kv_transfer(request: LaunchRequest) -> Arguments:
    """Arguments for the side of a split and the KV connector; prefill listens for its decode partners."""
    if not request.spec.role.is_half:
        return ()
    refuse_what_lacks_efa(request)
    if over_nvlink(request.spec):
        raise _unsupported("spec.kvTransfer.transport NVLink", "use Auto, RDMA, EFA or TCP")
    backend = _CONNECTORS.get(request.spec.kv.connector)
    if backend is None:
        raise _unsupported(f"spec.kvTransfer.connector {request.spec.kv.connector}", "use NIXL or Mooncake")
    shared = ("--disaggregation-transfer-backend", backend)
    if request.spec.role is Role.Prefill:
        port = ("--disaggregation-bootstrap-port", str(BOOTSTRAP_PORT))
        return ("--disaggregation-mode", "prefill", *shared, *port)
    is_old = parse_version(request.plan.engine.version) < BALANCES_BY_ITSELF
    promised = ("--prefill-round-robin-balance",) if is_old and request.plan.shape.data_parallel > 1 else ()
    return ("--disaggregation-mode", "decode", *shared, *promised)


def speculative(request: LaunchRequest) -> Arguments:
    """Arguments for speculative decoding in one chain; SGLang counts the last verified token among the drafted ones."""
    wish = speculative_wish(request.spec.engine.speculative_json)
    if wish is None:
        return ()
    shape = request.plan.shape
    if shape.pipeline_parallel > 1:
        raise _unsupported("spec.engine.speculative with pipeline stages", "use one stage or no drafting")
    if shape.data_parallel > 1 and wish.method in _DRAFT_FOR_ONE_RANK:
        raise _unsupported(
            (f"spec.engine.speculative {wish.method} with attention-DP ranks"), "use MTP, EAGLE3 or one rank"
        )
    drafting = ("--speculative-draft-model-path", wish.model) if wish.model else ()
    chain = ("--speculative-num-steps", str(wish.tokens), "--speculative-eagle-topk", "1")
    return (
        *("--speculative-algorithm", _ALGORITHMS[wish.method], *drafting),
        *(() if wish.method == "NGram" else chain),
        *("--speculative-num-draft-tokens", str(wish.tokens + 1)),
    )


def metrics(request: LaunchRequest) -> Arguments:
    """Arguments for metrics, with the lengths of prompts and answers."""
    counts = parse_version(request.plan.engine.version) >= COUNTS_LENGTHS
    return ("--enable-metrics", *(() if counts else ("--collect-tokens-histogram",)))


def api_key(request: LaunchRequest) -> Arguments:
    """The API key for requests, from a variable that Kubernetes expands when the container starts."""
    return ("--api-key", f"$({API_KEY})") if request.spec.router.api_key_secret is not None else ()


def _served_name(spec: ModelSpec) -> str:
    """The one served name; raises `Invalid` for several, and for a colon, after which SGLang expects an adapter."""
    if len(spec.served_names) > 1:
        raise _unsupported(f"spec.model.servedNames with {len(spec.served_names)} names", "leave one, or none")
    name = spec.served_names[0] if spec.served_names else spec.model_id
    if ":" in name:
        raise _unsupported(f"spec.model.servedNames {name}", "use a name without a colon")
    return name


def _streamed(request: LaunchRequest) -> Arguments:
    source = request.spec.model.source
    if source is None or source.kind is not SourceKind.URI:
        return ()
    return ("--load-format", STREAMER)


def _adapters(spec: ModelSpec) -> Arguments:
    if not spec.adapters:
        return ()
    return ("--enable-lora", "--lora-paths", *(f"{name}={at}" for name, at in spec.adapters))


def _shared_contexts(shape: Shape) -> Arguments:
    """Arguments for GPUs that share a KV cache, by the backend that can; a backend in the user's arguments wins."""
    if shape.decode_context_parallel == 1:
        return ()
    return ("--dcp-size", str(shape.decode_context_parallel), "--attention-backend", BACKEND)


def _refuse_shared_prompts(shape: Shape) -> None:
    why = sglang_prefill_context_conflict(shape)
    if why is not None:
        raise Invalid(Reason.FeatureUnsupported, f"spec.shape.prefillContextParallel: {why}")


def _attention_ranks(request: LaunchRequest) -> Arguments:
    ranks = str(request.plan.shape.data_parallel)
    if parse_version(request.plan.engine.version) >= COUNTS_ATTENTION_RANKS:
        return ("--attn-dp-size", ranks)
    return ("--dp-size", ranks, "--enable-dp-attention")


def _nodes(request: LaunchRequest) -> Arguments:
    """Arguments for several pods, the same but for the rank; a pod holds whole stages or an equal part of one."""
    shape = request.plan.shape
    if shape.pods % shape.pipeline_parallel and shape.pipeline_parallel % shape.pods:
        message = f"{shape}: {shape.pipeline_parallel} stages do not spread evenly over {shape.pods} pods on SGLang"
        raise Invalid(Reason.ShapeInvalid, message)
    # The leader binds this address, so it uses its own IP; the others only look it up.
    address = f"$({OWN_ADDRESS})" if request.rank == 0 else request.leader_host
    place = ("--nnodes", str(shape.pods), "--node-rank", str(request.rank))
    return (*place, "--dist-init-addr", f"{address}:{MEETING_PORT}")


def _offload(request: LaunchRequest) -> Arguments:
    """Arguments for host memory as a second tier. The flag counts each GPU's part, in whole GB of 10^9 bytes."""
    wish_json = request.spec.kv.offload_json
    if wish_json is None:
        return ()
    if request.spec.role is Role.Decode:
        # Unless told otherwise, a decode engine keeps nothing of a request that has ended.
        where = "use it in the prefill half alone, which looks prefixes up (spec.prefill.kvCache of a PDSplit)"
        raise _unsupported("spec.kvCache.offload in a decode half", where)
    wish = json.loads(wish_json)
    if wish.get("backend", "Native") != "Native":
        raise _unsupported(f"spec.kvCache.offload.backend {wish['backend']}", "use Native")
    gpus = request.plan.shape.gpus
    gigabytes = int(parse_quantity(wish["size"]) / gpus / BYTES_PER_GB)
    if gigabytes < 1:
        raise _unsupported(
            f"spec.kvCache.offload.size {wish['size']} for {counted(gpus, 'GPU')}", "give each GPU at least 1 GB"
        )
    return ("--enable-hierarchical-cache", "--hicache-size", str(gigabytes), *disk_arguments(request))


def _unsupported(field: str, allowed: str) -> Invalid:
    return Invalid(Reason.FeatureUnsupported, f"{field} is not supported on SGLang: {allowed}")
