"""Which pools an internal error in a pass is about, so that these are held while all others are decided on.

The core itself never continues after one, as a failed pass may have half changed shared state. It reports whose turn it
was, and the caller may ask again without those.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.errors import Bug
from weft.domain.reasons import Explanation, Reason
from weft.domain.values.changed import changed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.snapshot import PoolRecord, Snapshot, SplitRecord


class Stumbled(Bug):
    """An internal error prevents any decision on the pools or splits with these `uids`."""

    def __init__(self, uids: Iterable[str], error: Exception) -> None:
        """Keep the error as the cause: it is what to report, and its traceback the one to log."""
        told = f"Weft made a mistake about it, and leaves it as it is; please report: {_brief(error)}"
        super().__init__(Reason.HoldNotPlanned, told)
        self.__cause__ = error
        self.uids = frozenset(uids)
        self.explanation = Explanation(self.reason, self.message)


def stumbled(error: Exception, *whom: PoolRecord | SplitRecord) -> Stumbled:
    """Wrap an error with the resources whose turn it was (both halves of a pair), to be raised from it.

    Each step of a pass has its own `try`, which costs nothing until it fails, while a `with` costs three calls for each
    pool in each pass.
    """
    return Stumbled((each.key.uid for each in whom), error)


def left_as_they_are(snapshot: Snapshot, why: Mapping[str, Explanation]) -> Snapshot:
    """The snapshot in which the specs of some pools and splits (by UID) are treated as unreadable: what runs, stays.

    Both halves of a split are held together, as half a pair cannot be decided on.
    """
    splits = dict(why)
    splits |= {each.split_uid: why[each.key.uid] for each in snapshot.pools if each.split_uid and each.key.uid in why}
    told = splits | {
        each.key.uid: splits[each.split_uid] for each in snapshot.pools if each.split_uid and each.split_uid in splits
    }
    return replace(
        snapshot,
        pools=tuple(
            changed(each, spec=None, problem=told[each.key.uid]) if each.key.uid in told else each
            for each in snapshot.pools
        ),
        splits=tuple(
            replace(each, spec=None, problem=told[each.key.uid]) if each.key.uid in told else each
            for each in snapshot.splits
        ),
    )


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
