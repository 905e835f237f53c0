"""S3 and S8: whoever names a resource of another namespace as the owner of something neither moves nor breaks it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tests.control.test_decide_loop import Cluster, Json, pool_body
from weft.control.converging.view import Viewer
from weft.domain.cluster import PodIdentity, PodPhase, PodRecord
from weft.domain.labels import API_VERSION
from weft.observe.informers.gateway import GatewayCache
from weft.observe.snapshot_builder import SnapshotBuilder
from weft.render import ENDPOINTS, ROUTE, pod_name

ELSEWHERE = "elsewhere"
GPUS = (("nvidia.com/gpu", 8),)


def placed() -> Cluster:
    """A pool with two replicas, whose pods run."""
    cluster = Cluster()
    cluster.edit(pool_body("chat", 2))
    cluster.turn()
    cluster.pods = tuple(running(cluster, each["replica"], each["nodes"][0]) for each in cluster.places("chat"))
    cluster.turn()
    return cluster


def running(cluster: Cluster, replica: int, node: str) -> PodRecord:
    pool = Viewer(cluster.context).view().pools["uid-chat"]
    name = pod_name(pool.key, replica, 0)
    identity = PodIdentity("uid-chat", replica, 0, pool.status.revision)
    return PodRecord("team", name, f"u-{replica}", PodPhase.Running, node, GPUS, identity, ready=True, routed=True)


def claimed(cluster: Cluster, replica: int) -> PodRecord:
    """What somebody elsewhere makes, with the name and the owner of a replica's pod."""
    return replace(running(cluster, replica, "b-5"), namespace=ELSEWHERE, uid="u-claim")


def test_a_pod_is_a_replica_in_the_namespace_of_its_pool_alone() -> None:
    """A second first pod would make a replica look broken, so that it leaves its front and is replaced."""
    cluster = placed()
    before, known = cluster.places("chat"), Viewer(cluster.context).view().pods
    for replica in (before[0]["replica"], 77):  # one that is there, and one that the status seems to have lost
        cluster.pods = (*cluster.pods[:2], claimed(cluster, replica))
        assert known == Viewer(cluster.context).view().pods
        cluster.turn(2)
        assert before == cluster.places("chat")


def test_its_accelerators_are_taken_all_the_same() -> None:
    cluster = placed()
    cluster.pods = (*cluster.pods, claimed(cluster, 77))
    cluster.edit(pool_body("chat", 6))
    cluster.turn(2)
    assert "b-5" not in {node for each in cluster.places("chat") for node in each["nodes"]}


def test_a_pool_is_a_half_in_the_namespace_of_its_split_alone() -> None:
    cluster = Cluster()
    split = {**pool_body("pair", 1), "kind": "PDSplit"}
    split["spec"] = {"model": split["spec"]["model"], "workload": {"requestsPerSecond": 1}}
    cluster.edit(split)
    owner = {"apiVersion": API_VERSION, "kind": "PDSplit", "uid": "uid-pair", "name": "pair", "controller": True}
    for namespace in ("team", ELSEWHERE):
        half = pool_body("pair-decode", 1, role="Decode")
        meta = {"namespace": namespace, "uid": f"uid-{namespace}", "ownerReferences": [owner]}
        cluster.edit({**half, "metadata": {**half["metadata"], **meta}})
    assert ["uid-team"] == [each.key.uid for each in Viewer(cluster.context).view().children("uid-pair")]
    read = SnapshotBuilder(cluster.context.sources).pools()
    assert {"uid-team": "uid-pair", f"uid-{ELSEWHERE}": None} == {each.key.uid: each.split_uid for each in read}


def test_what_a_picker_is_shown_and_whether_a_gateway_leads_to_it_is_told_by_namespace() -> None:
    """Of a generation that seems to be shown, replicas of the one before are let go."""

    def record(kind: tuple[str, str], namespace: str, body: Json) -> Any:  # noqa: ANN401 - as a record
        version, name = kind
        return SimpleNamespace(api_version=version, kind=name, namespace=namespace, owner_uid="uid-pair", body=body)

    def endpoints(namespace: str, pair: str) -> Any:  # noqa: ANN401
        return record(ENDPOINTS, namespace, {"spec": {"selector": {"matchLabels": {"weft.dev/pair": pair}}}})

    def route(namespace: str, accepted: str) -> Any:  # noqa: ANN401
        said = {"parentRef": {"name": "edge"}, "conditions": [{"type": "Accepted", "status": accepted}]}
        return record(ROUTE, namespace, {"status": {"parents": [said]}})

    reader: Any = None
    cache = GatewayCache(reader, (), lambda _: None)
    pickers = endpoints("team", "old"), endpoints(ELSEWHERE, "new")
    routes = route("team", "True"), route(ELSEWHERE, "False")
    lists: Any = (SimpleNamespace(records=lambda: pickers), SimpleNamespace(records=lambda: routes))
    cache.reflectors = lists
    assert {("team", "uid-pair"): "old", (ELSEWHERE, "uid-pair"): "new"} == cache.shown_pairs()
    assert frozenset({("team", "uid-pair")}) == cache.taken_routes()
