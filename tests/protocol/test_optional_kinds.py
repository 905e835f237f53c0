"""Kinds that a cluster may have or not: absent is normal, forbidden is said once, and neither holds anything up."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from aiohttp import web
from kubernetes.client import ApiClient, Configuration

from e2e.cluster.waiting import eventually
from tests.protocol.scripted_server import ScriptedServer
from weft.domain.reasons import Reason
from weft.observe.api_server.reading import Reader
from weft.observe.informers.cluster import ClusterCache
from weft.observe.informers.reflector import Reflector
from weft.observe.informers.reports import OptionalListWatch
from weft.observe.objects.reports import COMPUTE_DOMAINS, RESOURCE_SLICES, TOPOLOGIES, read_topology

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weft.domain.reports import TopologyReport

GPU = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}
SLICE = {"driver": "gpu.nvidia.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 1}, "devices": [GPU]}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        running.put("/api/v1/nodes", "n1", spec={}, status={})
        yield running


def cache_of(server: ScriptedServer, changed: Callable[[str | None], None] = lambda _: None) -> ClusterCache:
    return ClusterCache(Reader(ApiClient(Configuration(host=server.url))), (), changed)


def refusing(word: str, status: int) -> Callable[[web.Request], web.Response | None]:
    return lambda request: web.json_response({}, status=status) if word in request.path else None


def test_a_cluster_without_any_of_them_is_ready_at_once(server: ScriptedServer) -> None:
    """Each is asked for once, and not again before the next list is due."""
    cache = cache_of(server)
    cache.start()
    eventually(lambda: cache.synced, "it is synced")
    assert ((), (), (), ()) == (
        cache.reports().devices,
        cache.reports().compute_domains,
        cache.reports().topologies,
        cache.reports().refused,
    )
    assert 1 == server.count("GET", "/apis/resource.nvidia.com/v1beta1")
    assert 0 == server.count("GET", "/apis/resource.nvidia.com/v1beta1/computedomains")
    cache.stop(5)


def test_what_is_installed_is_read_and_followed(server: ScriptedServer) -> None:
    slices = server.serve("resource.k8s.io/v1", "resourceslices")
    domains = server.serve("resource.nvidia.com/v1beta1", "computedomains")
    server.put(slices, "s1", spec=SLICE)
    woken: list[str | None] = []
    cache = cache_of(server, woken.append)
    cache.start()
    eventually(lambda: cache.synced and server.watches(slices) and server.watches(domains), "they are watched")
    assert ["n1"] == [device.node for device in cache.reports().devices]
    woken.clear()
    server.put(domains, "chat", status={"nodes": [{"name": "n1", "cliqueID": "c.1", "status": "NotReady"}]})
    eventually(lambda: woken == [None], "the change wakes the loop")
    (domain,) = cache.reports().compute_domains
    assert ("team/chat", "c.1", False) == (str(domain), domain.members[0].clique, domain.members[0].ready)
    server.cut()
    cache.stop(5)


def test_compute_domains_of_ours_are_objects_whose_changes_wake_their_pool(server: ScriptedServer) -> None:
    """Those of others are reports alone. What is not in the records is not there, once all were handed out."""
    domains = server.serve("resource.nvidia.com/v1beta1", "computedomains")
    server.put(domains, "theirs", spec={})
    woken: list[str | None] = []
    cache = cache_of(server, woken.append)
    assert not cache.reports().knows_compute_domains
    cache.start()
    eventually(lambda: cache.synced and server.watches(domains), "they are watched")
    assert cache.reports().knows_compute_domains
    assert ["theirs"] == [domain.name for domain in cache.reports().compute_domains]
    assert () == cache.objects()
    woken.clear()
    owner = {"apiVersion": "weft.dev/v1alpha1", "kind": "InferencePool", "uid": "p-1", "controller": True}
    server.put(domains, "chat-3", metadata={"ownerReferences": [owner]}, spec={})
    eventually(lambda: woken == [None, "p-1"], "the pool is woken, as is whoever waits")
    (record,) = cache.objects()
    assert ("ComputeDomain", "team", "chat-3", "p-1") == (record.kind, record.namespace, record.name, record.owner_uid)
    server.remove(domains, "chat-3")
    eventually(lambda: cache.objects() == (), "it is forgotten")
    assert cache.reports().knows_compute_domains
    server.cut()
    cache.stop(5)


def test_a_kind_that_cannot_be_listed_says_nothing_of_what_is_missing(server: ScriptedServer) -> None:
    """Replicas are not ended because RBAC took a right, or nobody answers."""
    server.serve("resource.nvidia.com/v1beta1", "computedomains")
    server.answer = refusing("/computedomains", 403)
    cache = cache_of(server)
    cache.start()
    eventually(lambda: cache.synced, "it is synced")
    assert not cache.reports().knows_compute_domains
    cache.stop(5)


def test_an_older_version_is_read_where_the_newest_is_not_served(server: ScriptedServer) -> None:
    path = server.serve("resource.k8s.io/v1beta1", "resourceslices")
    old = {**SLICE, "devices": [{"name": "gpu-0", "basic": GPU}]}
    server.put(path, "s1", spec=old)
    cache = cache_of(server)
    cache.start()
    eventually(lambda: cache.synced and cache.reports().devices, "the slice is known")
    assert (("", 0, 1),) == cache.reports().devices[0].gpus
    server.cut()
    cache.stop(5)


def test_what_rbac_forbids_is_named_and_the_rest_goes_on(server: ScriptedServer) -> None:
    """It is not asked for again before the next list is due."""
    path = server.serve("kueue.x-k8s.io/v1beta2", "topologies")
    server.answer = refusing("/topologies", 403)
    cache = cache_of(server)
    cache.start()
    eventually(lambda: cache.synced, "it is synced")
    assert (TOPOLOGIES.name,) == cache.reports().refused
    assert 1 == server.count("GET", path)
    cache.stop(5)


def test_a_group_that_fails_does_not_hold_up_the_others(server: ScriptedServer) -> None:
    """An aggregated API that is down answers 503 for its whole group."""
    server.answer = refusing("/apis/resource.nvidia.com", 503)
    cache = cache_of(server)
    cache.start()
    eventually(lambda: cache.synced, "it is synced")
    assert cache.age_seconds < 30
    cache.stop(5)


@pytest.fixture
def topologies(server: ScriptedServer) -> Iterator[Reflector[TopologyReport]]:
    """A reflector that looks again after a quarter of a second."""
    listing = OptionalListWatch(Reader(ApiClient(Configuration(host=server.url))), TOPOLOGIES, read_topology, 0.25)
    reflector = Reflector(listing, lambda _, __: None)
    reflector.start()
    yield reflector
    stopping = threading.Thread(target=reflector.stop, daemon=True)
    stopping.start()
    server.cut()
    stopping.join(5)


def test_what_is_installed_later_is_found_and_what_is_removed_is_forgotten(
    server: ScriptedServer, topologies: Reflector[TopologyReport]
) -> None:
    eventually(lambda: server.count("GET", "/apis/kueue.x-k8s.io/v1beta2") >= 2, "it is looked for again")
    path = server.serve("kueue.x-k8s.io/v1beta2", "topologies")
    server.put(path, "default", spec={"levels": [{"nodeLabel": "ex.com/rack"}]})
    eventually(lambda: [one.levels for one in topologies.records()] == [("ex.com/rack",)], "it is known")
    server.answer = refusing("kueue.x-k8s.io", 404)
    server.cut()
    assert eventually(lambda: topologies.records() == (), "it is forgotten")


def test_what_gateways_route_by_is_read_where_it_is_ours_and_wakes_its_owner(server: ScriptedServer) -> None:
    pools = server.serve("inference.networking.k8s.io/v1", "inferencepools")
    routes = server.serve("gateway.networking.k8s.io/v1", "httproutes")
    woken: list[str | None] = []
    cache = cache_of(server, woken.append)
    cache.start()
    eventually(lambda: cache.synced and server.watches(pools) and server.watches(routes), "they are watched")
    assert cache.lacks_for_gateways is None
    assert 1 == server.count("GET", routes, labelSelector="app.kubernetes.io/managed-by=weft", limit="500")
    woken.clear()
    owner = {"apiVersion": "weft.dev/v1alpha1", "kind": "InferencePool", "uid": "p-1", "controller": True}
    for path in (pools, routes):
        server.put(path, "chat", metadata={"ownerReferences": [owner]}, spec={})
    eventually(lambda: woken == ["p-1", "p-1"], "the pool is woken")
    assert [
        ("inference.networking.k8s.io/v1", "InferencePool"),
        ("gateway.networking.k8s.io/v1", "HTTPRoute"),
    ] == [(each.api_version, each.kind) for each in cache.objects()]
    server.cut()
    cache.stop(5)


def test_what_gateways_lack_is_named(server: ScriptedServer) -> None:
    """It is looked for again when the next list is due, and no sooner."""
    server.serve("inference.networking.k8s.io/v1", "inferencepools")
    cache = cache_of(server)
    cache.start()
    eventually(lambda: cache.synced, "it is synced")
    assert cache.lacks_for_gateways is not None
    assert Reason.GatewayAPIMissing is cache.lacks_for_gateways.reason
    assert "no httproutes.gateway.networking.k8s.io" in cache.lacks_for_gateways.message
    assert 1 == server.count("GET", "/apis/gateway.networking.k8s.io/v1")
    server.cut()
    cache.stop(5)


def test_gateways_lack_what_rbac_forbids(server: ScriptedServer) -> None:
    server.serve("inference.networking.k8s.io/v1", "inferencepools")
    server.serve("gateway.networking.k8s.io/v1", "httproutes")
    server.answer = refusing("/httproutes", 403)
    woken: list[str | None] = []
    cache = cache_of(server, woken.append)
    cache.start()
    eventually(lambda: cache.synced, "it is synced")
    assert cache.lacks_for_gateways is not None
    assert Reason.NotPermitted is cache.lacks_for_gateways.reason
    assert None in woken  # the other kind came
    server.cut()
    cache.stop(5)


def test_a_gateways_kind_that_fails_to_be_listed_is_not_called_missing(server: ScriptedServer) -> None:
    server.serve("inference.networking.k8s.io/v1", "inferencepools")
    server.serve("gateway.networking.k8s.io/v1", "httproutes")
    server.answer = refusing("/httproutes", 500)
    cache = cache_of(server)
    cache.start()
    eventually(
        lambda: server.count("GET", "/apis/gateway.networking.k8s.io/v1/httproutes", limit="500"), "it was asked for"
    )
    assert cache.lacks_for_gateways is not None
    assert "could not be listed yet" in cache.lacks_for_gateways.message
    server.cut()
    cache.stop(5)


def test_every_kind_is_named_as_rbac_names_it() -> None:
    names = {kind.name for kind in (RESOURCE_SLICES, COMPUTE_DOMAINS, TOPOLOGIES)}
    assert {
        "resourceslices.resource.k8s.io",
        "computedomains.resource.nvidia.com",
        "topologies.kueue.x-k8s.io",
    } == names
