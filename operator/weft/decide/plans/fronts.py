"""Which fronts go by load, so that replicas behind them carry more than each alone (ADR 0113)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.spec import RouterKind
from weft.domain.workload import Role
from weft.engines import adapter_for

if TYPE_CHECKING:
    from weft.domain.shape import Plan
    from weft.domain.spec import PoolSpec, RouterSpec
    from weft.domain.workload import Workload


def goes_by_load(router: RouterSpec | None, spec: PoolSpec, plan: Plan, workload: Workload) -> bool:
    """Whether a split's router gives each prompt to the prefill replica with the fewest.

    None can be told of a picker, of an image that is not Weft's choice, and of a prompt whose prefix a router knows: it
    goes where that is. In a pool a front counts what decodes too, which says little about who waits for its prompt. The
    ranks of a replica are not the front's to choose.
    """
    return (
        router is not None
        and router.kind is RouterKind.Managed
        and router.image is None
        and spec.role is Role.Prefill
        and workload.prefix_hit == 0.0
        and plan.shape.data_parallel == 1
        and adapter_for(plan.engine.name).picks_prefill_by_load
    )
