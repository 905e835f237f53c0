"""How long the replicas of each pool take to start: as given for its first shape, as estimated for any later one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.perf import estimated_start
from weft.shaping import resolve_architecture
from weft.twin.cluster.start_up import StartPhases

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weft.catalog import Catalog
    from weft.domain.shape import Plan, Shape
    from weft.domain.snapshot import PoolRecord
    from weft.domain.spec import PoolSpec

    Expected = Mapping[tuple[str, str], StartPhases]


class Starts:
    """The start phases of pools, each by the shape that it has when it is asked."""

    def __init__(self, usual: StartPhases, expected: Expected, catalog: Catalog) -> None:
        """`expected` are those of pools in the shape planned first, by namespace and name; `usual` those of others."""
        self._usual, self._expected, self._catalog = usual, expected, catalog
        self._first: dict[str, Shape] = {}

    def of(self, pool: PoolRecord) -> StartPhases:
        """Return the phases of a start of a pool's replica now; what is said to take its time does so in any shape."""
        given, plan = self._expected.get((pool.key.namespace, pool.key.name)), pool.status.plan
        if given is None:
            return self._usual
        if plan is None or pool.spec is None or self._first.setdefault(pool.key.uid, plan.shape) == plan.shape:
            return given
        return self._estimated(plan, pool.spec)

    def _estimated(self, plan: Plan, spec: PoolSpec) -> StartPhases:
        told = estimated_start(
            resolve_architecture(spec.model, self._catalog), plan, spec.model.source, self._catalog.starting
        )
        return StartPhases().expected(told.image, told.weights, told.engine)
