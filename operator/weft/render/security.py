"""Security of pods: the Pod Security Standard `restricted`, without exception."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.render.metadata import Json

# The unprivileged user of the published vLLM images; any other image serves any non-root user too, since all that is
# written lies in volumes of the pod.
USER = 2000


def pod_security() -> Json:
    """`securityContext` of a pod."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> Json:
    """`securityContext` of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
