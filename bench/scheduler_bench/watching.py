"""A watch on the pods of one namespace that notes when things happened, in a thread of its own."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from bench.scheduler_bench.sightings import Sighting
from weft.observe.api_server.reading import Reader, resource_path

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiClient

Json = dict[str, Any]
WATCH_SECONDS = 3
TIMEOUT_SECONDS = (5.0, 30.0)  # to connect, to wait for the next bytes


class Lookout:
    """Sightings of pods by UID; `identify` says of a pod to which gang of which size it belongs, if to any."""

    def __init__(self, api: ApiClient, namespace: str, identify: Callable[[Json], tuple[str, int] | None]) -> None:
        self._reader, self._path = Reader(api), resource_path("v1", "pods", namespace)
        self._identify = identify
        self._pods: dict[str, Sighting] = {}
        self._lock, self._over = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lookout", daemon=True)
        self.changed = time.time()  # when a pod was last bound, ready or on its way out

    def __enter__(self) -> Self:
        self._version = self._reader.get(self._path)["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def pods(self) -> tuple[Sighting, ...]:
        """All that was seen so far."""
        with self._lock:
            return tuple(replace(each) for each in self._pods.values())

    def _watch(self) -> None:
        while not self._over.is_set():
            query = {"watch": "1", "resourceVersion": self._version, "timeoutSeconds": str(WATCH_SECONDS)}
            left = b""
            for chunk in self._reader.stream(self._path, query, TIMEOUT_SECONDS).stream():
                *lines, left = (left + chunk).split(b"\n")
                for line in lines:
                    self._note(json.loads(line), time.time())

    def _note(self, event: Json, now: float) -> None:
        pod = event["object"]
        self._version = pod["metadata"]["resourceVersion"]
        named = self._identify(pod)
        if named is None:
            return
        with self._lock:
            seen = self._pods.setdefault(pod["metadata"]["uid"], Sighting(*named))
            before = replace(seen)
            take_in(seen, event["type"], pod, now)
            if seen != before:
                self.changed = now


def take_in(seen: Sighting, kind: str, pod: Json, now: float) -> None:
    """Note what an event tells of a pod."""
    if seen.bound is None and pod["spec"].get("nodeName"):
        seen.bound = now
    conditions = pod.get("status", {}).get("conditions") or ()
    seen.is_ready = any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)
    if seen.ready is None and seen.is_ready:
        seen.ready = now
    gone = kind == "DELETED" or pod["metadata"].get("deletionTimestamp")
    if seen.leaving is None and gone:
        seen.leaving = now
