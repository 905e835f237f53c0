"""What others do while gangs come: pods that take a GPU each, nodes that are cordoned, nodes that are not ready."""

from __future__ import annotations

import contextlib
import threading
from random import Random
from typing import TYPE_CHECKING, Any

from kubernetes import client

from bench.scheduler_bench.demand import SEED, nodes
from e2e.cluster import simulated_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.scheduler_bench.demand import Trouble
    from e2e.cluster.control_plane import ControlPlane


@contextlib.contextmanager
def during(cluster: ControlPlane, namespace: str, trouble: Trouble | None) -> Iterator[threading.Event]:
    """Make the trouble in the background and mend the nodes at the end; the event says that all of it was made."""
    made, stopped = threading.Event(), threading.Event()
    if trouble is None:
        made.set()
        yield made
        return
    cordoned, silent = victims(trouble)

    def cause() -> None:
        stopped.wait(trouble.at_seconds)
        for name in cordoned:
            _cordon(cluster, name, unschedulable=True)
        for name in silent:
            simulated_nodes.fail_node(cluster, name)
        made.set()

    threads = [
        threading.Thread(target=cause, daemon=True),
        threading.Thread(target=_send_strangers, args=(cluster, namespace, trouble, stopped), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        stopped.set()
        for thread in threads:
            thread.join()
        _mend(cluster, cordoned, silent)


def victims(trouble: Trouble) -> tuple[list[str], list[str]]:
    """Nodes to cordon and nodes to fail, the same in every run."""
    drawn = Random(SEED).sample([node.name for node in nodes()], trouble.cordoned + trouble.silent)
    return drawn[: trouble.cordoned], drawn[trouble.cordoned :]


def _send_strangers(cluster: ControlPlane, namespace: str, trouble: Trouble, stopped: threading.Event) -> None:
    with cluster.api_client(cluster.kubeconfig) as api:
        for number in range(trouble.foreign):
            client.CoreV1Api(api).create_namespaced_pod(namespace, _stranger(number))
            stopped.wait(1.0 / trouble.per_second)


def _stranger(number: int) -> Any:  # noqa: ANN401 - the client takes a manifest just as well
    devices = {"nvidia.com/gpu": "1"}
    container = {"name": "job", "image": "job", "resources": {"requests": devices, "limits": devices}}
    return {"metadata": {"name": f"stranger-{number:02}"}, "spec": {"containers": [container]}}


def _cordon(cluster: ControlPlane, name: str, *, unschedulable: bool) -> None:
    with cluster.api_client() as api:
        client.CoreV1Api(api).patch_node(name, {"spec": {"unschedulable": unschedulable or None}})


def _mend(cluster: ControlPlane, cordoned: list[str], silent: list[str]) -> None:
    for name in cordoned:
        _cordon(cluster, name, unschedulable=False)
    for name in silent:
        simulated_nodes.recover_node(cluster, name)
