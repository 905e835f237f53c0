"""The same gangs as plain pods: required pod affinity on the rack, as LeaderWorkerSet's webhook writes it.

LeaderWorkerSet's exclusive topology also writes an anti-affinity that gives a whole rack to one group, and creates
workers once their leader is bound. Gangs that share racks can only have the affinity; and here the pods of a gang come
one right after the other, which is quicker. In parallel they would be quicker still, but then leaders of many gangs
take a rack together before anybody follows, and gangs wedge that have room in this order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.scheduler_bench.demand import GPUS_PER_TRAY, RACK_LABEL
from weft.apply import Sender
from weft.apply.sending import ApiRequest, object_path
from weft.control.connection import connect
from weft.control.options import RunOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from e2e.cluster.control_plane import ControlPlane
    from weft.apply import TokenBucket

Json = dict[str, Any]
USER = "plain-client"
GANG, SIZE = "bench.weft.dev/gang", "bench.weft.dev/size"


def create(cluster: ControlPlane, namespace: str, gangs: Sequence[int], limit: TokenBucket) -> None:
    """Create all pods, gang by gang, through the very client and write limit that Weft's operator has."""
    kubeconfig = cluster.kubeconfig_for_user(USER, ["system:masters"])
    sender = Sender(connect(RunOptions(kubeconfig=str(kubeconfig))), limit)
    path = object_path("v1", "pods", namespace)
    for body in pods(gangs):
        answer = sender.send(ApiRequest("POST", path, (), body))
        if not answer.ok:
            raise RuntimeError(f"a plain pod was refused: {answer.message}")


def pods(gangs: Sequence[int]) -> Iterator[Json]:
    """Bodies in order."""
    for number, size in enumerate(gangs):
        yield from (pod(f"gang-{number:03}", rank, size) for rank in range(size))


def pod(gang: str, rank: int, size: int) -> Json:
    """One whole tray, in the rack of the others."""
    term = {
        "labelSelector": {"matchExpressions": [{"key": GANG, "operator": "In", "values": [gang]}]},
        "topologyKey": RACK_LABEL,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{gang}-{rank}", "labels": {GANG: gang, SIZE: str(size)}},
        "spec": {
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
            "restartPolicy": "Never",
            "containers": [_engine()],
        },
    }


def _engine() -> Json:
    devices = {"nvidia.com/gpu": str(GPUS_PER_TRAY)}
    return {"name": "engine", "image": "engine", "resources": {"requests": devices, "limits": devices}}


def identify(body: Json) -> tuple[str, int] | None:
    """Gang and size of a pod."""
    tags = body["metadata"].get("labels") or {}
    return (tags[GANG], int(tags[SIZE])) if GANG in tags else None
