"""Security of pods: the Pod Security Standard `restricted`, but for what is asked for and an administrator allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.relaxations import LOCKS_MEMORY, RUNS_AS_ROOT

if TYPE_CHECKING:
    from collections.abc import Collection

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


def container_security(relaxations: Collection[str] = ()) -> Json:
    """`securityContext` of a container. Root is user 0 with the group of the pod's volumes, and no capability more."""
    added = {"add": ["IPC_LOCK"]} if LOCKS_MEMORY in relaxations else {}
    root = {"runAsNonRoot": False, "runAsUser": 0, "runAsGroup": 0} if RUNS_AS_ROOT in relaxations else {}
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], **added},
        **root,
    }
