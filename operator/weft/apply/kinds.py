"""The kinds that Weft writes, and their names in paths."""

from __future__ import annotations

from weft.domain import labels
from weft.domain.errors import Bug
from weft.domain.reasons import Reason

PLURALS = {
    ("v1", "Pod"): "pods",
    ("v1", "Service"): "services",
    ("apps/v1", "Deployment"): "deployments",
    ("policy/v1", "PodDisruptionBudget"): "poddisruptionbudgets",
    ("resource.nvidia.com/v1beta1", "ComputeDomain"): "computedomains",
    ("inference.networking.k8s.io/v1", "InferencePool"): "inferencepools",
    ("gateway.networking.k8s.io/v1", "HTTPRoute"): "httproutes",
    (labels.API_VERSION, "InferencePool"): "inferencepools",
    (labels.API_VERSION, "PDSplit"): "pdsplits",
}


def plural_of(api_version: str, kind: str) -> str:
    """The name of a kind in paths; raises `Bug` for a kind that Weft does not write."""
    plural = PLURALS.get((api_version, kind))
    if plural is None:
        raise Bug(Reason.NotPermitted, f"{api_version} {kind} is no kind that Weft writes")
    return plural
