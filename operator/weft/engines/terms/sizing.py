"""Times and sizes that follow from a shape or a model alone, for any engine."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from weft.domain.texts.units import parse_quantity
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.engines.terms.launch import LaunchRequest

# Endpoints, kube-proxy and routers need a few seconds to stop choosing a pod whose deletion began.
UNROUTING_SECONDS = 5
# vllm-router picks both halves at once, so a request reaches its decode engine only after its prefill.
PROMPT_SECONDS = 25
# How long a prefill engine that cannot tell keeps what its last prompts left, for decode engines to pull.
PULL_SECONDS = 25
# What a process takes to hear that it is to end, and to end once its last request has: vllm-router 0.1.17 took 1.4 s.
MARGIN_SECONDS = 5
# Weights come over a network; for faster loads a longer limit does no harm.
LOAD_BYTES_PER_SECOND = 250e6
STARTUP_SECONDS = 600
PROBE_SECONDS = 5
SHARED_MEMORY_BYTES_PER_GPU = 2 * 1024**3


def still_chosen_seconds(role: Role) -> int:
    """Seconds for which a pod removed from its front may still get requests assigned to it before."""
    return UNROUTING_SECONDS + (PROMPT_SECONDS if role is Role.Decode else 0)


def grace_seconds(drain_seconds: int, chosen_seconds: int = UNROUTING_SECONDS) -> int:
    """Seconds from the deletion of a pod until it is killed, of engines and routers alike.

    For `chosen_seconds` requests may still come, those that came may take `drain_seconds`, and then it ends by itself.
    """
    return chosen_seconds + drain_seconds + MARGIN_SECONDS


def startup_seconds(request: LaunchRequest) -> int:
    """Seconds that an engine may take to answer: the user's, or a fixed part and loading over a slow network.

    It is asked at once and then every `PROBE_SECONDS`, so that it takes one more to be asked when the user's are over.
    """
    told = request.spec.rollout.start_timeout_seconds
    usual = STARTUP_SECONDS + int(request.weight_bytes / LOAD_BYTES_PER_SECOND)
    return usual if told is None else (ceil(told / PROBE_SECONDS) + 1) * PROBE_SECONDS


def shared_memory_bytes(request: LaunchRequest) -> int:
    """Bytes of shared memory: the user's, or room for the ranks' message queues and NCCL buffers."""
    wish = request.spec.engine.shared_memory
    if wish is not None:
        return int(parse_quantity(wish))
    return SHARED_MEMORY_BYTES_PER_GPU * request.plan.shape.gpus_per_pod
