"""Security of pods: the Pod Security Standard `restricted`, and each relaxation by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.domain.spec import PodSpec
    from weft.render.metadata import Json

# The unprivileged user of the published vLLM images; any other image serves any non-root user too, since all that is
# written lies in volumes of the pod.
USER = 2000

IPC_LOCK = "IPCLock"
HOST_NETWORK = "HostNetwork"
RUN_AS_ROOT = "RunAsRoot"


def pod_security(relaxations: tuple[str, ...] = ()) -> Json:
    """`securityContext` of a pod."""
    root = RUN_AS_ROOT in relaxations
    user = 0 if root else USER
    return {
        "runAsNonRoot": not root,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security(relaxations: tuple[str, ...] = ()) -> Json:
    """`securityContext` of a container."""
    added = {"add": ["IPC_LOCK"]} if IPC_LOCK in relaxations else {}
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], **added},
    }


def network(pod: PodSpec) -> Json:
    """The node's network where that is asked for by name."""
    if HOST_NETWORK not in pod.relaxations:
        return {}
    return {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
