"""Errors, classified by how to recover from them; the core never sees an HTTP code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.reasons import Reason


class WeftError(Exception):
    """Base of all our errors. `reason` is what conditions, events and `weft explain` show."""

    def __init__(self, reason: Reason, message: str) -> None:
        """Keep the reason and the message for people."""
        super().__init__(message)
        self.reason = reason
        self.message = message


class Invalid(WeftError):  # noqa: N818 - named by the recovery, not by the mechanism
    """The user must edit something; retrying changes nothing."""


class Blocked(WeftError):  # noqa: N818 - named by the recovery
    """The cluster must change first (free GPUs, a permission, a ConfigMap); a watch wakes us."""


class Retry(WeftError):  # noqa: N818 - named by the recovery
    """A transient failure: the same call may succeed after a delay."""


class Bug(WeftError):  # noqa: N818 - named by the recovery
    """An invariant of ours broke; the message is for a bug report."""
