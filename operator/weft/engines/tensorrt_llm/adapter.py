"""TensorRT-LLM: `trtllm-serve`, its configuration file, probes and router (ADR 0030)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog.options import engine_options
from weft.domain.errors import Invalid
from weft.domain.workload import Role
from weft.engines.kv.host_memory import refuse_too_little_memory
from weft.engines.model.weights import model_location, model_mount
from weft.engines.options.batches import batch_arguments
from weft.engines.options.given import literally
from weft.engines.options.rules import refuse_options
from weft.engines.options.settings import without_settings
from weft.engines.options.unknown import unknown_to_click
from weft.engines.pods.environment import between_pods, hub, transports, with_users
from weft.engines.routers.vllm_router import vllm_router
from weft.engines.tensorrt_llm import arguments, world
from weft.engines.tensorrt_llm.config import config_text
from weft.engines.tensorrt_llm.conflicts import tensorrt_llm_argument_conflict, tensorrt_llm_env_conflict
from weft.engines.tensorrt_llm.failure import tensorrt_llm_failure
from weft.engines.tensorrt_llm.front import pair_front
from weft.engines.tensorrt_llm.refusals import refuse_what_it_cannot
from weft.engines.terms.launch import ContainerLaunch, EnvValue, HttpProbe, LaunchFile, LeavesBy, NamedPort
from weft.engines.terms.sizing import (
    PROBE_SECONDS,
    PULL_SECONDS,
    UNROUTING_SECONDS,
    grace_seconds,
    shared_memory_bytes,
    startup_seconds,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.reasons import Explanation
    from weft.domain.shape import Shape
    from weft.engines.terms.launch import FrontRequest, LaunchRequest

PORT = 8000
CONFIG_FILE = "trtllm.yaml"


class TensorRTLLM:
    """The adapter of TensorRT-LLM; see `EngineAdapter`. None of it has run on hardware yet."""

    leaves_front_by = LeavesBy.Label  # as vllm-router and the proxies around the server for pairs do
    pairs_in_its_image = True
    picks_by_load = True  # its pools have vllm-router, too
    picks_prefill_by_load = True  # each door of `weft.pods.pair_front` does
    counts_handover = False
    port = PORT

    def launch(self, request: LaunchRequest) -> ContainerLaunch:
        """`trtllm-serve serve`, whose ranks are processes of one container, or of one container in each pod.

        On SIGTERM it waits for open requests however long they take, so the grace period is the drain limit. The other
        pods of its MPI world end at SIGTERM at once, so their pre-stop hooks keep them until the drain is over.

        A prompt is no open request any more when a decode engine pulls its KV, and no metric tells of KV that is yet to
        be pulled, so the pre-stop hook of a prefill pod leaves time for that (ADR 0034).
        """
        _refuse_conflicts(request)
        refuse_what_it_cannot(request)
        spec, serves = request.spec, request.rank == 0
        ready_seconds = startup_seconds(request)
        drain_seconds = int(spec.rollout.drain_timeout_seconds)
        asked_seconds = UNROUTING_SECONDS
        if spec.role is Role.Prefill:
            asked_seconds += min(PULL_SECONDS, drain_seconds)
        return ContainerLaunch(
            command=world.command(request, _server(request), ready_seconds),
            env=with_users(_ours(request), spec.engine),
            ports=(NamedPort("http", PORT),) if serves else (),
            pre_stop_seconds=asked_seconds + (0 if serves else drain_seconds),
            grace_seconds=grace_seconds(drain_seconds, asked_seconds),
            startup=_startup_probe(ready_seconds) if serves else None,
            readiness=HttpProbe("/health", PORT) if serves else None,
            shared_memory_bytes=shared_memory_bytes(request),
            model_mount=model_mount(spec.model),
            files=(*((_settings(request),) if serves else ()), *world.files(request)),
        )

    def front(self, request: FrontRequest) -> ContainerLaunch:
        """Its own disaggregated server for a pair, else `vllm-router`, as TensorRT-LLM has no router for one pool."""
        return pair_front(request, PORT) if request.decode else vllm_router(request, PORT)

    def argument_conflict(self, args: tuple[str, ...], shape: Shape) -> Explanation | None:
        return tensorrt_llm_argument_conflict(args, shape)

    def unknown_arguments(self, args: tuple[str, ...], version: str) -> tuple[str, ...]:
        return unknown_to_click(without_settings(args), engine_options("tensorrt_llm_options.yaml"), version)

    def failure(self, text: str) -> Explanation | None:
        return tensorrt_llm_failure(text)


def _startup_probe(ready_seconds: int) -> HttpProbe:
    return HttpProbe("/health", PORT, PROBE_SECONDS, failures=ready_seconds // PROBE_SECONDS)


def _settings(request: LaunchRequest) -> LaunchFile:
    return LaunchFile(CONFIG_FILE, config_text(request))


def _server(request: LaunchRequest) -> tuple[str, ...]:
    return (
        "trtllm-serve",
        "serve",
        *literally((model_location(request),)),
        *("--host", "0.0.0.0", "--port", str(PORT)),  # noqa: S104 - a server in a pod of its own
        *("--backend", "pytorch"),
        *literally(arguments.model(request)),
        *arguments.parallel(request.plan.shape),
        *batch_arguments(request),
        *("--extra_llm_api_options", _settings(request).path),
        *literally(without_settings(request.spec.engine.args)),
    )


def _refuse_conflicts(request: LaunchRequest) -> None:
    """Raise `Invalid` for the first argument or variable that contradicts the plan."""
    engine = request.spec.engine
    conflict = tensorrt_llm_argument_conflict(engine.args, request.plan.shape)
    conflict = conflict or tensorrt_llm_env_conflict(tuple(dict(engine.env)))
    if conflict is not None:
        raise Invalid(conflict.reason, conflict.message)
    refuse_options(request)
    refuse_too_little_memory(request)


def _ours(request: LaunchRequest) -> Iterator[EnvValue]:
    yield EnvValue("TRTLLM_NO_USAGE_STATS", "1")
    yield from hub(request.spec)
    if request.spec.role.is_half:
        # Halves of a split are in separate ComputeDomains, even in one rack.
        yield EnvValue("UCX_CUDA_IPC_ENABLE_MNNVL", "n")
        yield from transports(request)
    yield from between_pods(request)
    yield from world.between_ranks(request)
