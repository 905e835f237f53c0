"""What the API server was asked by Weft's service account, from its audit log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.control_plane import ControlPlane

WEFT = "system:serviceaccount:weft-system:weft-controller"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
CREATED = 201


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `resource` is `group/plural`, with the subresource after another slash; `code` an HTTP status.

    `granted` says whether the roles allow it; one that they do may still be refused by a quota or a policy.
    """

    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    granted: bool

    @property
    def is_write(self) -> bool:
        """Whether it would change something; leases are a heartbeat, not a change."""
        return self.verb in WRITES and not self.resource.endswith("/leases")


def asked(cluster: ControlPlane, user: str = WEFT) -> list[Asked]:
    """Every answered request of a user so far, in the order of the answers; a watch counts from its beginning."""
    return list(_read(cluster, user))


def writes(cluster: ControlPlane) -> list[Asked]:
    """The writes among them."""
    return [each for each in asked(cluster) if each.is_write]


def _read(cluster: ControlPlane, user: str) -> Iterator[Asked]:
    with cluster.audit_log.open() as lines:
        for line in lines:
            if user not in line or not line.endswith("\n"):
                continue
            entry = json.loads(line)
            answered = "ResponseStarted" if entry["verb"] == "watch" else "ResponseComplete"
            if entry["user"]["username"] == user and entry["stage"] == answered:
                yield _asked(entry)


def _asked(entry: dict[str, Any]) -> Asked:
    what: dict[str, str] = entry.get("objectRef") or {}
    plural = "/".join(filter(None, (what.get("resource", ""), what.get("subresource", ""))))
    return Asked(
        verb=str(entry["verb"]),
        resource=f"{what.get('apiGroup', '')}/{plural}",
        namespace=what.get("namespace", ""),
        name=what.get("name", ""),
        code=int(entry["responseStatus"]["code"]),
        granted=entry["annotations"]["authorization.k8s.io/decision"] == "allow",
    )
