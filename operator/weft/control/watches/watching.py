"""kopf for our two kinds, only to watch: it writes nothing, and every event goes into the resource cache.

It runs in a thread with its own event loop, because at its end it cancels every task of its loop that is younger than
itself. Its watchers may die while the process lives (after an in-stream ERROR, or 410 as the answer to a watch): they
are counted, kopf is restarted if one is missing, which lists anew, and liveness fails if that helps for long no more.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import kopf

from weft.control.connection import kopf_connection
from weft.control.watches.absent_kinds import AbsentKinds
from weft.control.watches.endings import says_all
from weft.control.watches.watch_pacing import EndlessBackoff, PacedSessions
from weft.domain import labels
from weft.observe.custom_resources.cache import PLURALS, version_of

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from weft.observe.custom_resources.cache import ResourceCache

WATCHER_TASKS = "watcher for"  # how kopf names its tasks: private, so a test pins it
LONGEST_BACKOFF_SECONDS = 30.0
RELIST_PAUSE_SECONDS = 1.0  # before a list anew, as where each breaks off; kopf's 0.1 s are ten lists a second
PATIENCE_SECONDS = 20.0  # from a start until every watcher must be alive
# kopf would ask the system for its user, and fail in an image whose /etc/passwd lacks the UID it runs as.
IDENTITY: Any = "weft-controller"  # kopf does not export its type
PAUSE_SECONDS = 5.0  # before another try after kopf failed as a whole
ENDING_SECONDS = 10.0  # that a stopping kopf may take before it is abandoned; usually one or two
ASKING_SECONDS = 1.0  # between checks whether a round ended by itself

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Watched:
    """What the handlers need, and what they find absent."""

    client: ApiClient
    resources: ResourceCache
    namespaces: tuple[str, ...]
    absent: AbsentKinds = field(default_factory=AbsentKinds)


def settings() -> kopf.OperatorSettings:
    """Settings of kopf: timeouts in seconds, and our names for everything that it might ever write."""
    chosen = kopf.OperatorSettings()
    chosen.networking.error_backoffs = EndlessBackoff(LONGEST_BACKOFF_SECONDS)  # kopf gives a kind up when they run out
    chosen.networking.request_timeout = 30  # the default of 300 hides a server that hangs
    chosen.networking.connect_timeout = 10
    chosen.watching.server_timeout = 300  # no stream lasts for ever: one that died silently is reopened
    chosen.watching.client_timeout = 330
    chosen.watching.connect_timeout = 10
    chosen.watching.reconnect_backoff = RELIST_PAUSE_SECONDS
    chosen.execution.max_workers = 2  # our handlers are coroutines; the default depends on the node's processors
    chosen.persistence.finalizer = f"{labels.GROUP}/finalizer"
    chosen.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=labels.GROUP)
    chosen.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=labels.GROUP)
    chosen.posting.enabled = False
    chosen.peering.standalone = True  # peers would pause each other and elect nobody
    chosen.scanning.disabled = True  # neither CRDs nor namespaces need to be listed
    chosen.queueing.exit_timeout = 1.0
    chosen.process.ultimate_exiting_timeout = None  # else SIGKILL for the whole process if one round hangs
    return chosen


def register(registry: kopf.OperatorRegistry, watched: Watched, sessions: PacedSessions) -> None:
    """Register handlers that write nothing: `on.event` of our kinds, and the login."""

    async def seen(*, event: Any, **_: Any) -> None:  # noqa: ANN401 - kopf's keyword arguments
        take_event(watched.resources, event)

    async def login(**_: Any) -> kopf.AiohttpSession:  # noqa: ANN401 - kopf's keyword arguments
        return sessions.session(kopf_connection(watched.client))

    kopf.on.login(registry=registry, id="weft-login")(login)
    for plural in sorted(PLURALS.values()):
        kopf.on.event(labels.GROUP, labels.VERSION, plural, registry=registry, id=f"weft-{plural}")(seen)


def take_event(resources: ResourceCache, event: dict[str, Any]) -> None:
    """Put the object of a watch event into the cache; the event's type matters only for deletions."""
    body = _plain(event.get("object") or {})
    if "uid" not in body.get("metadata", {}):
        return
    if event.get("type") == "DELETED":
        resources.drop(body["metadata"]["uid"], version_of(body))
    else:
        resources.put(body)


@dataclass(slots=True)
class Round:
    """One run of kopf in its own thread and event loop, until it is told to end."""

    watched: Watched
    stopped: threading.Event
    over: threading.Event = field(default_factory=threading.Event)
    began: float = field(default_factory=time.monotonic)
    loop: asyncio.AbstractEventLoop | None = None

    @property
    def watchers(self) -> int:
        """How many watch tasks are alive."""
        loop = self.loop
        if loop is None or loop.is_closed():
            return 0
        return sum(task.get_name().startswith(WATCHER_TASKS) for task in asyncio.all_tasks(loop))

    def run(self) -> None:
        """Watch; returns when told to end, or when kopf failed as a whole."""
        with asyncio.Runner() as runner:
            self.loop = runner.get_loop()
            self.loop.set_exception_handler(_tell_unless_told)
            try:
                runner.run(self._watch())
            except Exception as error:  # noqa: BLE001 - whatever it was, watching goes on
                log.warning("watching our resources failed, trying again: %s", error)
                self.stopped.wait(PAUSE_SECONDS)

    async def _watch(self) -> None:
        registry, sessions = kopf.OperatorRegistry(), PacedSessions(self.watched.absent)
        register(registry, self.watched, sessions)
        namespaces = self.watched.namespaces
        if self.over.is_set():  # set while the round was being prepared
            return
        try:
            await kopf.operator(
                registry=registry,
                settings=settings(),
                identity=IDENTITY,
                clusterwide=not namespaces,
                namespaces=namespaces,
                stop_flag=self.over,
            )
            if not self.over.is_set():
                raise RuntimeError("kopf ended by itself")
        finally:
            self.over.set()  # a thread of kopf waits for it, and the end of this loop for that thread
            await sessions.close()


class KopfThread:
    """Runs kopf until told to stop, and restarts it when it ended by itself or was told to.

    A kopf that is told to end while it logs in again may wait for ever: such a round is abandoned, and the next begins.
    """

    def __init__(self, watched: Watched) -> None:
        """Nothing runs before `start`."""
        self._watched = watched
        self._stopped = threading.Event()
        self._round = Round(watched, self._stopped)
        self._thread = threading.Thread(target=self._run, name="weft-kopf", daemon=True)

    def start(self) -> None:
        """Start to watch."""
        self._thread.start()

    def stop(self, within_seconds: float) -> None:
        """Stop watching; gives up waiting after `within_seconds` (the threads are daemons)."""
        self._stopped.set()
        self._round.over.set()
        self._thread.join(within_seconds)

    def watchers(self) -> int:
        """How many watch tasks are alive: there should be one per kind and namespace."""
        return self._round.watchers

    @property
    def expected_watchers(self) -> int:
        """How many watch tasks there should be."""
        return len(PLURALS) * max(1, len(self._watched.namespaces))

    def restart_if_a_watcher_died(self, patience_seconds: float = PATIENCE_SECONDS) -> bool:
        """Restart kopf if a watcher is missing `patience_seconds` after its start; returns whether it was necessary."""
        young = time.monotonic() - self._round.began < patience_seconds
        if young or self.watchers() >= self.expected_watchers:
            return False
        if not self._watched.absent:  # which was told, and kopf watches nothing that is absent as it starts
            log.warning("a watch of our resources ended: watching anew")
        self._round.began = time.monotonic()
        self._round.over.set()
        return True

    def _run(self) -> None:
        while not self._stopped.is_set():
            current = self._round
            running = threading.Thread(target=current.run, name="weft-kopf-round", daemon=True)
            running.start()
            while running.is_alive() and not current.over.wait(ASKING_SECONDS):
                pass
            running.join(ENDING_SECONDS)
            if running.is_alive() and not self._stopped.is_set():
                log.warning("kopf does not end: watching anew beside it")
            self._round = Round(self._watched, self._stopped)


def _tell_unless_told(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log what a task left behind as asyncio does, except errors that kopf has logged already."""
    if not says_all(context.get("exception")):
        loop.default_exception_handler(context)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """A copy in plain dicts and lists that nobody else changes."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value
