"""Writing to the cluster: server-side apply, UID preconditions, a rate limit and events."""

from __future__ import annotations

from weft.apply.events import EventRecorder, Reporter
from weft.apply.recreations import DeletedAgain
from weft.apply.refusals import NameTaken, PodContended, WebhookAway
from weft.apply.routers import RouterKeepsOneWorker, RouterKeepsWorker
from weft.apply.sending import RetryLater, Sender, ServerError, Unanswered
from weft.apply.token_bucket import TokenBucket
from weft.apply.undeclared import Path, Undeclared
from weft.apply.writer import Writer

__all__ = [
    "DeletedAgain",
    "EventRecorder",
    "NameTaken",
    "Path",
    "PodContended",
    "Reporter",
    "RetryLater",
    "RouterKeepsOneWorker",
    "RouterKeepsWorker",
    "Sender",
    "ServerError",
    "TokenBucket",
    "Unanswered",
    "Undeclared",
    "WebhookAway",
    "Writer",
]
