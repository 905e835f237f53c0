"""What a client wrote, and when: from the API server's audit log."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.domain.texts.times import read_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
NOT_COUNTED = frozenset({"leases", "events"})  # a heartbeat, and news that nobody waits for


@dataclass(frozen=True, slots=True)
class Write:
    """One write that was carried out. `resource` has its subresource behind a slash; times are epoch seconds."""

    verb: str
    resource: str
    manager: str
    asked: float
    answered: float


def writes(log: Path, user: str, since: int) -> tuple[tuple[Write, ...], int]:
    """Writes of a user since that byte of the log, and where it ends now."""
    with log.open("rb") as lines:
        lines.seek(since)
        content = lines.read()
    ended = content.rfind(b"\n") + 1
    return tuple(_writes(content[:ended].splitlines(), user)), since + ended


def _writes(lines: Iterable[bytes], user: str) -> Iterator[Write]:
    for line in lines:
        if user.encode() not in line:
            continue
        entry = json.loads(line)
        if entry["user"]["username"] == user and _was_carried_out(entry):
            yield _write(entry)


def _was_carried_out(entry: dict[str, Any]) -> bool:
    answered = entry["stage"] == "ResponseComplete"
    return answered and entry["verb"] in WRITES and entry["responseStatus"]["code"] < 300


def _write(entry: dict[str, Any]) -> Write:
    what: dict[str, str] = entry.get("objectRef") or {}
    resource = "/".join(filter(None, (what.get("resource", ""), what.get("subresource", ""))))
    _, _, named = entry["requestURI"].partition("fieldManager=")
    return Write(
        verb=str(entry["verb"]),
        resource=resource,
        manager=named.partition("&")[0],
        asked=read_instant(entry["requestReceivedTimestamp"]),
        answered=read_instant(entry["stageTimestamp"]),
    )


def counted(found: Iterable[Write]) -> dict[str, int]:
    """How many of which kind."""
    tally = Counter(f"{each.verb} {each.resource}" for each in found)
    return dict(sorted(tally.items()))
