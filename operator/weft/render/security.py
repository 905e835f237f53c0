"""Security contexts: Pod Security `restricted` and a read-only root, except for what an administrator allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.relaxations import LOCKS_MEMORY, RUNS_AS_ROOT, WRITES_ROOT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from weft.render.metadata import Json

# The unprivileged user of the published vLLM images; other images work with any non-root user too, as everything
# that is written lies in volumes of the pod.
USER = 2000


def pod_security(groups: Sequence[int] = ()) -> Json:
    """The `securityContext` of a pod. `groups` are asked for beside its own: who may open a device, or read a claim."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        **({"supplementalGroups": list(groups)} if groups else {}),
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security(relaxations: Collection[str] = (), user: int | None = None) -> Json:
    """The `securityContext` of a container. Root is user 0 with the pod's volume group, and no more capabilities.

    `user` is the owner of the image's own files, with the group of the pod's volumes.
    """
    added = {"add": ["IPC_LOCK"]} if LOCKS_MEMORY in relaxations else {}
    own = {} if user is None else {"runAsUser": user, "runAsGroup": user}
    root = {"runAsNonRoot": False, "runAsUser": 0, "runAsGroup": 0} if RUNS_AS_ROOT in relaxations else {}
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": WRITES_ROOT not in relaxations,
        "capabilities": {"drop": ["ALL"], **added},
        **own,
        **root,
    }
