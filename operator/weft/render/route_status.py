"""What Gateways say of an HTTPRoute in its status: each of its parents takes it, refuses it, or has not looked yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.render.metadata import Json


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one Gateway says: whether it `takes` the route, and else why it `refuses` it or its backend, None if not."""

    gateway: str
    takes: bool
    refuses: str | None


def verdicts(route: Json) -> Iterator[Verdict]:
    """What each parent says of the route as it is now; conditions from before its last change do not count."""
    latest = (route.get("metadata") or {}).get("generation") or 0
    for parent in (route.get("status") or {}).get("parents") or ():
        conditions = [
            each for each in parent.get("conditions") or () if each.get("observedGeneration", latest) >= latest
        ]
        refusal = _refusal(conditions)
        accepted = any(each.get("type") == "Accepted" and each.get("status") == "True" for each in conditions)
        yield Verdict(str((parent.get("parentRef") or {}).get("name")), accepted and refusal is None, refusal)


def is_taken(route: Json) -> bool:
    """Whether a Gateway sends requests by the route, whatever others say."""
    return any(each.takes for each in verdicts(route))


def _refusal(conditions: list[dict[str, Any]]) -> str | None:
    refused = (each for each in conditions if each.get("type") in {"Accepted", "ResolvedRefs"})
    return next((str(each.get("message") or "") for each in refused if each.get("status") == "False"), None)
