"""Why the front of a resource, a managed router or a Gateway's route, does not answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.render import ENDPOINTS, ROUTE, ROUTER_ACCOUNT, chooses_replicas, front_image, front_name, verdicts

if TYPE_CHECKING:
    from weft.converge.objects import ObjectsAround


def front_trouble(around: ObjectsAround, pair: str = "") -> Explanation | None:
    """Why the managed router of a resource, or of one pair of a split, does not answer yet, or None when it does."""
    name = front_name(around.owner, pair)
    record = around.mine("apps/v1", "Deployment", name)
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


def service_trouble(around: ObjectsAround) -> Explanation | None:
    """Why nobody finds a resource by its name: its Service is missing, as it is refused, or deleted by somebody."""
    name = around.owner.name
    if around.mine("v1", "Service", name) is not None:
        return None
    return Explanation(Reason.ServiceMissing, f"Service {name} is not there")


def before_routers(around: ObjectsAround, trouble: Explanation | None) -> Explanation | None:
    """Why the Service of a pool that is to have routers stays with the replicas, or None where it does not.

    A pool that served without routers, and gets some by an edit, goes on so until one of them answers: their image may
    have to be pulled first, and may not exist.
    """
    if trouble is None or not leads_to_replicas(around):
        return None
    return Explanation(trouble.reason, f"{trouble.message}: until then Service {around.owner.name} leads to replicas")


def leads_to_replicas(around: ObjectsAround) -> bool:
    """Whether the Service of a pool, as it is, chooses replicas and no routers."""
    service = around.mine("v1", "Service", around.owner.name)
    return service is not None and chooses_replicas(service.body, around.owner)


def image_of_front(around: ObjectsAround, of: str) -> str:
    """The image that the front of an earlier pair or engine runs and keeps: `router.image` is for the current one."""
    record = around.mine("apps/v1", "Deployment", front_name(around.owner, of))
    return front_image(record.body) if record is not None else ""


def route_trouble(around: ObjectsAround) -> Explanation | None:
    """Why no Gateway sends requests by the HTTPRoute of a resource, or None once one does, whatever others say."""
    if around.mine(*ENDPOINTS, around.owner.name) is None:
        return Explanation(
            Reason.FrontStarting, f"InferencePool {around.owner.name} of {ENDPOINTS[0]} is not there yet"
        )
    record = around.mine(*ROUTE, around.owner.name)
    said = tuple(verdicts(record.body)) if record is not None else ()
    refusing = next((each for each in said if each.refuses is not None), None)
    if any(each.takes for each in said):
        return None
    if refusing is not None:
        message = f"Gateway {refusing.gateway} does not take HTTPRoute {around.owner.name}: {refusing.refuses}"
        return Explanation(Reason.RouteRefused, message.rstrip(": "))
    return Explanation(Reason.FrontStarting, f"no Gateway has accepted HTTPRoute {around.owner.name} yet")


def _lacks_its_account(condition: dict[str, object]) -> bool:
    said = str(condition.get("message") or "")
    refused = condition.get("type") == "ReplicaFailure" and condition.get("status") == "True"
    return refused and "serviceaccount" in said.lower() and ROUTER_ACCOUNT in said
