"""Kubernetes events about our resources: news for people, never a reason to fail, and limited in number."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from weft.apply.sending import ApiRequest, Json, object_path
from weft.domain import labels
from weft.domain.errors import WeftError
from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.apply.sending import Sender
    from weft.domain.snapshot import ResourceKey

REPEAT_SECONDS = 60.0  # the same event is repeated no sooner
MOST_IN_THAT_TIME = 6  # events with one reason about one object, whatever they say
NOTE_BYTES = 1024  # the API's own limit, which it calls characters; it refuses a longer one as a whole
WARNINGS = frozenset(
    {
        Reason.EngineFailed,
        Reason.EngineCoreDied,
        Reason.EngineFailedSilently,
        Reason.ImageUnavailable,
        Reason.PodRefused,
        Reason.SlotTaken,
        Reason.SchedulingTimedOut,
        Reason.StartTimedOut,
        Reason.EngineUnresponsive,
        Reason.NodeGone,
        Reason.NodeLost,
        Reason.NameTaken,
        Reason.NotPermitted,
        Reason.SpecInvalid,
        Reason.ChildReverted,
        Reason.BestEffort,
    }
)


@dataclass(frozen=True, slots=True)
class Reporter:
    """The reporter that events name: controller and instance."""

    instance: str
    controller: str = f"{labels.GROUP}/controller"


class EventRecorder:
    """Writes `events.k8s.io/v1` events: the same one at most once a minute, and few per object and reason."""

    def __init__(
        self, sender: Sender, reporter: Reporter, namespaces: Iterable[str], count: Callable[[str, str], None]
    ) -> None:
        """An empty `namespaces` serves the whole cluster; `count` gets (kind, verb) of each event written."""
        self._sender = sender
        self._reporter = reporter
        self._namespaces = frozenset(namespaces)
        self._count = count
        self._told: dict[tuple[str, Reason], dict[str, float]] = {}
        self._lock = threading.Lock()

    def record(self, key: ResourceKey, explanation: Explanation, *, warns: bool = False) -> None:
        """Record an event about one object, as a warning if its reason is in `WARNINGS` or `warns` is set.

        Blocks for one request, so call it from a thread.
        """
        if (self._namespaces and key.namespace not in self._namespaces) or not self._is_due(key.uid, explanation):
            return
        path = object_path("events.k8s.io/v1", "events", key.namespace)
        try:
            answer = self._sender.send(
                ApiRequest("POST", path, (), event_body(key, explanation, self._reporter, warns=warns))
            )
        except WeftError:
            return  # an event is worth no retry
        if answer.ok:
            self._count("Event", "create")

    def _is_due(self, uid: str, explanation: Explanation) -> bool:
        now = time.monotonic()
        with self._lock:
            self._told = {what: told for what, each in self._told.items() if (told := _recent(each, now))}
            told = self._told.setdefault((uid, explanation.reason), {})
            due = explanation.message not in told and len(told) < MOST_IN_THAT_TIME
            if due:
                told[explanation.message] = now
            return due


def _recent(told: dict[str, float], now: float) -> dict[str, float]:
    return {message: at for message, at in told.items() if now - at < REPEAT_SECONDS}


def event_body(key: ResourceKey, explanation: Explanation, reporter: Reporter, *, warns: bool) -> Json:
    """The body of one event for the API."""
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{key.name[:200]}.{uuid4().hex[:16]}", "namespace": key.namespace},
        "eventTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "type": "Warning" if warns or explanation.reason in WARNINGS else "Normal",
        "reason": explanation.reason.value,
        "action": "Converge",
        "note": explanation.message.encode(errors="replace")[:NOTE_BYTES].decode(errors="ignore"),
        "regarding": {
            "apiVersion": labels.API_VERSION,
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
            "uid": key.uid,
        },
        "reportingController": reporter.controller,
        "reportingInstance": reporter.instance[:128],
    }
