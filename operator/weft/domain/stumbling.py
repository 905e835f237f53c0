"""Whom a mistake of ours in a pass is about, so that those are left as they are while all others are decided on.

The core itself never goes on after one: a pass that stumbled may have half changed what everybody shares. It says of
whom it was, and whoever asked may ask again without them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.changed import changed
from weft.domain.errors import Bug
from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.domain.snapshot import PoolRecord, Snapshot, SplitRecord


class Stumbled(Bug):
    """No decision can be made on the pools or splits with these `uids`, for no reason that a decision knows."""

    def __init__(self, uids: Iterable[str], error: Exception) -> None:
        """The error is what the bug report is about, and its traceback the one worth logging."""
        told = f"Weft made a mistake about it, and leaves it as it is; please report: {_brief(error)}"
        super().__init__(Reason.HoldNotPlanned, told)
        self.__cause__ = error
        self.uids = frozenset(uids)
        self.explanation = Explanation(self.reason, self.message)


def stumbled(error: Exception, *whom: PoolRecord | SplitRecord) -> Stumbled:
    """The error, with whose turn it was; of a pair both halves have theirs together. To be raised from it.

    Each step of a pass catches by itself: a `try` costs nothing until it fails, and a `with` three calls for each pool
    in each pass.
    """
    return Stumbled((each.key.uid for each in whom), error)


def left_as_they_are(snapshot: Snapshot, why: Mapping[str, Explanation]) -> Snapshot:
    """The same moment, in which nobody understands the specs of some pools and splits (by UID): what runs, stays.

    Of a split both halves stay, as half a pair is decided on by nobody.
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
