"""Whether a plan can be simulated, on which nodes, and which pools answer its requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.cli.cluster.world import imagined_world
from weft.cli.ends.failure import CommandFailure
from weft.domain.reasons import Explanation, Reason
from weft.domain.spec import SchedulerName
from weft.domain.workload import Role
from weft.engines.kv.nvlink import over_nvlink
from weft.twin.serving.stream import Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.catalog import Catalog
    from weft.cli.cluster.world import World
    from weft.cli.plan.planning import PlannedResource
    from weft.domain.decision import PoolDecision

_STOCK = "--what-if spec.placement.scheduler=null"  # places pods with Weft and the stock scheduler


def refuse_what_is_not_simulated(planned: PlannedResource) -> None:
    """Raise `CommandFailure` for a plan without a shape or a place, and for features that the twin lacks.

    These are other schedulers than the stock one, and NVIDIA's driver, which forms the ComputeDomain of halves over
    NVLink.
    """
    if any(pool.spec is not None and over_nvlink(pool.spec) for pool, _ in planned.pools):
        raise CommandFailure(
            f"{planned.title}: spec.kvTransfer.transport NVLink is not simulated: use Auto, RDMA or TCP"
        )
    schedulers = {pool.spec.placement.scheduler for pool, _ in planned.pools if pool.spec is not None}
    for other in schedulers - {SchedulerName.Default}:
        instead = f"a simulation does not have: {_STOCK} says what Weft's own placing would do"
        raise CommandFailure(f"{planned.title} is placed by {other}, which {instead}")
    reasons = [why for _, decision in planned.pools if (why := _why_nothing_runs(decision)) is not None]
    if reasons:
        why = next((each for each in reasons if each.reason is not Reason.HoldNotPlanned), reasons[0])
        raise CommandFailure(f"{planned.title} cannot run here: {why.reason}: {why.message}")


def _why_nothing_runs(decision: PoolDecision) -> Explanation | None:
    """Return why a pool has no shape, or no place for one replica, by its conditions; None if it has both."""
    status = decision.status
    if status.plan is not None and status.assignments:
        return None
    wanted = "Planned" if status.plan is None else "Placed"
    told = (one.explanation for one in decision.conditions if one.kind == wanted)
    return next(told, Explanation(Reason.NoSlot, "there is no place for one replica"))


def only_what_may_be_used(world: World, planned: Sequence[PlannedResource], catalog: Catalog) -> World:
    """Reduce an imagined world to nodes of the planned accelerators, so that decisions skip thousands of others."""
    if not world.imagined:
        return world
    plans = [decision.status.plan for each in planned for _, decision in each.pools]
    named = {plan.shape.accelerator for plan in plans if plan}
    return imagined_world(catalog, frozenset(named))


def route_of(title: str, planned: PlannedResource) -> Route:
    """Return which pools answer the requests of a resource.

    Raises `CommandFailure` for one half of a pair, which answers no requests alone.
    """
    names = {pool.spec.role: pool.key.name for pool, _ in planned.pools if pool.spec is not None}
    namespace = planned.pools[0][0].key.namespace
    if len(names) > 1:
        return Route(title, names[Role.Prefill], names[Role.Decode], namespace)
    ((role, name),) = names.items()
    if role.is_half:
        raise CommandFailure(f"{title} has the role {role} and answers no request alone: simulate a PDSplit")
    return Route(title, name, namespace=namespace)
