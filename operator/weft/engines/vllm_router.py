"""`vllm-router`, which finds replicas by watching pods of its namespace and asks no more of them than OpenAI's API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.engines.discovery import discovery_arguments
from weft.engines.launch import ContainerLaunch, EnvValue, HttpProbe, NamedPort
from weft.engines.sizing import PROBE_SECONDS, UNROUTING_SECONDS

if TYPE_CHECKING:
    from weft.engines.launch import FrontRequest

PORT = 8000
METRICS_PORT = 29000
PAIRING = ("--vllm-pd-disaggregation", "--kv-connector", "nixl")
# An engine that has died is the least loaded one until its pod is seen to have ended (10 s after a rank of two pods was
# killed), and the router sends each try of a request there, until so many in a row have failed: by itself it gives a
# request 5 tries, and leaves an engine alone after 10.
_FAILURES = 4
# Much shorter than the tries of one request last, of which each but the first waits 50 ms, and half as long again each
# time (3.7 s in all, 3 s at least), and over with the first success: where the requests of one client fail at every
# engine, of others that wait for that moment one brings the engine back.
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
            *discovery_arguments(request, engine_port, PAIRING),
        ),
        env=(EnvValue("HOME", "/tmp"),),  # noqa: S108 - a volume of the pod
        ports=(NamedPort("http", PORT), NamedPort("metrics", METRICS_PORT)),
        pre_stop_seconds=UNROUTING_SECONDS,
        grace_seconds=UNROUTING_SECONDS + request.drain_seconds,
        readiness=HttpProbe("/readiness", PORT, PROBE_SECONDS),
    )


def _trying_again() -> tuple[str, ...]:
    """Nothing of it applies to pairs, before which the router tries nothing again."""
    return (
        *("--retry-max-retries", str(_TRIES)),
        *("--cb-failure-threshold", str(_FAILURES), "--cb-timeout-duration-secs", str(_ALONE_SECONDS)),
        *("--cb-success-threshold", str(_SUCCESSES)),
    )
