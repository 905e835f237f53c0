"""Write decisions and progress into the status of the live object, if that changes anything."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from weft.api import converge_status, pool_status, split_converge_status, split_status
from weft.apply import Undeclared
from weft.control.statuses.definitions import Definitions
from weft.control.statuses.other_operators import OtherOperators
from weft.control.statuses.status import Json, needs_write
from weft.domain.decision import PoolDecision, SplitDecision
from weft.domain.errors import Retry, WeftError
from weft.domain.labels import CONVERGE_MANAGER, DECIDE_MANAGER
from weft.domain.reasons import Reason
from weft.domain.status import PoolProgress
from weft.observe.custom_resources.cache import version_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.control.context import Context
    from weft.domain.snapshot import ResourceKey
    from weft.domain.status import SplitProgress

log = logging.getLogger(__name__)


class StatusWriter:
    """Writes one manager's part of a status, and only on the exact version that it was decided on.

    So a paused process or a stale cache is refused instead of undoing what happened meanwhile.
    """

    def __init__(self, context: Context) -> None:
        """Uses the writer and the resource cache of `context`."""
        self._context = context
        self._definitions = Definitions()
        self._others = OtherOperators()

    def write_decision(self, decision: PoolDecision | SplitDecision, version: int, now: float) -> bool:
        """Write a decision made on `version`; returns whether anything changed. Raises as `Writer.write_status`."""
        body = self._live(decision.key, version)
        if body is None:
            return False
        known = partial(self._definitions.known_part, decision.key.kind)
        return self._write(decision.key, body, lambda: decided_status(decision, body, now, known), DECIDE_MANAGER)

    def write_progress(
        self, key: ResourceKey, progress: PoolProgress | SplitProgress, version: int, now: float
    ) -> bool:
        """Write what converging saw of `version`; returns whether anything changed. Raises as `Writer.write_status`."""
        body = self._live(key, version)
        if body is None:
            return False
        live, known = body.get("status") or {}, self._definitions.known_part
        if isinstance(progress, PoolProgress):
            wanted = converge_status(progress, live, now)
        else:
            wanted = split_converge_status(progress, live, now)
        return self._write(key, body, lambda: known(key.kind, wanted), CONVERGE_MANAGER)

    def _live(self, key: ResourceKey, version: int) -> Json | None:
        """The object at the decided version, None if it is gone or being deleted; raises `Retry` if it changed."""
        body = self._context.resources.body(key.uid)
        if body is None or body["metadata"].get("deletionTimestamp"):
            return None
        if version_of(body) != version:
            raise Retry(Reason.StatusConflict, f"{key} changed while it was being looked at")
        return body

    def _write(self, key: ResourceKey, body: Json, wanted: Callable[[], Json], manager: str) -> bool:
        """Write the wanted status; fields that the CRD turns out to lack are left out in a second try."""
        other = self._others.found(key, body, manager)
        if other is not None:
            log.warning("%s", other.message)
            self._context.events.record(key, other, warns=True)
        try:
            return self._write_known(key, body, wanted(), manager)
        except Undeclared as error:
            self._definitions.note(key.kind, error.paths)
            return self._write_known(key, body, wanted(), manager)

    def _write_known(self, key: ResourceKey, body: Json, wanted: Json, manager: str) -> bool:
        if not needs_write(body, wanted, manager):
            return False
        version = str(body["metadata"]["resourceVersion"])
        try:
            answer = self._context.writer.write_status(key, wanted, manager, version)
        except WeftError:
            self._others.doubt(key.uid)
            raise
        if answer is None:
            self._context.resources.drop(key.uid, version_of(body))
            return False
        self._others.note(answer, manager)
        self._context.resources.put(answer)
        return True


def decided_status(
    decision: PoolDecision | SplitDecision, body: Json, now: float, known: Callable[[Json], Json] = dict
) -> Json:
    """The part of the status that deciding owns and the CRD knows. Live figures are updated if it is written anyway."""
    live = body.get("status") or {}
    wanted = known(_status(decision, live, now))
    if not needs_write(body, wanted, DECIDE_MANAGER):
        return wanted
    return known(_status(decision, live | {"observed": None}, now))


def _status(decision: PoolDecision | SplitDecision, live: Json, now: float) -> Json:
    if isinstance(decision, PoolDecision):
        return pool_status(decision, live, now)
    return split_status(decision, live, now)
