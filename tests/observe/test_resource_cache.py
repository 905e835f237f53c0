"""Our own resources by UID: news only, no echoes, no phantoms."""

from __future__ import annotations

from typing import Any

from weft.domain.labels import API_VERSION
from weft.observe.custom_resources.cache import ResourceCache, Seen

Json = dict[str, Any]


def body(uid: str, version: int, namespace: str = "team", kind: str = "InferencePool") -> Json:
    meta = {"uid": uid, "name": f"name-{uid}", "namespace": namespace, "resourceVersion": str(version)}
    return {"kind": kind, "metadata": meta}


class Woken(list[str | None]):
    """Collects the UIDs that a cache reported."""


def test_a_newer_body_replaces_an_older_one_and_wakes() -> None:
    woken = Woken()
    cache = ResourceCache(woken.append)
    assert cache.put(body("a", 1))
    assert cache.put(body("a", 2))
    assert woken == ["a", "a"]


def test_an_older_or_equal_body_is_no_news() -> None:
    """The answer to our own write is in the cache before the watch brings it, and what comes late changes nothing."""
    woken = Woken()
    cache = ResourceCache(woken.append)
    cache.put(body("a", 5))
    assert not cache.put(body("a", 5))
    assert not cache.put(body("a", 4))
    assert woken == ["a"]


def test_a_deleted_object_does_not_come_back_with_a_late_echo() -> None:
    cache = ResourceCache(Woken().append)
    cache.put(body("a", 5))
    cache.drop("a", 7)
    assert not cache.put(body("a", 6))
    assert cache.bodies("InferencePool") == ()


def test_an_object_that_was_called_gone_by_mistake_is_back_with_the_next_list() -> None:
    """A status write may find nothing where an API server does not serve the kind yet, or a proxy says so."""
    cache = ResourceCache(Woken().append)
    cache.put(body("a", 5))
    cache.drop("a", 5)
    assert cache.replace(Seen("InferencePool", None, 9, (body("a", 5),))) == 0
    assert [found["metadata"]["uid"] for found in cache.bodies("InferencePool")] == ["a"]


def test_a_list_from_before_its_end_does_not_bring_an_object_back() -> None:
    """F2: a deletion has a version, and an API server that lags lists what was before it."""
    cache = ResourceCache(Woken().append)
    cache.put(body("a", 5))
    cache.drop("a", 8)
    cache.replace(Seen("InferencePool", None, 7, (body("a", 5),)))
    assert cache.bodies("InferencePool") == ()


def test_the_split_is_told_of_each_change_of_its_child_and_of_its_end() -> None:
    """A child that somebody deletes is made anew at once, and not at the next resync."""
    woken = Woken()
    cache = ResourceCache(woken.append)
    child = body("a", 5)
    child["metadata"]["ownerReferences"] = [
        {"apiVersion": API_VERSION, "kind": "PDSplit", "uid": "s", "controller": True}
    ]
    cache.put(child)
    cache.drop("a", 6)
    assert woken == ["a", "s", "a", "s"]


def test_a_list_removes_what_vanished_unseen() -> None:
    """F15: a watch gap hides a deletion; the next list shows it."""
    cache = ResourceCache(Woken().append)
    cache.put(body("a", 5))
    cache.put(body("b", 6))
    assert cache.replace(Seen("InferencePool", None, 9, (body("b", 6),))) == 1
    assert [found["metadata"]["uid"] for found in cache.bodies("InferencePool")] == ["b"]


def test_a_list_leaves_alone_what_it_does_not_cover() -> None:
    """Another namespace, another kind, or created after the list was taken."""
    cache = ResourceCache(Woken().append)
    cache.put(body("elsewhere", 5, namespace="other"))
    cache.put(body("split", 5, kind="PDSplit"))
    cache.put(body("younger", 12))
    assert cache.replace(Seen("InferencePool", "team", 9, ())) == 0


def test_it_is_synced_after_every_expected_list() -> None:
    cache = ResourceCache(Woken().append)
    cache.expect(["team"])
    cache.replace(Seen("InferencePool", "team", 1, ()))
    assert not cache.synced
    cache.replace(Seen("PDSplit", "team", 1, ()))
    assert cache.synced


def names(cache: ResourceCache) -> dict[str, str]:
    """Versions by UID."""
    return {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in cache.bodies("InferencePool")}


def test_a_store_that_was_restored_from_a_backup_is_followed() -> None:
    """Its versions begin again at an earlier one: what was known would be newer, and every write a conflict."""
    woken = Woken()
    cache = ResourceCache(woken.append)
    cache.replace(Seen("InferencePool", None, 100, (body("a", 90), body("younger", 95))))
    cache.put(body("deleted", 60))
    cache.drop("deleted", 99)
    restored = (body("a", 30), body("deleted", 35))
    cache.replace(Seen("InferencePool", None, 40, restored))
    woken.clear()
    cache.replace(Seen("InferencePool", None, 45, restored))
    assert names(cache) == {"a": "30", "deleted": "35"}
    assert set(woken) == {"a", "deleted", "younger"}
    assert cache.put(body("a", 46))


def test_one_list_that_is_older_changes_nothing() -> None:
    """F2: what a proxy kept is no other store, nor is a list of something else."""
    cache = ResourceCache(Woken().append)
    for seen in (100, 40, 101, 41):
        cache.replace(Seen("InferencePool", None, seen, (body("a", min(seen, 90)),)))
        cache.replace(Seen("InferencePool", "team", 7, ()))
    assert names(cache) == {"a": "90"}


def test_a_store_that_was_restored_is_taken_over_at_once() -> None:
    """S2: a pass that found no pool, or some, would give away what others of them were promised."""
    seen: list[int] = []
    cache = ResourceCache(lambda _: seen.append(len(cache.bodies("InferencePool"))))
    cache.replace(Seen("InferencePool", None, 100, (body("a", 90), body("b", 95))))
    seen.clear()
    for version in (40, 45):
        cache.replace(Seen("InferencePool", None, version, (body("a", 30), body("b", 35))))
    assert set(seen) == {2}
