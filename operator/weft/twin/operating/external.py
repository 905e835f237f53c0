"""How a policy sizes pools: mode External, the views that it gets, and the counts that it writes through `/scale`."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.decide.plans.wished_shapes import pinned_to
from weft.domain.scaling_spec import ScalingMode
from weft.domain.values.changed import changed
from weft.twin.hindsight.need import too_long
from weft.twin.policies.policy import PoolView
from weft.twin.traffic.busiest import at_its_busiest
from weft.twin.traffic.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weft.domain.snapshot import PoolObservation, PoolRecord, SplitRecord
    from weft.domain.spec import PoolSpec, SplitSpec
    from weft.twin.operating.engines import Engines
    from weft.twin.operating.operation import SimulatedOperation


def hand_over(operation: SimulatedOperation) -> None:
    """Set `scaling.mode: External` on all pools and splits; each pool keeps its replica count.

    Each pool of its own keeps its shape too: policies count replicas of it, and none of them changes it.
    """
    for uid, pool in list(operation.pools.items()):
        if pool.split_uid is None and pool.spec is not None:
            count, plan = max(1, pool.status.desired_replicas), pool.status.plan
            spec = pool.spec if plan is None else pinned_to(pool.spec, plan.shape)
            operation.edit(uid, _external(spec, count))
    for split in list(operation.splits.values()):
        if split.spec is not None:
            operation.edit_split(_external_split(split, split.spec))


def views(
    operation: SimulatedOperation,
    pools: Iterable[str],
    engines: Engines,
    observations: Mapping[str, PoolObservation],
) -> Iterator[PoolView]:
    """Yield what a policy sees of the pools with these UIDs; those without a plan are left out."""
    for uid in pools:
        pool = operation.pools[uid]
        split = operation.splits.get(pool.split_uid or "")
        view = _view(pool, split, operation.ready(uid), engines)
        if view is not None:
            yield changed(view, observation=observations.get(uid))


def order_for_the_peak(operation: SimulatedOperation, pools: Iterable[str], engines: Engines, trace: Trace) -> None:
    """Write the counts with which the pools with these UIDs serve the busiest minute of a trace, headroom and all.

    They are what Weft would plan, in the shapes that stand, for that rate and for the lengths of all requests of the
    trace, were both declared; those that are too long for a replica do not count.
    """
    for uid in pools:
        pool = operation.pools[uid]
        spec, plan = pool.spec, pool.status.plan
        if spec is None or plan is None:
            continue
        answered = ~too_long(trace, (engines.modelled(pool, plan, spec),))
        if not answered.any():
            continue
        busiest = at_its_busiest(
            spec.workload, Trace(trace.arrivals[answered], trace.inputs[answered], trace.outputs[answered])
        )
        managed = _is_managed(spec, operation.splits.get(pool.split_uid or ""))
        capacity = engines.capacity_if_declared(plan, replace(spec, workload=busiest), managed=managed)
        if capacity.is_known:
            shape = plan.shape
            operation.scale(uid, spec.scaling.running(busiest.requests_per_second, capacity, shape.gpus, shape.pods))


def write(operation: SimulatedOperation, pools: Iterable[str], counts: Mapping[str, int]) -> None:
    """Write counts, by name, through `/scale` to the pools with these UIDs; pools without a count keep theirs."""
    for uid in pools:
        name = operation.pools[uid].key.name
        if name in counts:
            operation.scale(uid, counts[name])


def _view(pool: PoolRecord, split: SplitRecord | None, ready: int, engines: Engines) -> PoolView | None:
    spec, plan = pool.spec, pool.status.plan
    if spec is None or plan is None:
        return None
    shape, count = plan.shape, pool.status.desired_replicas
    return PoolView(
        name=pool.key.name,
        role=spec.role,
        count=count,
        ready=ready,
        starting=max(0, len(pool.status.assignments) - ready),
        least=spec.scaling.min_replicas,
        most=spec.scaling.affordable(shape.gpus, shape.pods),
        gpus=shape.gpus,
        capacity=engines.capacity(pool, plan, spec, managed=_is_managed(spec, split)),
        plan=plan,
        speed=engines.modelled(pool, plan, spec),
        slo=spec.slo,
        workload=spec.workload,
    )


def _is_managed(spec: PoolSpec, split: SplitRecord | None) -> bool:
    """Whether the router is of Weft's choice; both halves of a split are behind one."""
    router = spec.router if split is None or split.spec is None else split.spec.router
    return router.is_of_weft


def _external(spec: PoolSpec, count: int | None) -> PoolSpec:
    return replace(spec, scaling=replace(spec.scaling, mode=ScalingMode.External, replicas=count))


def _external_split(split: SplitRecord, spec: SplitSpec) -> SplitRecord:
    prefill, decode = _external(spec.prefill, None), _external(spec.decode, None)
    bodies = _external_body(spec.prefill_body), _external_body(spec.decode_body)
    given = replace(spec, prefill=prefill, decode=decode, prefill_body=bodies[0], decode_body=bodies[1])
    return changed(split, spec=given)


def _external_body(side: str) -> str:
    body = json.loads(side)
    body.setdefault("scaling", {})["mode"] = ScalingMode.External.value
    return json.dumps(body, sort_keys=True, separators=(",", ":"))
