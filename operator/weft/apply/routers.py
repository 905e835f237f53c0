"""Asking routers to forget an engine that leaves, where they heed neither its label nor that it is not ready.

Routers tell which engines they know, so that nothing has to outlive a process: an operator that starts anew asks again.
Who forgot is not asked again for a minute, as a long list of workers is read. A router that does not answer is waited
for once, and not for each replica that leaves.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from urllib3 import PoolManager, Timeout
from urllib3.exceptions import HTTPError

from weft.apply.lately import Lately
from weft.apply.sending import NOT_FOUND, Unanswered
from weft.domain.reasons import Reason
from weft.engines.routers.sglang_router import WORKERS, ids_at, path_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.action import ForgetWorker

# For how long a router is waited for that does not answer or keeps an engine: after that the deletion of the pod tells
# it, as long as that is Ready. A router that answers nobody serves no requests, either.
PATIENCE_SECONDS = 10.0
ASKED_AGAIN_SECONDS = 60.0  # a router that started anew knows the engine again
RESTS_SECONDS = 10.0  # until a router that was waited for in vain is asked again
ANSWER_SECONDS, CONNECT_SECONDS = 2.0, 1.0
LARGEST_ANSWER_BYTES = 8 * 1024 * 1024  # a worker takes about 300 bytes
LOOKS, BETWEEN_SECONDS = 5, 0.1  # routers carry out a removal after they answered
_OK, _SUCCESS, _PIECE_BYTES = 200, range(200, 300), 64 * 1024

log = logging.getLogger(__name__)


class RouterKeepsWorker(Unanswered):
    """A router did not say yet that it forgot an engine: its pod is not deleted before it does, for a while."""

    def __init__(self, message: str) -> None:
        """`message` names the router and the engine."""
        super().__init__(Reason.Draining, message)


@dataclass(frozen=True, slots=True)
class _Silence:
    """Since when a router has not done as asked, and when it was asked last; in the clock's seconds."""

    since: float
    last: float


class Routers:
    """What routers were asked. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nobody was asked yet."""
        self._clock = clock
        self._http = PoolManager(retries=False, timeout=Timeout(connect=CONNECT_SECONDS, read=ANSWER_SECONDS))
        self._forgot: Lately[float] = Lately(self._is_recent)  # when, by router and pod
        self._silent: Lately[_Silence] = Lately(lambda silence: self._is_recent(silence.last))  # by router

    def forget(self, action: ForgetWorker) -> None:
        """Make each router forget the worker; raises `RouterKeepsWorker` for the first that has not, for a while."""
        found = [self._forget(action, uid, address) for uid, address in action.routers]
        kept = next((why for why in found if why is not None), None)
        if kept is not None:
            raise RouterKeepsWorker(kept)

    def _forget(self, action: ForgetWorker, uid: str, address: str) -> str | None:
        """Why a router may still choose the worker and is worth waiting for, or None."""
        key, now = f"{uid}/{action.uid}", self._clock()
        forgot, silence = self._forgot.get(key), self._silent.get(uid)
        if (forgot is not None and self._is_recent(forgot)) or (silence is not None and _rests(silence, now)):
            return None
        why = self._ask(f"http://{address}", action.worker)
        if why is None:
            self._silent.drop(uid)
            self._forgot.put(key, now)
            return None
        known = silence if silence is not None and self._is_recent(silence.last) else _Silence(now, now)
        silence = replace(known, last=now)
        self._silent.put(uid, silence)
        message = f"router {address} keeps engine {action.worker} of pod {action.name}: {why}"
        if not _is_given_up(silence, now):
            return message
        if not _is_given_up(known, known.last):  # once: it is asked again for as long as engines take to end
            log.warning("%s; it is left to see that pods are deleted", message)
        return None

    def _is_recent(self, at: float) -> bool:
        return self._clock() - at < ASKED_AGAIN_SECONDS

    def _ask(self, router: str, worker: str) -> str | None:
        """Delete the worker where the router has it; why it may still have it, or None once it has not."""
        try:
            for look in range(LOOKS):
                ids = self._ids(router, worker)
                if not ids:
                    return None
                if look == 0:
                    for each in ids:
                        self._delete(router, each)
                else:
                    time.sleep(BETWEEN_SECONDS)
        except (HTTPError, ValueError) as error:
            return f"{type(error).__name__}: {error}"[:200]
        return "it is still in its list"

    def _ids(self, router: str, worker: str) -> tuple[str, ...]:
        status, content = self._request("GET", router + WORKERS)
        if status != _OK:
            raise ValueError(f"HTTP {status}")
        return ids_at(content, worker)

    def _delete(self, router: str, worker_id: str) -> None:
        status, _ = self._request("DELETE", router + path_of(worker_id))
        if status != NOT_FOUND and status not in _SUCCESS:
            raise ValueError(f"HTTP {status} to its removal")

    def _request(self, method: str, url: str) -> tuple[int, bytes]:
        """Status and body; `ValueError` for a body that is too long, or still comes after `ANSWER_SECONDS`."""
        answer = self._http.request(method, url, redirect=False, preload_content=False)
        try:
            content, until = bytearray(), time.monotonic() + ANSWER_SECONDS
            while piece := answer.read1(_PIECE_BYTES):
                content += piece
                if len(content) > LARGEST_ANSWER_BYTES or time.monotonic() > until:
                    raise ValueError("its answer does not end")
            return answer.status, bytes(content)
        finally:
            answer.close()


def _is_given_up(silence: _Silence, now: float) -> bool:
    return now - silence.since >= PATIENCE_SECONDS


def _rests(silence: _Silence, now: float) -> bool:
    """Whether a router was waited for in vain just now, so that others that leave need not wait for it."""
    return _is_given_up(silence, silence.last) and now - silence.last < RESTS_SECONDS
