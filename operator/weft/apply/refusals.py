"""What the API server refuses, sorted by who can change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.apply.sending import CONFLICT, FORBIDDEN, NOT_FOUND, SERVER_ERRORS, TOO_MANY, UNAUTHORIZED, Unanswered
from weft.domain.errors import Blocked, Invalid, Retry, WeftError
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from weft.apply.sending import Answer


# Of these, and of server errors, only those that admission chose come here, and that a namespace is not there.
_SAY_NOTHING_OF_THE_OBJECT = frozenset({UNAUTHORIZED, NOT_FOUND, CONFLICT, TOO_MANY})


class WebhookAway(Unanswered):
    """An admission webhook could not be asked: it starts anew, or nobody runs it any more."""


def refused(answer: Answer) -> WeftError:
    """The error for an answer outside 2xx: permissions, quota and policies block, malformed objects are the user's."""
    message = answer.message
    if answer.webhook_is_away:
        return WebhookAway(Reason.PodRefused, message)
    if answer.status == FORBIDDEN and _namespace_terminates(answer):
        return Blocked(Reason.NamespaceTerminating, "the namespace is being deleted: nothing is created in it any more")
    if answer.status == FORBIDDEN:
        return not_permitted(message) if is_rbac(message) else Blocked(Reason.PodRefused, message)
    if answer.conflicts:
        return Retry(Reason.StatusConflict, message)
    if answer.status in _SAY_NOTHING_OF_THE_OBJECT or answer.status >= SERVER_ERRORS:
        return Blocked(Reason.PodRefused, message)
    return Invalid(Reason.PodRefused, message)


def _namespace_terminates(answer: Answer) -> bool:
    """Whether the namespace is on its way out, in the machine-readable part of the answer."""
    causes = (answer.body.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def is_rbac(message: str) -> bool:
    """Whether Weft's own permissions are the reason, in the words of the API server's RBAC authorizer."""
    return " cannot " in message and " resource " in message and "User " in message


def not_permitted(message: str) -> Blocked:
    """Somebody has to give Weft a permission."""
    return Blocked(Reason.NotPermitted, message)
