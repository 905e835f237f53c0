"""Asking routers to forget an engine that leaves, where they heed neither its label nor that it is not ready.

Routers tell which engines they know, so that nothing has to outlive a process: an operator that starts anew asks again.
Who forgot is not asked again for a minute, as a long list of workers is read. A router that does not answer is waited
for once, and not for each replica that leaves. One that answers and keeps a single engine is waited for with that one.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
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
MESSAGE_CHARACTERS = 300
LARGEST_ANSWER_BYTES = 8 * 1024 * 1024  # a worker takes about 300 bytes
LOOKS, BETWEEN_SECONDS = 5, 0.1  # routers carry out a removal after they answered
_OK, _SUCCESS, _PIECE_BYTES = 200, range(200, 300), 64 * 1024

log = logging.getLogger(__name__)


class RouterKeepsWorker(Unanswered):
    """A router did not say yet that it forgot an engine: its pod is not deleted before it does, for a while."""

    def __init__(self, message: str) -> None:
        """`message` names the router and the engine."""
        super().__init__(Reason.Draining, message)


class RouterKeepsOneWorker(RouterKeepsWorker):
    """The router answers, and keeps no engine but this, as far as is known: it may forget others."""


class _StillListed(Exception):  # noqa: N818 - says what happened
    """The router took the removal of a worker, and lists it still."""


@dataclass(frozen=True, slots=True)
class _Silence:
    """Since when a router has not done as asked, and when it was asked last; in the clock's seconds.

    `pod` is the UID of the only one whose worker it keeps; None: it does nothing, or keeps several.
    """

    since: float
    last: float
    pod: str | None = None

    def is_about(self, pod: str) -> bool:
        """Whether nothing else is to be expected for the worker of a pod."""
        return self.pod in {None, pod}

    def is_given_up(self, now: float) -> bool:
        """Whether it was waited for long enough."""
        return now - self.since >= PATIENCE_SECONDS

    def rests(self, now: float) -> bool:
        """Whether it was waited for in vain just now, so that others that leave need not wait for it."""
        return self.is_given_up(self.last) and now - self.last < RESTS_SECONDS

    def again(self, now: float, pod: str | None) -> _Silence:
        """The same silence after one question more: two workers that are kept are no matter of one."""
        return _Silence(self.since, now, pod if pod == self.pod else None)


class Routers:
    """What routers were asked. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nobody was asked yet."""
        self._clock = clock
        self._http = PoolManager(retries=False, timeout=Timeout(connect=CONNECT_SECONDS, read=ANSWER_SECONDS))
        self._forgot: Lately[float] = Lately(self._is_recent)  # when, by router and pod
        self._silent: Lately[_Silence] = Lately(lambda silence: self._is_recent(silence.last))  # by router

    def forget(self, action: ForgetWorker) -> None:
        """Make each router forget the worker; raises `RouterKeepsWorker` for one that has not, for a while.

        It is `RouterKeepsOneWorker` if that holds for each that has not.
        """
        found = [self._forget(action, uid, address) for uid, address in action.routers]
        kept = sorted((why for why in found if why is not None), key=lambda why: isinstance(why, RouterKeepsOneWorker))
        if kept:
            raise kept[0]

    def _forget(self, action: ForgetWorker, uid: str, address: str) -> RouterKeepsWorker | None:
        """Why a router may still choose the worker and is worth waiting for, or None."""
        key, now, known = f"{uid}/{action.uid}", self._clock(), self._known_silence(uid)
        forgot, of_this = self._forgot.get(key), known is not None and known.is_about(action.uid)
        if (forgot is not None and self._is_recent(forgot)) or (known is not None and of_this and known.rests(now)):
            return None
        try:
            self._ask(f"http://{address}", action.worker)
        except (HTTPError, ValueError, _StillListed) as error:
            silence = (known or _Silence(now, now, action.uid)).again(now, action.uid if _keeps_one(error) else None)
            self._silent.put(uid, silence)
            problem = _problem(f"router {address} keeps engine {action.worker} of pod {action.name}", error, silence)
            if not silence.is_given_up(now):
                return problem
            if known is None or not known.is_given_up(known.last):  # once, as engines take long to end
                log.warning("%s; it is left to see that pods are deleted", problem)
            return None
        if of_this:
            self._silent.drop(uid)
        self._forgot.put(key, now)
        return None

    def _is_recent(self, at: float) -> bool:
        return self._clock() - at < ASKED_AGAIN_SECONDS

    def _known_silence(self, uid: str) -> _Silence | None:
        known = self._silent.get(uid)
        return known if known is not None and self._is_recent(known.last) else None

    def _ask(self, router: str, worker: str) -> None:
        """Delete the worker where the router has it; raises unless it has it no more."""
        for look in range(LOOKS):
            ids = self._ids(router, worker)
            if not ids:
                return
            if look == 0:
                for each in ids:
                    self._delete(router, each)
            else:
                time.sleep(BETWEEN_SECONDS)
        raise _StillListed

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


def _keeps_one(error: Exception) -> bool:
    """Whether a router answers as it should, but for one worker."""
    return isinstance(error, _StillListed)


def _problem(what: str, error: Exception, silence: _Silence) -> RouterKeepsWorker:
    if not _keeps_one(error):
        return RouterKeepsWorker(f"{what}: {type(error).__name__}: {error}"[:MESSAGE_CHARACTERS])
    message = f"{what}: it is still in its list"
    return RouterKeepsWorker(message) if silence.pod is None else RouterKeepsOneWorker(message)
