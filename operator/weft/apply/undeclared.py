"""Fields of a status that the cluster's definition of the kind does not have, as it is of an earlier release.

The API server refuses an apply with such a field whole, and says which fields these are.
"""

from __future__ import annotations

import re

from weft.apply.sending import ServerError

Path = tuple[str, ...]

_NOT_DECLARED = "field not declared in schema"
_EACH_FIELD = re.compile(rf"\.status(?P<path>(?:\.\w+)+)(?:\[\S*)?: {_NOT_DECLARED}")
# What is acted upon: half of it would be read back as another decision.
_ACTED_UPON = frozenset(
    {
        "assignments",
        "conditions",
        "desiredReplicas",
        "engine",
        "failure",  # without it nothing backs off
        "generation",  # of the pair that serves
        "moves",  # without it each pass begins them anew
        "nextReplica",
        "observedGeneration",
        "plan",
        "revision",
    }
)


class Undeclared(ServerError):  # noqa: N818 - says what happened
    """A status cannot be written as it is, and can without the fields at `paths`; of lists, without the whole list."""

    def __init__(self, message: str, paths: frozenset[Path]) -> None:
        """The message is the server's own."""
        super().__init__(message)
        self.paths = paths


def as_undeclared(error: ServerError) -> ServerError:
    """The error as `Undeclared`, where nothing but fields that may be left out is why."""
    paths = [tuple(found["path"].split(".")[1:]) for found in _EACH_FIELD.finditer(error.message)]
    may_be_left_out = len(paths) == error.message.count(_NOT_DECLARED) and all(p[0] not in _ACTED_UPON for p in paths)
    return Undeclared(error.message, frozenset(paths)) if paths and may_be_left_out else error
