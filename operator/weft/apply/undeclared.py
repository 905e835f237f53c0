"""Status fields that the cluster's CRD lacks, as it is from an earlier release than the operator.

The API server refuses an apply with such a field as a whole, and names the fields.
"""

from __future__ import annotations

import re

from weft.apply.sending import ServerError

Path = tuple[str, ...]

_NOT_DECLARED = "field not declared in schema"
_EACH_FIELD = re.compile(rf"\.status(?P<path>(?:\.\w+)+)(?:\[\S*)?: {_NOT_DECLARED}")
# Fields that decisions depend on: with half of them, another decision would be read back.
_ACTED_UPON = frozenset(
    {
        "assignments",
        "conditions",
        "desiredReplicas",
        "engine",
        "failure",  # without it there is no back-off
        "generation",  # of the pair that serves
        "moves",  # without it each pass starts them anew
        "nextReplica",
        "observedGeneration",
        "plan",
        "revision",
    }
)


class Undeclared(ServerError):  # noqa: N818 - says what happened
    """A status cannot be written as it is, but could without the fields at `paths` (lists are left out as a whole)."""

    def __init__(self, message: str, paths: frozenset[Path]) -> None:
        """`message` is the server's own."""
        super().__init__(message)
        self.paths = paths


def as_undeclared(error: ServerError) -> ServerError:
    """The error as `Undeclared` if optional undeclared fields are its only cause, else unchanged."""
    paths = [tuple(found["path"].split(".")[1:]) for found in _EACH_FIELD.finditer(error.message)]
    may_be_left_out = len(paths) == error.message.count(_NOT_DECLARED) and all(p[0] not in _ACTED_UPON for p in paths)
    return Undeclared(error.message, frozenset(paths)) if paths and may_be_left_out else error
