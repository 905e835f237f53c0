"""Writing to the cluster: server-side apply, UID preconditions, a rate limit and events.

A write. `writer`: actions and statuses, each safe to repeat. `sending`: one request. `kinds`: what is written, and
    where. `token_bucket`: how many a second. `refusals`: errors by who can change them. `undeclared`: fields that an
    earlier CRD lacks.
What becomes of it. `outcomes`: what admission changed. `labelling`: labels that it rewrites. `rivals`: who reverts
    what. `recreations`: what somebody keeps deleting. `patience`: how seldom it is done again. `lately`: how all of
    that is remembered.
Others. `events`: news for people. `routers`: asked to forget an engine that leaves.
"""

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
