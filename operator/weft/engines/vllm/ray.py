"""vLLM replicas of several pods on Ray: the first pod is Ray's head and has the server, the others lend their GPUs.

Read from `vllm/v1/executor/ray_utils.py`, `examples/online_serving/multi-node-serving.sh` and vLLM's dependencies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.spec import Balancing
from weft.engines.terms.versions import parse_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.engines.terms.launch import LaunchRequest
    from weft.engines.terms.versions import Version

PORT = 6379
BRINGS_NO_RAY: Version = (0, 18, 0)  # the first release that does not depend on it
OBJECT_STORE_BYTES = 1024**3  # a part of /dev/shm; data between ranks does not pass through it
_OWN = '"--node-ip-address=" + os.environ["VLLM_HOST_IP"]'
_STORE = f'"--object-store-memory={OBJECT_STORE_BYTES}"'
# The same text in every pod, and no shell: user arguments follow it. Neither outlives Ray's own process in its
# pod: a server or a `ray start --block` takes the place of Python.
HEAD = f"""
import os, subprocess, sys
head = ["ray", "start", "--head", "--port={PORT}", "--include-dashboard=false", {_OWN}, {_STORE}]
subprocess.run(head, check=True)
os.execvp(sys.argv[1], sys.argv[1:])
""".lstrip()
# If the head does not answer yet, `ray start` would end, and with it the pod.
WORKER = f"""
import os, socket, sys, time
host, until = sys.argv[1], time.monotonic() + float(sys.argv[2])
while True:
    try:
        socket.create_connection((host, {PORT}), 5).close()
        break
    except OSError:
        if time.monotonic() > until:
            raise
        time.sleep(1)
os.execvp("ray", ["ray", "start", "--address=" + host + ":{PORT}", "--block", {_OWN}, {_STORE}])
""".lstrip()


def on_ray(request: LaunchRequest) -> bool:
    """Whether the pods of the replica form a Ray cluster; a single pod needs none."""
    return request.spec.engine.distributed == "Ray" and request.plan.shape.pods > 1


def command(request: LaunchRequest, server: tuple[str, ...], ready_seconds: int) -> tuple[str, ...]:
    """The command of a pod: Ray's head and the server behind it, or a Ray worker that waits for its head."""
    if not on_ray(request):
        return server
    if request.rank == 0:
        return ("python3", "-c", HEAD, *server)
    return ("python3", "-c", WORKER, request.leader_host, str(ready_seconds))


def parallel(request: LaunchRequest) -> tuple[str, ...]:
    """Arguments of the one server, which finds the GPUs of the other pods itself."""
    shape = request.plan.shape
    if shape.data_parallel == 1:
        return ("--distributed-executor-backend", "ray")
    sizes = ("--data-parallel-size", str(shape.data_parallel), "--data-parallel-size-local", str(shape.ranks_per_pod))
    return (*sizes, "--data-parallel-backend", "ray")


def refuse_what_cannot_run_on_ray(request: LaunchRequest) -> None:
    """Raise `Invalid` for the first setting that does not work on Ray, with what is allowed."""
    if request.spec.engine.distributed != "Ray":
        return
    why = next(_against(request), None)
    if why is not None:
        raise Invalid(Reason.FeatureUnsupported, f"spec.engine.distributed Ray {why}")


def _against(request: LaunchRequest) -> Iterator[str]:
    spec, version = request.spec, request.plan.engine.version
    if request.on_cpu:
        yield "is not supported without accelerators: use Native"
    if spec.role.is_half:
        yield f"is not supported in a {spec.role.value} pool, as Ray shares the first pod's KV address: use Native"
    if spec.balancing is not Balancing.Internal:
        asked = f"spec.shape.dataParallelBalancing {spec.balancing.value}"
        yield f"has one server, and {asked} several: use Native, or Internal"
    if parse_version(version) >= BRINGS_NO_RAY and spec.engine.image is None:
        yield (
            f"is not in the image of vLLM {version}: use Native, a version before 0.18.0, or a spec.engine.image of "
            "your own that has Ray"
        )
