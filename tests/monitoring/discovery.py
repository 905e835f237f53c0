"""Pods as Prometheus discovers them in a cluster, and which of them Weft would read itself."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Any

from tests.render.pools import RELEASES, pool, spec
from tests.render.shapes import SHAPES
from weft.domain import labels
from weft.domain.shape import EngineName
from weft.domain.spec import RouterSpec
from weft.engines import FRONTS
from weft.observe.objects.records import read_pod
from weft.observe.sources.targets import targets_of
from weft.render import FrontSpec, pool_labels, render_front, render_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.snapshot import PoolRecord

Json = dict[str, Any]
Series = tuple[str, str, str]  # what all series of a page have in common: URL, namespace, pod

META = "__meta_kubernetes_"


def replicas() -> dict[str, list[Json]]:
    """The pods of every recorded replica, all running on loopback addresses of their own."""
    return {
        name: [_running(body, number, rank) for rank, body in enumerate(_rendered(record))]
        for number, (name, record) in enumerate(SHAPES.items())
    }


def fronts() -> list[Json]:
    """A pod of the router of each engine."""
    record = pool(spec(), SHAPES["aggregated-tp1"].status.plan, ("node-a",))
    made = []
    for number, engine in enumerate(EngineName):
        front = FrontSpec((record.key,), 1, 300.0, engine_image=RELEASES[engine].image)
        body = render_front(record.key, engine, RouterSpec(), front, pool_labels(record))["spec"]["template"]
        named = {**body, "metadata": {**body["metadata"], "namespace": "team", "name": f"front-{number}"}}
        made.append(_running(named, 200, number))
    return made


def others() -> list[Json]:
    """A pod that is not Weft's, and one of Weft's that has ended."""
    stranger, ended = (_running(_rendered(SHAPES["aggregated-tp1"])[0], 201, rank) for rank in range(2))
    stranger["metadata"]["labels"][labels.MANAGED_BY] = "helm"
    ended["status"]["phase"] = "Succeeded"
    return [stranger, ended]


def discovered(body: Json) -> Iterator[Json]:
    """One target for each port of each container, as Kubernetes discovery tells of a pod."""
    meta, status, inner = body["metadata"], body["status"], body["spec"]
    told = {"namespace": meta["namespace"], "pod_name": meta["name"], "pod_phase": status["phase"]}
    told |= {pod_label(key): value for key, value in meta["labels"].items()}
    for container in (*inner["containers"], *inner.get("initContainers", ())):
        own = {"pod_container_name": container["name"], "pod_container_image": container["image"]}
        ports: list[Json] = container.get("ports") or [{}]
        for port in ports:
            named = {"pod_container_port_name": port["name"]} if port else {}
            address = f"{status['podIP']}:{port['containerPort']}" if port else status["podIP"]
            found = {**told, **own, **named}
            yield {"targets": [address], "labels": {f"{META}{key}": value for key, value in found.items()}}


def pod_label(key: str) -> str:
    """What discovery calls a label of a pod, without the prefix of all."""
    return f"pod_label_{re.sub('[^a-zA-Z0-9_]', '_', key)}"


def read_by_weft() -> set[Series]:
    """The pages that Weft asks Prometheus for: of ready replicas and of fronts."""
    asked = set()
    for name, bodies in replicas().items():
        record, pods = SHAPES[name], [pod for body in bodies if (pod := read_pod(body)) is not None]
        assert record.status.plan is not None
        for first in targets_of(record.key.uid, pods, record.status.plan.engine):
            asked |= {(page.url, page.namespace, page.pod) for page in (first, *first.pages) if "/" not in page.uid}
    for body in fronts():
        address, meta = body["status"]["podIP"], body["metadata"]
        asked.add((f"http://{address}:{FRONTS.port}{FRONTS.path}", meta["namespace"], meta["name"]))
    return asked


def _rendered(record: PoolRecord) -> list[Json]:
    return [copy.deepcopy(body) for body in render_pods(record, record.status.assignments[0])]


def _running(body: Json, number: int, rank: int) -> Json:
    metadata = {**body["metadata"], "uid": f"uid-{number}-{rank}", "name": f"{body['metadata']['name']}-{number}"}
    ready = [{"type": "Ready", "status": "True"}]
    status = {"podIP": f"127.1.{number}.{rank + 1}", "phase": "Running", "conditions": ready}
    return {**body, "metadata": metadata, "status": status}
