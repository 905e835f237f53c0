"""InferencePools and PDSplits as last seen, by UID: from watch events, our own writes and full lists.

A watch alone is not enough: after a gap it does not say what vanished, so a list every few minutes removes phantoms.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.domain.labels import API_VERSION
from weft.observe.api_server.reading import resource_path
from weft.observe.objects.identity import controller_uid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.observe.api_server.reading import Reader

Json = dict[str, Any]

POOL_KIND, POOL_PLURAL = "InferencePool", "inferencepools"
SPLIT_KIND, SPLIT_PLURAL = "PDSplit", "pdsplits"
PLURALS = {POOL_KIND: POOL_PLURAL, SPLIT_KIND: SPLIT_PLURAL}


@dataclass(frozen=True, slots=True)
class Seen:
    """What a list covered: objects of `kind` in `namespace` (None: all) as of `version`."""

    kind: str
    namespace: str | None
    version: int
    bodies: tuple[Json, ...]


class ResourceCache:
    """Bodies by UID. Thread-safe; older versions of an object never replace newer ones.

    `changed` is called from the caller's thread with the UID of each body that is newer or gone, and with that of the
    split that owns it: for converging, it changed too.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        """Starts empty, and is not synced before the expected lists came in."""
        self._bodies: dict[str, Json] = {}
        self._gone: dict[str, int] = {}  # UID -> version of the deletion, so that late events are ignored
        self._lock = threading.Lock()
        self._uid_changed = changed
        self.revision = 0  # rises with every change
        self._listed: set[tuple[str, str | None]] = set()
        self._expected: set[tuple[str, str | None]] | None = None
        self._newest: dict[tuple[str, str | None], int] = {}  # version of the newest list of each
        self._behind: set[tuple[str, str | None]] = set()  # those whose last list was older than that

    def expect(self, namespaces: Iterable[str]) -> None:
        """Set which lists make it synced: every kind, in each namespace or (none given) in the whole cluster."""
        places: list[str | None] = [*sorted(set(namespaces))] or [None]
        self._expected = {(kind, place) for kind in PLURALS for place in places}

    @property
    def synced(self) -> bool:
        """Whether every expected list came in at least once."""
        return self._expected is not None and self._expected <= self._listed

    def _changed(self, body: Json) -> None:
        self.revision += 1  # a lost update between threads still leaves it changed
        self._uid_changed(str(body["metadata"]["uid"]))
        owner = controller_uid(body["metadata"])
        if owner is not None:
            self._uid_changed(owner)

    def put(self, body: Json) -> bool:
        """Store a body unless it is older than the known one; returns whether it was new."""
        return self._take(body, version_of(body))

    def _take(self, body: Json, as_of: int) -> bool:
        """Store a body that existed `as_of` a version. If that is later than its deletion, it was not deleted."""
        uid, version = str(body["metadata"]["uid"]), version_of(body)
        with self._lock:
            known, gone = self._bodies.get(uid), self._gone.get(uid, -1)
            if as_of <= gone or (known is not None and version_of(known) >= version):
                return False
            self._gone.pop(uid, None)
            self._bodies[uid] = body
        self._changed(body)
        return True

    def drop(self, uid: str, version: int) -> None:
        """Drop an object deleted as of a version: only something newer restores it."""
        with self._lock:
            known = self._bodies.pop(uid, None)
            self._gone[uid] = max(version, self._gone.get(uid, -1))
            while len(self._gone) > 10_000:  # noqa: PLR2004 - far more than deletions within one list interval
                self._gone.pop(next(iter(self._gone)))
        if known is not None:
            self._changed(known)

    def replace(self, seen: Seen) -> int:
        """Store a complete list and drop what it lacks; returns how many phantoms were dropped.

        Objects newer than the list (created during it) stay.
        """
        if self._was_set_back(seen):
            self._begin_anew(seen)
        listed = {str(body["metadata"]["uid"]) for body in seen.bodies}
        for body in seen.bodies:
            self._take(body, seen.version)
        with self._lock:
            phantoms = [
                uid
                for uid, body in self._bodies.items()
                if uid not in listed and _covers(seen, body) and version_of(body) <= seen.version
            ]
        for uid in phantoms:
            self.drop(uid, seen.version)
        self._listed.add((seen.kind, seen.namespace))
        return len(phantoms)

    def _was_set_back(self, seen: Seen) -> bool:
        """Whether the API server's store was restored from a backup: two lists in a row are older than the one before.

        A single one may come from a proxy. Versions then restart lower: what was known would be newer for ever.
        """
        place = seen.kind, seen.namespace
        is_older = seen.version < self._newest.get(place, 0)
        if is_older and place not in self._behind:
            self._behind.add(place)
            return False
        self._behind.discard(place)
        self._newest[place] = seen.version
        return is_older

    def _begin_anew(self, seen: Seen) -> None:
        """Replace all that the list covers, and forget all deletions.

        In one step: a reader in between would give away what the assignments of all pools hold.
        """
        with self._lock:
            covered = [uid for uid, body in self._bodies.items() if _covers(seen, body)]
            forgotten = {uid: self._bodies.pop(uid) for uid in covered}
            listed = {str(body["metadata"]["uid"]): body for body in seen.bodies}
            self._bodies |= listed
            self._gone.clear()
        for body in (forgotten | listed).values():
            self._changed(body)

    def bodies(self, kind: str) -> tuple[Json, ...]:
        """All bodies of a kind, sorted by namespace and name."""
        with self._lock:
            found = [body for body in self._bodies.values() if body["kind"] == kind]
        return tuple(sorted(found, key=lambda body: (body["metadata"]["namespace"], body["metadata"]["name"])))

    def body(self, uid: str) -> Json | None:
        """One body; None if unknown."""
        with self._lock:
            return self._bodies.get(uid)


def version_of(body: Json) -> int:
    """The resource version as a number: within one kind the API server's versions are comparable (KEP-5504)."""
    try:
        return int(body["metadata"].get("resourceVersion") or 0)
    except ValueError:
        return 0


def list_resources(reader: Reader, kind: str, namespace: str | None) -> Seen:
    """List one kind, page by page. Raises as `Reader` does."""
    bodies: list[Json] = []
    version = 0
    for page in reader.pages(resource_path(API_VERSION, PLURALS[kind], namespace), {}):
        version = int(page["metadata"]["resourceVersion"])
        bodies.extend({"apiVersion": API_VERSION, "kind": kind, **item} for item in page.get("items") or ())
    return Seen(kind, namespace, version, tuple(bodies))


def _covers(seen: Seen, body: Json) -> bool:
    return body["kind"] == seen.kind and seen.namespace in {None, body["metadata"]["namespace"]}
