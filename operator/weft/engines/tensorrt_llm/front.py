"""TensorRT-LLM's disaggregated server as router of a pair, between two proxies of Weft's, its doors (ADR 0054).

The program is `weft.pods.pair_front`. The server is given one prefill and one decode address, which every release
supports; behind these addresses the program chooses among pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.catalog import front_program
from weft.engines.terms.launch import ContainerLaunch, EnvValue, HttpProbe, LaunchFile, NamedPort
from weft.engines.terms.sizing import PROBE_SECONDS, UNROUTING_SECONDS, grace_seconds

if TYPE_CHECKING:
    from weft.domain.spec import Pairs
    from weft.engines.terms.launch import FrontRequest

PORT, STATUS_PORT = 8000, 29000
PROGRAM_FILE = "pair_front.py"
API_SERVER = "https://kubernetes.default.svc"


def pair_front(request: FrontRequest, engine_port: int) -> ContainerLaunch:
    """The server and its proxies. It is ready while both halves have a pod and the server is healthy.

    On SIGTERM the server finishes its streams, however long they take.
    """
    program = LaunchFile(PROGRAM_FILE, front_program())
    halves = (_selector(request.prefill_or_all), _selector(request.decode))
    return ContainerLaunch(
        command=("python3", program.path, API_SERVER, request.namespace, *halves, str(engine_port)),
        env=(EnvValue("POD_IP", field="status.podIP"), EnvValue("TRTLLM_NO_USAGE_STATS", "1")),
        ports=(NamedPort("http", PORT), NamedPort("metrics", STATUS_PORT)),
        pre_stop_seconds=UNROUTING_SECONDS,
        grace_seconds=grace_seconds(request.drain_seconds),
        readiness=HttpProbe("/readiness", STATUS_PORT, PROBE_SECONDS),
        files=(program,),
    )


def _selector(labels: Pairs) -> str:
    return ",".join(f"{key}={value}" for key, value in labels)
