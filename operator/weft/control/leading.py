"""Leader election: of several operators one leads and writes, the others stand by.

They share a Lease with the times of client-go. The leader renews it every two seconds. Whoever has seen it unchanged
for fifteen seconds by their own clock takes it: clocks of two machines are never compared. A leader that has not
renewed it for ten seconds, counted from before it asked, writes nothing any more and ends, also if it was paused
meanwhile. What it had sent before may still arrive; every write names the version or the UID that it is meant for.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import socket
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from weft.apply.refusals import refused
from weft.apply.sending import ApiRequest, object_path
from weft.control.told_once import ToldOnce
from weft.control.wake import is_set_within
from weft.domain.errors import WeftError
from weft.observe.api_server.clock import running_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.apply import Sender
    from weft.apply.sending import ApiResponse

Json = dict[str, Any]

LEASE = "weft"
LEASE_SECONDS = 15  # without a renewal, after which others may take it
RENEW_SECONDS = 10.0  # without a renewal, after which its holder stops
RETRY_SECONDS = 2.0  # between two attempts
ANSWER_SECONDS = (2.0, 4.0)  # to connect and to read: two attempts at least within the time to renew
USUAL_NAMESPACE = "weft-system"
NAMESPACE_OF_THE_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
SEEN = "the Lease"  # the subject of what is told once

log = logging.getLogger(__name__)


class Leadership(Protocol):
    """Whether this process may write, and how it comes to that."""

    def may_write(self) -> bool:
        """Whether a write may be sent now; thread-safe."""

    def trouble(self) -> str | None:
        """What keeps this process from taking part in the election, in words, or None."""

    async def lead(self, stop: asyncio.Event) -> bool:
        """Return True once this process leads, or False if `stop` was set before."""

    async def keep(self, stop: asyncio.Event) -> None:
        """Return when `stop` is set, or when this process leads no more."""

    async def resign(self) -> None:
        """Let another one lead at once; nothing is written afterwards."""


class AlwaysLeads:
    """The only operator, as it is told; it leads from the beginning."""

    def may_write(self) -> bool:
        """Always."""
        return True

    def trouble(self) -> str | None:
        """There is none."""
        return None

    async def lead(self, stop: asyncio.Event) -> bool:
        """At once."""
        return not stop.is_set()

    async def keep(self, stop: asyncio.Event) -> None:
        """Until `stop` is set."""
        await stop.wait()

    async def resign(self) -> None:
        """Nobody else is there."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """A version of the Lease, and when this process saw it first, by its own clock."""

    version: str
    at: float


class Contender:
    """One of several operators that share a Lease."""

    def __init__(
        self,
        sender: Sender,
        namespace: str,
        date: Callable[[], float],
        clock: Callable[[], float] = running_seconds,
        identity: str = "",
    ) -> None:
        """`sender` does not ask this one. `date` is in epoch seconds, for people who read the Lease.

        `clock` counts seconds, also while process or machine are paused.
        """
        self._sender = sender
        self._namespace = namespace
        self._date = date
        self._clock = clock
        self._identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self._until = -math.inf
        self._resigned = False
        self._seen = _Seen("", -math.inf)
        self._told = ToldOnce()
        self._trouble: str | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="weft-lease")

    def may_write(self) -> bool:
        """Whether nobody else may have taken the Lease yet."""
        return not self._resigned and self._clock() < self._until

    def trouble(self) -> str | None:
        """Why the Lease could not be read or written the last time."""
        return self._trouble

    async def lead(self, stop: asyncio.Event) -> bool:
        """Try until the Lease is held."""
        while not stop.is_set():
            if await self._in_thread(self.try_to_hold):
                log.info("leading: %s holds Lease %s/%s", self._identity, self._namespace, LEASE)
                return True
            await is_set_within(stop, RETRY_SECONDS)
        return False

    async def keep(self, stop: asyncio.Event) -> None:
        """Renew the Lease; ends without `stop` once that has failed for too long or another one holds it."""
        while True:
            with contextlib.suppress(TimeoutError):  # a thread that waits for an answer is no reason to go on
                async with asyncio.timeout(RENEW_SECONDS):
                    await self._in_thread(self.try_to_hold)
            if not self.may_write() or await is_set_within(stop, RETRY_SECONDS):
                return

    async def resign(self) -> None:
        """Give the Lease back, if it is still held."""
        held, self._resigned = self.may_write(), True  # whatever a renewal says that is under way
        if held:
            await self._in_thread(self._give_back)
        self._thread.shutdown(wait=False, cancel_futures=True)

    def try_to_hold(self) -> bool:
        """Take or renew the Lease; False if another one holds it, was faster, or nobody answers."""
        asked = self._clock()
        try:
            held, self._trouble = self._hold(asked), None
        except WeftError as error:
            self._trouble = f"Lease {self._namespace}/{LEASE} cannot be read or written: {error.message}"
            self._tell(self._trouble)
            return False
        if held:
            self._until = asked + RENEW_SECONDS
        return held

    def _hold(self, now: float) -> bool:
        found = self._sender.get(self._path(LEASE))
        if found.finds_nothing:
            return self._wrote("POST", self._path(), {"metadata": {"name": LEASE}, "spec": self._spec({})})
        lease = _expected(found).body
        spec = lease.get("spec") or {}
        if not self._may_take(lease["metadata"]["resourceVersion"], spec, now):
            return False
        return self._wrote("PUT", self._path(LEASE), {**lease, "spec": self._spec(spec)})

    def _may_take(self, version: str, spec: Json, now: float) -> bool:
        holder = spec.get("holderIdentity")
        if holder == self._identity or not holder:
            return True
        if version != self._seen.version:
            self._seen = _Seen(version, now)
        self._tell(f"standing by: {holder} holds Lease {self._namespace}/{LEASE}")
        return now - self._seen.at >= (spec.get("leaseDurationSeconds") or LEASE_SECONDS)

    def _spec(self, before: Json) -> Json:
        mine, now = before.get("holderIdentity") == self._identity, self._now()
        changes = before.get("leaseTransitions") or 0
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": (before.get("acquireTime") or now) if mine else now,
            "renewTime": now,
            "leaseTransitions": changes if mine or not before else changes + 1,
        }

    def _give_back(self) -> None:
        """As client-go does it: without a holder, whoever looks next takes it."""
        with contextlib.suppress(WeftError):  # then the others wait until it expires
            lease = _expected(self._sender.get(self._path(LEASE))).body
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") == self._identity:
                free = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._now()}
                self._wrote("PUT", self._path(LEASE), {**lease, "spec": free})

    def _wrote(self, method: str, path: str, lease: Json) -> bool:
        """False if another candidate was faster."""
        whole = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease}
        answer = self._sender.send(ApiRequest(method, path, body=whole))
        return not answer.conflicts and _expected(answer).ok

    def _now(self) -> str:
        return datetime.fromtimestamp(self._date(), UTC).isoformat(timespec="microseconds")

    def _path(self, name: str = "") -> str:
        return object_path("coordination.k8s.io/v1", "leases", self._namespace, name)

    def _tell(self, sentence: str) -> None:
        if self._told.is_news(SEEN, sentence):
            log.info("%s", sentence)

    async def _in_thread(self, call: Callable[[], object]) -> object:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def lease_namespace() -> str:
    """The namespace of this pod; outside a cluster the usual one."""
    with contextlib.suppress(OSError):
        return NAMESPACE_OF_THE_POD.read_text(encoding="utf-8").strip()
    return USUAL_NAMESPACE


def _expected(answer: ApiResponse) -> ApiResponse:
    if not answer.ok:
        raise refused(answer)
    return answer
