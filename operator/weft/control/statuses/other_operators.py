"""Whether another operator writes the same statuses: nothing fences two of them off, so the user has to be told.

Every write of ours is answered with the object, whose managed fields say when our part was last written. If that part
is of a later time in what a watch brings, and no write of ours is in doubt, another process wrote it in our name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.times import known_instant

if TYPE_CHECKING:
    from weft.domain.snapshot import ResourceKey

Json = dict[str, Any]

REMEMBERED = 16_384  # objects
HINT = "kubectl get pods --all-namespaces -l app.kubernetes.io/name=weft-controller, and look for weft run elsewhere"


class OtherOperators:
    """When each status was last written by us, by UID of the object. Thread-safe, as each step is one."""

    def __init__(self) -> None:
        """A process knows nothing of those before it."""
        self._written: dict[str, float] = {}

    def note(self, body: Json, manager: str) -> None:
        """Remember the answer to a write of ours."""
        at = _last_written(body, manager)
        if at is not None:
            while len(self._written) >= REMEMBERED:
                self._written.pop(next(iter(self._written)), None)
            self._written[str(body["metadata"]["uid"])] = at

    def doubt(self, uid: str) -> None:
        """Forget an object: a write of ours failed, and may have been carried out all the same."""
        self._written.pop(uid, None)

    def found(self, key: ResourceKey, body: Json, manager: str) -> Explanation | None:
        """That somebody else wrote since our last write, told once for each such write; None where nobody did."""
        known, at = self._written.get(key.uid), _last_written(body, manager)
        if known is None or at is None or at <= known:
            return None
        self._written[key.uid] = at
        told = f"another Weft operator writes the status of {key}, so that both undo what the other decides: run one"
        return Explanation(Reason.StatusConflict, f"{told}; {HINT}")


def _last_written(body: Json, manager: str) -> float | None:
    """When the manager's part of the status was last written, to the second."""
    entries = body["metadata"].get("managedFields") or ()
    ours = (each for each in entries if each.get("manager") == manager and each.get("subresource") == "status")
    return next((known_instant(each.get("time")) for each in ours), None)
