"""Fronts: whether one answers, and why not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.render import ROUTER_ACCOUNT, front_name

if TYPE_CHECKING:
    from weft.converge.objects import Surroundings


def front_trouble(around: Surroundings, pair: str = "") -> Explanation | None:
    """Why the managed router of a resource, or of one pair of a split, does not answer yet, or None when it does."""
    name = front_name(around.owner, pair)
    record = around.mine("Deployment", name)
    status = record.body.get("status", {}) if record is not None else {}
    if int(status.get("readyReplicas") or 0) >= 1:
        return None
    if any(_lacks_its_account(condition) for condition in status.get("conditions") or ()):
        command = f"kubectl apply -n {around.owner.namespace} -k manifests/router"
        return Explanation(
            Reason.FrontNotAuthorized,
            f"the ServiceAccount {ROUTER_ACCOUNT} is missing; an administrator runs: {command}",
        )
    return Explanation(Reason.FrontStarting, f"no pod of Deployment {name} is ready yet")


def _lacks_its_account(condition: dict[str, object]) -> bool:
    said = str(condition.get("message") or "")
    refused = condition.get("type") == "ReplicaFailure" and condition.get("status") == "True"
    return refused and "serviceaccount" in said.lower() and ROUTER_ACCOUNT in said
