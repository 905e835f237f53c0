"""Relaxations of engine pod restrictions: each must be requested by the user and allowed by an administrator.

A capability helps UID 0 alone: Kubernetes sets no ambient capabilities (its issue 56374), so that a program started as
another user loses what its container was given.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.errors import Invalid
from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Collection

    from weft.domain.spec import PoolSpec

LOCKS_MEMORY = "IPCLock"  # the capability IPC_LOCK
RUNS_AS_ROOT = "RunAsRoot"
WRITES_ROOT = "WritableRoot"  # the container's own file system, instead of volumes alone
CAN_BE_ALLOWED = (LOCKS_MEMORY, RUNS_AS_ROOT, WRITES_ROOT)
FLAG = "--allow-relaxation"  # of `weft run`


def permitting(spec: PoolSpec, allowed: Collection[str]) -> PoolSpec:
    """The spec with the requested relaxations that the administrator allows set as permitted."""
    permitted = tuple(each for each in spec.pod.relaxations if each in allowed)
    return spec if permitted == spec.pod.permitted else replace(spec, pod=replace(spec.pod, permitted=permitted))


def permitting_all(spec: PoolSpec) -> PoolSpec:
    """The spec with all requested relaxations permitted: for plans and simulations, where no administrator is asked."""
    return permitting(spec, spec.pod.relaxations)


def refuse_relaxations(spec: PoolSpec) -> None:
    """Raise `Invalid` for the first relaxation that is unknown, not allowed, or would have no effect."""
    why = relaxations_refused(spec)
    if why is not None:
        raise Invalid(why.reason, why.message)


def relaxations_refused(spec: PoolSpec) -> Explanation | None:
    """Why the first such relaxation is refused, or None."""
    asked, locks = spec.pod.relaxations, LOCKS_MEMORY in spec.pod.relaxations
    unknown = next((each for each in asked if each not in CAN_BE_ALLOWED), None)
    if unknown is not None:
        return Explanation(Reason.FeatureUnsupported, f"spec.pod.relaxations {unknown} is not supported yet: remove it")
    if locks and RUNS_AS_ROOT not in asked:
        return Explanation(
            Reason.SpecInvalid,
            f"spec.pod.relaxations {LOCKS_MEMORY} is lost on a user other than root, since Kubernetes sets no ambient "
            f"capabilities: add {RUNS_AS_ROOT}, or remove it and use nodes that do not limit locked memory",
        )
    if locks and not spec.engine.devices:
        return Explanation(
            Reason.SpecInvalid,
            f"spec.pod.relaxations {LOCKS_MEMORY} is for memory that a network device reads: name the device in "
            "spec.engine.resources.rdma, or remove it",
        )
    denied = next((each for each in asked if each not in spec.pod.permitted), None)
    if denied is None:
        return None
    return Explanation(
        Reason.RelaxationNotAllowed,
        f"spec.pod.relaxations {denied} is not allowed in this cluster: remove it, or have the administrator start "
        f"`weft run` with {FLAG} {denied}",
    )
