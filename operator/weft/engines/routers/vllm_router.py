"""`vllm-router`, which discovers replicas by watching pods of its namespace and needs only their OpenAI API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engines.routers.balance import balance_arguments
from weft.engines.routers.discovery import discovery_arguments
from weft.engines.terms.launch import ContainerLaunch, EnvValue, HttpProbe, NamedPort
from weft.engines.terms.sizing import PROBE_SECONDS, UNROUTING_SECONDS, grace_seconds

if TYPE_CHECKING:
    from weft.engines.terms.launch import FrontRequest

PORT = 8000
METRICS_PORT = 29000
PAIRING = ("--vllm-pd-disaggregation", "--kv-connector", "nixl")
# A dead engine looks the least loaded until its pod is seen to have ended (10 s after a rank of two pods was
# killed), and the router sends each try of a request there, until enough in a row have failed: by default it
# tries a request 5 times, and stops using an engine after 10 failures.
_FAILURES = 4
# Much shorter than all tries of one request, between which it waits 50 ms at first and half as long again each
# time (3.7 s in all, 3 s at least), and over with the first success: if one client's requests fail at every
# engine, another client's request brings the engine back at the next try.
_ALONE_SECONDS = 1
_SUCCESSES = 1
_TRIES = 10


def vllm_router(request: FrontRequest, engine_port: int) -> ContainerLaunch:
    """The router in front of replicas, or of a pair of pools of vLLM."""
    return ContainerLaunch(
        command=(
            "vllm-router",
            *("--host", "0.0.0.0", "--port", str(PORT)),  # noqa: S104 - a server in a pod of its own
            *("--prometheus-host", "0.0.0.0", "--prometheus-port", str(METRICS_PORT)),  # noqa: S104 - as above
            *(() if request.decode else _trying_again()),
            *balance_arguments(),
            *discovery_arguments(request, engine_port, PAIRING),
        ),
        env=(EnvValue("HOME", "/tmp"),),  # noqa: S108 - a volume of the pod
        ports=(NamedPort("http", PORT), NamedPort("metrics", METRICS_PORT)),
        pre_stop_seconds=UNROUTING_SECONDS,
        grace_seconds=grace_seconds(request.drain_seconds),
        readiness=HttpProbe("/readiness", PORT, PROBE_SECONDS),
    )


def _trying_again() -> tuple[str, ...]:
    """Arguments for retries and the circuit breaker; for pairs the router does not retry."""
    return (
        *("--retry-max-retries", str(_TRIES)),
        *("--cb-failure-threshold", str(_FAILURES), "--cb-timeout-duration-secs", str(_ALONE_SECONDS)),
        *("--cb-success-threshold", str(_SUCCESSES)),
    )
