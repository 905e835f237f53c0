"""Errors for what the API server refuses, by who can change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.apply.sending import (
    CONFLICT,
    FORBIDDEN,
    GONE,
    NOT_FOUND,
    SERVER_ERRORS,
    TIMED_OUT,
    TOO_MANY,
    UNAUTHORIZED,
    Unanswered,
)
from weft.domain.errors import Blocked, Invalid, Retry, WeftError
from weft.domain.reasons import Reason
from weft.render import why_taken

if TYPE_CHECKING:
    from weft.apply.sending import ApiResponse, Json


# Of these and of server errors, only those from admission come here, a missing namespace, and what a proxy answers.
_SAY_NOTHING_OF_THE_OBJECT = frozenset({UNAUTHORIZED, NOT_FOUND, TIMED_OUT, CONFLICT, GONE, TOO_MANY})


class WebhookAway(Unanswered):
    """An admission webhook did not answer: it is restarting, or nobody runs it any more."""


class PodContended(Retry):
    """Others write to a pod faster than the API server retries: a patch of it is left to do, and nothing else fails."""

    def __init__(self, message: str) -> None:
        """`message` is the server's own."""
        super().__init__(Reason.StatusConflict, message)


class NameTaken(Blocked):
    """An object of the wanted name belongs to somebody else; `kind` and `name` say which."""

    def __init__(self, found: Json, wanted: Json) -> None:
        """Both are bodies of objects of one name."""
        why = why_taken({**found, "kind": wanted["kind"]}, wanted)
        super().__init__(why.reason, why.message)
        self.kind, self.name = str(wanted["kind"]), str(wanted["metadata"]["name"])


def refused(answer: ApiResponse) -> WeftError:
    """The error for an answer outside 2xx: permissions, quota and policies are `Blocked`, a bad object is `Invalid`."""
    message = answer.message
    if answer.webhook_is_away:
        return WebhookAway(Reason.PodRefused, message)
    if answer.status == FORBIDDEN and _namespace_terminates(answer):
        return Blocked(Reason.NamespaceTerminating, "the namespace is being deleted: nothing is created in it any more")
    if answer.status == FORBIDDEN:
        return not_permitted(message) if is_rbac(message) else Blocked(Reason.PodRefused, message + _to_set(message))
    if answer.conflicts:
        return Retry(Reason.StatusConflict, message)
    if answer.status in _SAY_NOTHING_OF_THE_OBJECT or answer.status >= SERVER_ERRORS:
        return Blocked(Reason.PodRefused, message)
    return Invalid(Reason.PodRefused, message)


def _namespace_terminates(answer: ApiResponse) -> bool:
    """Whether the answer's machine-readable causes say that the namespace is terminating."""
    causes = (answer.body.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def is_rbac(message: str) -> bool:
    """Whether Weft's own RBAC permissions are the reason, by the API server's wording."""
    return " cannot " in message and " resource " in message and "User " in message


def _to_set(message: str) -> str:
    """What ends a refusal by a quota that counts something which the pod leaves open; else nothing."""
    if "failed quota" not in message or "must specify" not in message:
        return ""
    without_limits = ", and take limits.cpu out of the quota: Weft never limits CPU" if "limits.cpu" in message else ""
    return f"; set spec.engine.resources.cpu and spec.engine.resources.memory{without_limits}"


def not_permitted(message: str) -> Blocked:
    """The error for a permission that Weft lacks."""
    return Blocked(Reason.NotPermitted, message)
