"""Engines of a simulated cluster's replicas: each as fast as it truly is, which may not be what the model says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.twin.modelled import engine_speed

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.catalog import Catalog
    from weft.domain.shape import Plan, Shape
    from weft.domain.snapshot import PoolRecord, ResourceKey
    from weft.domain.spec import PoolSpec
    from weft.twin.parts import Parts
    from weft.twin.pods import SimulatedPod
    from weft.twin.serving import Serving
    from weft.twin.speed import EngineSpeed


class Engines:
    """What the cluster tells of pods, told on to what serves; before second 0 of the trace nobody asks anything."""

    def __init__(
        self,
        serving: Callable[[ResourceKey], Serving | None],
        pool: Callable[[str], PoolRecord],
        catalog: Catalog,
        truth: Callable[[EngineSpeed], EngineSpeed],
        parts: Parts,
    ) -> None:
        """`serving` is what a pool answers in, and `pool` gives one by UID; `parts` are those of GPUs.

        `truth` is how an engine really is, of which the model says so much.
        """
        self._serving, self._pool, self._catalog, self._truth = serving, pool, catalog, truth
        self._parts = parts
        self._running: dict[str, Serving] = {}  # by UID of the pod, of the pools that anybody asks
        self._modelled: dict[tuple[str, Shape, int, int], EngineSpeed] = {}
        self._true: dict[EngineSpeed, EngineSpeed] = {}

    def modelled(self, pool: PoolRecord, plan: Plan, spec: PoolSpec) -> EngineSpeed:
        """How fast one replica of a plan is by the performance model."""
        asked = plan.prediction
        key = (pool.key.uid, plan.shape, asked.max_batch, asked.kv_tokens)
        if key not in self._modelled:
            self._modelled[key] = engine_speed(plan, spec, self._catalog, self._parts.device_bytes(plan, spec))
        return self._modelled[key]

    def started(self, pod: SimulatedPod, now: float) -> None:
        pool = self._pool(pod.pool)
        plan, spec, serving = pool.status.plan, pool.spec, self._serving(pool.key)
        if plan is None or spec is None or serving is None:
            return
        modelled = self.modelled(pool, plan, spec)
        if modelled not in self._true:
            self._true[modelled] = self._truth(modelled)
        self._running[pod.uid] = serving
        serving.start(pod.record.name, pool.key.name, self._true[modelled], max(0.0, now), pod.record.start)

    def unrouted(self, pod: SimulatedPod, now: float) -> None:
        if pod.uid in self._running:
            self._running[pod.uid].unroute(pod.record.name, max(0.0, now))

    def ended(self, pod: SimulatedPod, now: float, *, silently: bool) -> None:
        serving = self._running.pop(pod.uid, None)
        if serving is None:
            return
        end = serving.kill if silently else serving.end
        end(pod.record.name, max(0.0, now))

    def load(self, pod: SimulatedPod) -> int:
        return self._running[pod.uid].load(pod.record.name) if pod.uid in self._running else 0
