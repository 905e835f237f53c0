"""Engines of a simulated cluster's replicas, each as fast as it truly is: that may differ from the modelled speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.twin.engine.modelled import capacity_if_declared, engine_capacity, engine_speed

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.catalog import Catalog
    from weft.domain.capacity import Capacity
    from weft.domain.shape import Plan, Shape
    from weft.domain.snapshot import PoolRecord, ResourceKey
    from weft.domain.spec import PoolSpec
    from weft.twin.cluster.parts import Parts
    from weft.twin.cluster.pods import SimulatedPod
    from weft.twin.engine.speed import EngineSpeed
    from weft.twin.serving.stream import Serving

# What happened before the trace is over when its first request comes, which may be at 0.
JUST_BEFORE = -1e-6


class Engines:
    """Passes the cluster's events of pods on to the stream that each pool serves; what was before 0 was just before."""

    def __init__(
        self,
        serving: Callable[[ResourceKey], Serving | None],
        pool: Callable[[str], PoolRecord],
        catalog: Catalog,
        truth: Callable[[EngineSpeed], EngineSpeed],
        parts: Parts,
    ) -> None:
        """`serving` gives the stream of a pool, None for none; `pool` a pool by UID; `parts` are those of GPUs.

        `truth` turns the modelled speed of an engine into its true one.
        """
        self._serving, self._pool, self._catalog, self._truth = serving, pool, catalog, truth
        self._parts = parts
        self._running: dict[str, Serving] = {}  # by UID of the pod, for pools that serve a stream
        self._modelled: dict[tuple[str, Shape, int, int], EngineSpeed] = {}
        self._true: dict[EngineSpeed, EngineSpeed] = {}

    def modelled(self, pool: PoolRecord, plan: Plan, spec: PoolSpec) -> EngineSpeed:
        """Return the speed of one replica of a plan by the performance model."""
        asked = plan.prediction
        key = (pool.key.uid, plan.shape, asked.max_batch, asked.kv_tokens)
        if key not in self._modelled:
            self._modelled[key] = engine_speed(plan, spec, self._catalog, self._parts.device_bytes(plan, spec))
        return self._modelled[key]

    def capacity(self, pool: PoolRecord, plan: Plan, spec: PoolSpec, *, managed: bool) -> Capacity:
        """Return what replicas of a plan serve of the traffic it was made for; the router may be of Weft's choice."""
        return engine_capacity(plan, spec, self._catalog, pool.status.calibration, managed=managed)

    def capacity_if_declared(self, plan: Plan, spec: PoolSpec, *, managed: bool) -> Capacity:
        """Return what replicas of the same shape serve where they are planned for the traffic of this spec."""
        part_bytes = self._parts.device_bytes(plan, spec)
        return capacity_if_declared(plan, spec, self._catalog, part_bytes, managed=managed)

    def started(self, pod: SimulatedPod, now: float) -> None:
        pool = self._pool(pod.pool)
        plan, spec, serving = pool.status.plan, pool.spec, self._serving(pool.key)
        if plan is None or spec is None or serving is None:
            return
        modelled = self.modelled(pool, plan, spec)
        if modelled not in self._true:
            self._true[modelled] = self._truth(modelled)
        self._running[pod.uid] = serving
        serving.start(pod.record.name, pool.key.name, self._true[modelled], max(JUST_BEFORE, now), pod.record.start)

    def unrouted(self, pod: SimulatedPod, now: float) -> None:
        if pod.uid in self._running:
            self._running[pod.uid].unroute(pod.record.name, max(JUST_BEFORE, now))

    def ended(self, pod: SimulatedPod, now: float, *, silently: bool) -> None:
        serving = self._running.pop(pod.uid, None)
        if serving is None:
            return
        end = serving.kill if silently else serving.end
        end(pod.record.name, max(JUST_BEFORE, now))

    def load(self, pod: SimulatedPod) -> int:
        return self._running[pod.uid].load(pod.record.name) if pod.uid in self._running else 0
