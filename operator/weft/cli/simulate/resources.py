"""Which resources of the files are simulated, with which requests: `--pool` and `--trace NAME=TRACE`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.ends.failure import CommandFailure
from weft.cli.files.resources import the_resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Json = dict[str, Any]
NO_REQUESTS = "none"
_NAME = re.compile(r"[A-Za-z0-9-]+(/[A-Za-z0-9-]+){0,2}")


@dataclass(frozen=True, slots=True)
class Named:
    """A resource as a user wrote it, with its `title` `Kind/name`; `full` has its namespace too."""

    title: str
    body: Json

    @property
    def full(self) -> str:
        """The unique name `namespace/Kind/name`."""
        return f"{self.body['metadata']['namespace']}/{self.title}"

    @property
    def names(self) -> tuple[str, str, str]:
        """The names that options may use, the shortest first."""
        return self.title.partition("/")[2], self.title, self.full


@dataclass(frozen=True, slots=True)
class TracedResource:
    """A resource with a unique title, and its trace as it was typed; None: from Prometheus."""

    title: str
    resource: Named
    trace: str | None


def chosen_resources(
    documents: list[Json], default_namespace: str, pool: str | None, traces: Sequence[str] | None
) -> list[TracedResource]:
    """Return the resources to simulate, all or the one that `pool` names, each with its trace; in their order.

    Without `traces` all requests come from Prometheus. Raises `CommandFailure` for unknown or ambiguous names, and for
    a resource without a trace.
    """
    found = [Named(*each) for each in the_resources(documents, default_namespace)]
    if pool is not None:
        found = [the_one(found, pool, f"--pool {pool!r:.80}")]
    if traces is None:
        return [TracedResource(_title(each, found), each, None) for each in found]
    given = _given(found, traces)
    lacking = next((each for each in found if each.full not in given), None)
    if lacking is not None:
        title, name = _title(lacking, found), _shortest(lacking, found)
        raise CommandFailure(f"{title} has no trace: add --trace {name}=TRACE, or {name}={NO_REQUESTS} to ask nothing")
    return [TracedResource(_title(each, found), each, given[each.full]) for each in found]


def the_one(found: Sequence[Named], name: str, option: str) -> Named:
    """Find a resource by name; raises `CommandFailure`, which begins with `option`, for none and for several."""
    matching = [each for each in found if name in each.names]
    if not matching:
        raise CommandFailure(f"{option} is not among the resources: there is {_titles(found)}")
    if len(matching) > 1:
        raise CommandFailure(f"{option} may be {' or '.join(_title(each, found) for each in matching)}: say which")
    return matching[0]


def _given(found: Sequence[Named], traces: Iterable[str]) -> dict[str, str]:
    """Return the traces by the full names of their resources."""
    given: dict[str, str] = {}
    for text in traces:
        name, trace = _parted(text, found)
        if name is not None:
            resource = the_one(found, name, f"--trace {text!r:.80}: {name}")
        elif len(found) == 1:
            (resource,) = found
        else:
            raise CommandFailure(
                f"there are {_titles(found)}: say with --pool which one the trace asks, "
                f"or give each its own with --trace {_shortest(found[0], found)}=TRACE"
            )
        if resource.full in given:
            raise CommandFailure(f"{_title(resource, found)} has two traces: give each resource one --trace")
        given[resource.full] = trace
    return given


def _parted(text: str, found: Iterable[Named]) -> tuple[str | None, str]:
    """Split `NAME=TRACE`, or return a trace alone: an existing file, or a shape, whose numbers come after a colon."""
    name, equals, trace = text.partition("=")
    known = any(name in each.names for each in found)
    if not equals or (not known and not _NAME.fullmatch(name)) or _is_a_file(text):
        return None, text
    return name, trace


def _is_a_file(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # too long, or with a NUL in it
        return False


def _title(resource: Named, found: Iterable[Named]) -> str:
    """Return `Kind/name`, with the namespace where another resource has the same."""
    return resource.full if [each.title for each in found].count(resource.title) > 1 else resource.title


def _titles(found: Sequence[Named]) -> str:
    return ", ".join(_title(each, found) for each in found)


def _shortest(resource: Named, found: Sequence[Named]) -> str:
    """Return the shortest name that only this resource has."""
    return next(name for name in resource.names if sum(name in each.names for each in found) == 1)
