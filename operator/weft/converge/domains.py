"""ComputeDomains of replicas: there before their pods, gone after the last of them, and never mended.

A claim names the ComputeDomain that it was made for by UID. One that is made anew serves no pod that has a claim
already, so that deciding ends a replica that lost its own (`ComputeDomainDeleted`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.action import DeleteObject
from weft.render import COMPUTE_DOMAIN, compute_domain_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.converge.objects import Surroundings
    from weft.converge.replicas import Replica
    from weft.domain.action import Action


def has_compute_domain(around: Surroundings, replica: int) -> bool:
    """Whether there is one, even one that is about to go: only when it is gone, its name is free."""
    return around.mine(*COMPUTE_DOMAIN, compute_domain_name(around.owner, replica)) is not None


def delete_left_over(replicas: Iterable[Replica], around: Surroundings) -> Iterator[Action]:
    """Those of the pool whose replica has neither an assignment nor a pod any more."""
    needed = {compute_domain_name(around.owner, replica.number) for replica in replicas}
    for (version, kind, name), record in sorted(around.found.items()):
        if (version, kind) == COMPUTE_DOMAIN and name not in needed and around.may_touch(record):
            yield DeleteObject(record.api_version, record.kind, record.namespace, name, record.uid)
