"""F3: whichever watch event is lost, and if it is never told again, the next list makes good for it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client import ApiClient, Configuration

from e2e.cluster.waiting import eventually
from tests.protocol.scripted_server import ScriptedServer
from weft.observe.api_server.reading import Reader
from weft.observe.custom_resources.cache import ResourceCache, Seen
from weft.observe.informers.reflector import Collection, ListWatch, Reflector
from weft.observe.objects.records import read_pod

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.cluster import PodRecord

Json = dict[str, Any]

PODS = "/api/v1/pods"
GPU = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
BOUND = {**GPU, "nodeName": "n1"}
RELIST_SECONDS = 0.5

# What happens to pods after they were listed: (name, UID, spec), without a spec it is removed.
CHANGES: tuple[tuple[str, str, Json | None], ...] = (
    ("created", "created-1", GPU),
    ("known", "known-1", BOUND),
    ("created", "created-1", BOUND),
    ("removed", "removed-1", None),
    ("known", "known-1", None),
    ("known", "known-2", GPU),
)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        for name in ("known", "removed"):
            running.put(PODS, name, uid=f"{name}-1", spec=GPU)
        yield running


@pytest.fixture
def pods(server: ScriptedServer) -> Iterator[Reflector[PodRecord]]:
    """Pods that are watched, and listed again when a watch ends later than half a second after the last list."""
    collection = Collection("pods", PODS, kind=("v1", "Pod"))
    list_watch = ListWatch(Reader(ApiClient(Configuration(host=server.url))), collection, read_pod, RELIST_SECONDS)
    reflector = Reflector(list_watch, lambda _, __: None)
    reflector.start()
    eventually(lambda: reflector.synced and server.watches(PODS), "pods are watched")
    yield reflector
    stopping = threading.Thread(target=reflector.stop, daemon=True)  # a stream that is just opened ends by its timeout
    stopping.start()
    server.cut()
    stopping.join(5)


@pytest.mark.parametrize("missed", range(len(CHANGES)))
def test_any_missed_event_of_pods_is_made_good(server: ScriptedServer, pods: Reflector[PodRecord], missed: int) -> None:
    """The same pods are known in the end, on the same nodes."""
    for number, (name, uid, spec) in enumerate(CHANGES):
        if spec is None:
            server.remove(PODS, name, silent=number == missed)
        else:
            server.put(PODS, name, uid=uid, spec=spec, silent=number == missed)

    def known_after_a_watch_has_ended() -> set[tuple[str, str | None]]:
        server.cut(PODS)
        return {(pod.uid, pod.node) for pod in pods.records()}

    expected = {("created-1", "n1"), ("known-2", None)}
    assert eventually(lambda: known_after_a_watch_has_ended() == expected, "all is known", interval_seconds=0.3)


lives = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=8)


@given(lives, st.data())
def test_any_missed_event_of_our_resources_is_made_good(changes: list[tuple[str, bool]], data: st.DataObject) -> None:
    """Created, changed, removed and created again under the same name: an event that is lost changes no end."""
    missed = data.draw(st.integers(0, len(changes) - 1))
    cache = ResourceCache(lambda _: None)
    existing: dict[str, Json] = {}
    for version, (name, stays) in enumerate(changes, start=1):
        known = existing.pop(name, None)
        told = version - 1 != missed
        if stays:
            uid = known["metadata"]["uid"] if known is not None else f"{name}-{version}"
            existing[name] = resource(name, uid, version)
            _ = told and cache.put(existing[name])
        elif known is not None and told:
            cache.drop(known["metadata"]["uid"], version)
    cache.replace(Seen("InferencePool", None, len(changes), tuple(existing.values())))
    assert {body["metadata"]["uid"]: body for body in cache.bodies("InferencePool")} == {
        body["metadata"]["uid"]: body for body in existing.values()
    }


def resource(name: str, uid: str, version: int) -> Json:
    meta = {"name": name, "namespace": "team", "uid": uid, "resourceVersion": str(version)}
    return {"kind": "InferencePool", "metadata": meta}
