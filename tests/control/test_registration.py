"""kopf is used for what leaves no trace, and no more."""

from __future__ import annotations

from itertools import islice

import kopf
from kubernetes.client import ApiClient, Configuration

from weft.control.watches.absent_kinds import AbsentKinds
from weft.control.watches.watch_pacing import EndlessBackoff, PacedSessions
from weft.control.watches.watching import LONGEST_BACKOFF_SECONDS, Watched, register, settings, take_event
from weft.observe.custom_resources.cache import ResourceCache


def registered() -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()
    client = ApiClient(Configuration(host="http://127.0.0.1:1"))
    register(registry, Watched(client, ResourceCache(lambda _: None), ()), PacedSessions(AbsentKinds()))
    return registry


def test_only_events_of_our_two_kinds_and_the_login_are_handled() -> None:
    """Everything else writes finalizers or annotations, or starts up quadratically."""
    registry = registered()
    selectors = [handler.selector for handler in registry._watching.get_all_handlers()]
    watched = {(chosen.group, chosen.version, chosen.any_name) for chosen in selectors if chosen is not None}
    assert watched == {("weft.dev", "v1alpha1", "inferencepools"), ("weft.dev", "v1alpha1", "pdsplits")}
    assert len(selectors) == 2
    assert [handler.id for handler in registry._activities.get_all_handlers()] == ["weft-login"]
    for forbidden in (registry._changing, registry._spawning, registry._indexing, registry._webhooks):
        assert list(forbidden.get_all_handlers()) == []


def test_the_patience_of_the_watches_never_ends_and_starts_anew_each_time() -> None:
    """A generator would be exhausted by the first outage; the default gives up after a minute."""
    patience = EndlessBackoff(LONGEST_BACKOFF_SECONDS)
    first, second = list(islice(patience, 1000)), list(islice(patience, 3))
    assert max(first) <= 30 * 1.2
    assert second[0] <= 1.2


def test_the_settings_leave_no_mark_and_ask_for_no_permission() -> None:
    chosen = settings()
    assert chosen.persistence.finalizer.startswith("weft.dev/")
    assert chosen.peering.standalone
    assert chosen.scanning.disabled
    assert not chosen.posting.enabled


def test_an_event_updates_the_cache_and_a_deletion_empties_it() -> None:
    cache = ResourceCache(lambda _: None)
    meta = {"uid": "u", "name": "chat", "namespace": "team", "resourceVersion": "7"}
    body = {"kind": "InferencePool", "metadata": meta}
    take_event(cache, {"type": None, "object": body})
    assert cache.body("u") == body
    take_event(cache, {"type": "DELETED", "object": body})
    assert cache.body("u") is None


def test_an_event_without_an_object_is_ignored() -> None:
    woken: list[str] = []
    take_event(ResourceCache(woken.append), {"type": "ERROR", "object": {}})
    assert woken == []
