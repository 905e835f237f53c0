"""Asking routers to forget an engine that leaves, where they heed neither its label nor that it is not ready.

Routers keep no state that outlives them and tell which engines they know, so that nothing has to be remembered: an
operator that starts anew asks again. Who forgot is not asked again for a minute, as a long list of workers is read.
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
TIMEOUT = Timeout(connect=1.0, read=2.0)
LOOKS, BETWEEN_SECONDS = 5, 0.1  # routers carry out a removal after they answered
_OK, _SUCCESS = 200, range(200, 300)

log = logging.getLogger(__name__)


class RouterKeepsWorker(Unanswered):
    """A router did not say yet that it forgot an engine: its pod is not deleted before it does, for a while."""

    def __init__(self, message: str) -> None:
        """`message` names the router and the engine."""
        super().__init__(Reason.Draining, message)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Since when a router is asked about an engine, or when it had forgotten it; in the clock's seconds."""

    at: float
    forgot: bool


class Routers:
    """What routers were asked. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nobody was asked yet."""
        self._clock = clock
        self._http = PoolManager(retries=False, timeout=TIMEOUT, maxsize=1)
        self._asked: Lately[_Asked] = Lately(lambda asked: self._clock() - asked.at < ASKED_AGAIN_SECONDS)

    def forget(self, action: ForgetWorker) -> None:
        """Make each router forget the worker; raises `RouterKeepsWorker` for the first that has not, for a while."""
        found = [self._forget(action, uid, address) for uid, address in action.routers]
        kept = next((why for why in found if why is not None), None)
        if kept is not None:
            raise RouterKeepsWorker(kept)

    def _forget(self, action: ForgetWorker, uid: str, address: str) -> str | None:
        """Why a router may still choose the worker and is worth waiting for, or None."""
        key, now = f"{uid}/{action.uid}", self._clock()
        asked = self._asked.get(key)
        if asked is not None and asked.forgot and now - asked.at < ASKED_AGAIN_SECONDS:
            return None
        why = self._ask(f"http://{address}", action.worker)
        if why is None:
            self._asked.put(key, _Asked(now, forgot=True))
            return None
        since = asked.at if asked is not None and not asked.forgot else now
        self._asked.put(key, _Asked(since, forgot=False))
        message = f"router {address} keeps engine {action.worker} of pod {action.name}: {why}"
        if now - since < PATIENCE_SECONDS:
            return message
        log.warning("%s; it is left to see that the pod is deleted", message)
        return None

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
        answer = self._http.request("GET", router + WORKERS, redirect=False)
        if answer.status != _OK:
            raise ValueError(f"HTTP {answer.status}")
        return ids_at(answer.data, worker)

    def _delete(self, router: str, worker_id: str) -> None:
        status = self._http.request("DELETE", router + path_of(worker_id), redirect=False).status
        if status != NOT_FOUND and status not in _SUCCESS:
            raise ValueError(f"HTTP {status} to its removal")
