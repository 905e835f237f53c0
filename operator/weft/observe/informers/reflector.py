"""One kind of the cluster as frozen records, kept current by the client's informer.

The informer lists, watches, compares after a gap and removes what vanished. What it lacks is added here: pages, a read
timeout, a pause between failing calls, a list every few minutes whatever the stream does, and small memory (the
informer keeps every object it saw; we strip it down to its name once it is read).
"""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kubernetes.client.exceptions import ApiException
from kubernetes.informer import ADDED, BOOKMARK, DELETED, ERROR, MODIFIED, SharedInformer

from weft.observe.api_server.clock import running_seconds
from weft.observe.api_server.reading import GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weft.observe.api_server.reading import Json, Reader

Record = TypeVar("Record")

RELIST_SECONDS = 300
WATCH_TIMEOUT_SECONDS = (5.0, 90.0)  # bookmarks come every minute: longer silence means a dead connection
CLOCKS_APART_SECONDS = 1.0  # at most, by which ours and the API server's differ in the length of a watch
STEADY_SECONDS = 10.0  # a stream that lasted this long was no failure
LONGEST_PAUSE_SECONDS = 30.0
LONGEST_DOUBLING = 7  # of a quarter of a second, which is more than the longest pause
QUICK_FAILURES_BEFORE_RELIST = 4
AT_ONCE_SECONDS = 1.0  # a watch that ends so soon after a list makes that list one in vain

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Collection:
    """What to list and watch: a path of the API server and a query (selectors), with a name for people."""

    name: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    kind: tuple[str, str] = ("", "")  # (apiVersion, kind): items of a list do not carry theirs


class ListWatch(Generic[Record]):
    """The function that an informer calls to list and to watch, only from the informer's thread."""

    def __init__(
        self,
        reader: Reader,
        collection: Collection,
        read: Callable[[Json], Record | None],
        relist_seconds: float = RELIST_SECONDS,
        watch_seconds: float = RELIST_SECONDS,
    ) -> None:
        """`read` returns None for objects that do not matter. Nothing is fetched before the first call.

        The API server is asked to end each watch after `watch_seconds`, which are more than `STEADY_SECONDS`.
        """
        self._reader = reader
        self._collection = collection
        self._read = read
        self._relist_seconds = relist_seconds
        self._watch_seconds = min(watch_seconds, relist_seconds)
        self._stopped = threading.Event()
        self._called = -STEADY_SECONDS
        self._quick = 0  # calls in a row that returned too soon
        self._in_vain = 0  # lists in a row whose watch ended at once, as where each is answered with 410
        self._opened = -AT_ONCE_SECONDS
        self.listed: float | None = None  # monotonic time of the last complete list
        self.heard = time.monotonic()  # when the API server last answered a list or opened a watch
        self.synced = False  # the informer watches only after it has processed the whole list
        self.true_until = running_seconds()  # until when the records are known to be true
        self._tells_until = math.inf  # what the last call has told everything until, once it ended without an error

    def stop(self) -> None:
        """End a pause at once."""
        self._stopped.set()

    def fail(self) -> None:
        """The last call ended with an error: nobody knows what it would have told."""
        self._tells_until = math.inf

    def list_or_watch(self, **wanted: Any) -> object:  # noqa: ANN401 - the informer's own arguments
        """List everything, or open a watch. The informer's `Watch` reads the type of the events here.

        :rtype: object
        """
        watches = bool(wanted.get("watch"))
        if watches:
            self._hear()
        else:
            self._in_vain = self._in_vain + 1 if time.monotonic() - self._opened < AT_ONCE_SECONDS else 0
        self._pause()
        if watches:
            self.synced = True
            return self._watch(str(wanted["resource_version"]))
        return self._list()

    @property
    def name(self) -> str:
        """The name of what is listed, for people."""
        return self._collection.name

    def _hear(self) -> None:
        """Note until when the call before has told everything: all of that is in the records by now.

        A list tells what is true when it begins, a watch everything until it ends when it should. One that ended sooner
        may have been cut off, and neither an event nor a bookmark says how long it was on its way.
        """
        if self._tells_until <= running_seconds():
            self.true_until = self._tells_until
        self._tells_until = math.inf

    def _list(self) -> SimpleNamespace:
        items: list[Json] = []
        began = running_seconds()
        version = "0"
        for page in self._reader.pages(self._collection.path, dict(self._collection.query)):
            items.extend(self.slim(item) for item in page.get("items") or ())
            version = str(page["metadata"]["resourceVersion"])
        self.listed = self.heard = time.monotonic()
        self._tells_until = began
        self._called = -STEADY_SECONDS  # a successful list is no failure: watch at once
        return SimpleNamespace(items=items, metadata=SimpleNamespace(resource_version=version))

    def _watch(self, version: str) -> object:
        if self._list_is_due():
            raise ApiException(status=GONE, reason=f"list of {self._collection.name} is due")
        query = {
            **dict(self._collection.query),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(int(self._watch_seconds)),
        }
        self._opened, opened = time.monotonic(), running_seconds()
        connect, silence = WATCH_TIMEOUT_SECONDS
        timeout = connect, max(connect, min(silence, 2.0 * self._watch_seconds))
        stream = self._reader.stream(self._collection.path, query, timeout)
        self.heard = time.monotonic()
        self._tells_until = opened + self._watch_seconds - CLOCKS_APART_SECONDS
        return stream

    def _list_is_due(self) -> bool:
        """Whether to answer 410, which makes the informer list: that heals whatever a stream lost."""
        if self.listed is None or self._quick >= QUICK_FAILURES_BEFORE_RELIST:
            self._quick = 0
            return True
        return time.monotonic() - self.listed >= self._relist_seconds

    def _pause(self) -> None:
        """Wait before a call that follows a failed or suspiciously short one: 0.5 s, doubled, at most 30 s.

        A list is no failure, but each that was in vain doubles the pause before the next.
        """
        if time.monotonic() - self._called >= STEADY_SECONDS:
            self._quick = 0
        else:
            self._quick += 1
            jitter = random.uniform(0.8, 1.2)  # noqa: S311 - spreads load, hides nothing
            doubled = min(self._quick + self._in_vain, LONGEST_DOUBLING)
            self._stopped.wait(min(LONGEST_PAUSE_SECONDS, 0.25 * 2**doubled) * jitter)
        self._called = time.monotonic()

    def slim(self, item: Json) -> Json:
        """The object's name and its record, all that the informer keeps.

        One that `read` raises at has none, and is marked as `unread`: no odd object may hide all others of its kind.
        """
        api_version, kind = self._collection.kind
        typed = {"apiVersion": api_version, "kind": kind, **item} if kind else item
        kept = {key: item["metadata"][key] for key in ("namespace", "name", "uid") if key in item["metadata"]}
        try:
            return {"metadata": kept, "record": self._read(typed)}
        except Exception:
            log.exception("%s of %s cannot be read: what was last known of it stays", "/".join(_key(item)), self.name)
            return {"metadata": kept, "record": None, "unread": True}


class Reflector(Generic[Record]):
    """Records of one collection, keyed by namespace and name.

    `changed` is called from the informer's thread with the old and the new record when they differ. `follow` makes the
    record that is kept from the one before and the new one, for what no object says of its own past.
    """

    def __init__(
        self,
        list_watch: ListWatch[Record],
        changed: Callable[[Record | None, Record | None], None],
        follow: Callable[[Record, Record], Record] = lambda _, new: new,
    ) -> None:
        """Nothing runs before `start`."""
        self._list_watch = list_watch
        self._changed, self._follow = changed, follow
        self._records: dict[tuple[str, str], Record] = {}
        self._uids: dict[tuple[str, str], str] = {}  # of the objects that the records are about
        self._lock = threading.Lock()
        self._current = time.monotonic()
        self._informer = SharedInformer(list_watch.list_or_watch, resync_period=RELIST_SECONDS)
        for event in (ADDED, MODIFIED):
            self._informer.add_event_handler(event, self._put)
        self._informer.add_event_handler(DELETED, self._drop)
        self._informer.add_event_handler(BOOKMARK, self._alive)
        self._informer.add_event_handler(ERROR, self._failed)

    def start(self) -> None:
        """List and watch in a thread of its own."""
        self._informer.start()

    def stop(self) -> None:
        """Close the stream; returns when the thread has ended, at the latest after the read timeout."""
        self._list_watch.stop()
        self._informer.stop()

    @property
    def synced(self) -> bool:
        """Whether one complete list was read and is in `records`."""
        return self._list_watch.synced

    @property
    def age_seconds(self) -> float:
        """Seconds since the API server last said anything about this kind, bookmarks and lists included."""
        return time.monotonic() - max(self._current, self._list_watch.heard)

    @property
    def blind_seconds(self) -> float:
        """Seconds that have passed since the records were last known to be true. Ask before `records`."""
        return running_seconds() - self._list_watch.true_until

    def records(self) -> tuple[Record, ...]:
        """All records, sorted by namespace and name."""
        with self._lock:
            return tuple(self._records[key] for key in sorted(self._records))

    def _put(self, body: Json) -> None:
        if "record" not in body:
            slim = self._list_watch.slim(body)
            body.clear()  # the same object that the informer keeps
            body.update(slim)
        key, uid = _key(body), body["metadata"].get("uid", "")
        if not ("unread" in body and self._uids.get(key) == uid):
            self._replace(key, body["record"], uid)
        self._alive(body)

    def _drop(self, body: Json) -> None:
        self._replace(_key(body), None, "")
        self._alive(body)

    def _replace(self, key: tuple[str, str], record: Record | None, uid: str) -> None:
        with self._lock:
            old = self._records.pop(key, None)
            self._uids.pop(key, None)
            if record is not None and old is not None:
                record = self._follow(old, record)
            if record is not None:
                self._records[key], self._uids[key] = record, uid
        if old != record:
            self._changed(old, record)

    def _alive(self, _: object) -> None:
        self._current = time.monotonic()

    def _failed(self, error: object) -> None:
        self._list_watch.fail()
        log.info("watch of %s: %s", self._list_watch.name, getattr(error, "reason", None) or type(error).__name__)


def _key(body: Mapping[str, Any]) -> tuple[str, str]:
    meta = body["metadata"]
    return meta.get("namespace") or "", meta["name"]
