"""Kueue's published definitions on a real API server: what they take is what Weft reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from e2e.cluster.waiting import eventually
from tests.neighbours import install_neighbours
from weft.apply import Sender, TokenBucket
from weft.apply.sending import ApiRequest
from weft.domain.queueing import QueueRecord
from weft.domain.spec import SchedulerName
from weft.domain.status import Handover
from weft.observe.api_server.reading import Reader
from weft.observe.informers.cluster import ClusterCache
from weft.observe.objects.queues import OF_A_POD_GROUP
from weft.schedulers import scheduler_for

if TYPE_CHECKING:
    from e2e.cluster.control_plane import ControlPlane

NAMESPACE = "queues"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
QUEUES, WORKLOADS = (f"{KUEUE}/namespaces/{NAMESPACE}/{plural}" for plural in ("localqueues", "workloads"))
STRICT = (("fieldValidation", "Strict"),)
MERGE = "application/merge-patch+json"


def body(kind: str, name: str, notes: dict[str, str] | None = None, **more: object) -> dict[str, Any]:
    meta = {"name": name, "annotations": notes or {}}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": meta, **more}


def test_queues_levels_and_conditions_are_read_as_kueue_defines_them(control_plane: ControlPlane) -> None:
    """Strict validation refuses fields that the definitions lack."""
    asked = Handover(SchedulerName.Kueue, "llm", 1)
    waiting = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "8 more needed"}
    with control_plane.api_client() as api:
        install_neighbours(api)
        sender = Sender(api, TokenBucket(per_second=1000))
        written = [
            ApiRequest("POST", "/api/v1/namespaces", (), {"metadata": {"name": NAMESPACE}}),
            ApiRequest("POST", QUEUES, STRICT, body("LocalQueue", "llm", spec={"clusterQueue": "all"})),
            ApiRequest("POST", WORKLOADS, STRICT, body("Workload", "chat-1", {OF_A_POD_GROUP: "true"})),
            ApiRequest(
                "POST",
                f"{KUEUE}/topologies",
                STRICT,
                body("Topology", "racks", spec={"levels": [{"nodeLabel": "nvidia.com/gpu.clique"}]}),
            ),
            ApiRequest(
                "PATCH",
                f"{WORKLOADS}/chat-1/status",
                STRICT,
                {"status": {"conditions": [{**waiting, "lastTransitionTime": "2026-08-01T10:00:00Z"}]}},
                MERGE,
            ),
        ]
        for request in written:
            answer = sender.send(request)
            assert answer.ok, answer.message
        cache = ClusterCache(Reader(api), (NAMESPACE,), lambda _: None)
        cache.start()
        eventually(lambda: cache.synced and bool(cache.queueing().admissions), "the Workload is known")
        seen = cache.queueing()
        cache.stop(5)
    assert seen.installed
    assert (QueueRecord(NAMESPACE, "llm"),) == seen.queues
    assert ("nvidia.com/gpu.clique",) in seen.topologies
    words = scheduler_for(SchedulerName.Kueue).waits_for(asked, seen.admission(NAMESPACE, "chat-1"))
    assert "8 more needed" == words
