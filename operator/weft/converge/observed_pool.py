"""Everything that one converge pass over a pool looks at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from weft.converge.objects import ObjectsAround
from weft.converge.replicas import replicas_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.converge.leaving import Heard
    from weft.converge.replicas import Replica
    from weft.domain.cluster import ObjectRecord, PodRecord
    from weft.domain.fabric import Fabric
    from weft.domain.snapshot import PoolRecord


@dataclass(frozen=True, slots=True)
class ObservedPool:
    """One pool with its replicas, the pods and objects around it, the fabric, the time and what engines reported."""

    pool: PoolRecord
    replicas: tuple[Replica, ...]
    pods: tuple[PodRecord, ...]
    fabric: Fabric
    around: ObjectsAround
    heard: Heard

    @classmethod
    def at(
        cls,
        pool: PoolRecord,
        fabric: Fabric,
        pods: Iterable[PodRecord],
        objects: Iterable[ObjectRecord],
        heard: Heard,
    ) -> Self:
        """What is observed of a pool; `pods` may be everyone's, and `objects` those of the namespace."""
        known = tuple(pods)
        return cls(pool, replicas_of(pool, known), known, fabric, ObjectsAround.of(pool.key, objects), heard)
