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


def vllm_router(request: FrontRequest, engine_port: int) -> ContainerLaunch:
    """The router in front of replicas, or of a pair of pools of vLLM."""
    return ContainerLaunch(
        command=(
            "vllm-router",
            *("--host", "0.0.0.0", "--port", str(PORT)),  # noqa: S104 - a server in a pod of its own
            *("--prometheus-host", "0.0.0.0", "--prometheus-port", str(METRICS_PORT)),  # noqa: S104 - as above
            *discovery_arguments(request, engine_port, PAIRING),
        ),
        env=(EnvValue("HOME", "/tmp"),),  # noqa: S108 - a volume of the pod
        ports=(NamedPort("http", PORT), NamedPort("metrics", METRICS_PORT)),
        pre_stop_seconds=UNROUTING_SECONDS,
        grace_seconds=UNROUTING_SECONDS + request.drain_seconds,
        readiness=HttpProbe("/readiness", PORT, PROBE_SECONDS),
    )
