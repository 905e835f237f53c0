"""Clusters of several kinds of GPUs, and a pool on them whose load grows and falls."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tests.decide.world import World, pool, pool_spec
from tests.fabric.cluster import node
from tests.scaling.cases import seen
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import PlacementSpec, PoolSpec, RolloutSpec, ShapePins
from weft.domain.workload import Slo, Workload

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord
    from weft.domain.reasons import Reason

STEP = 10.0
# For the load below H100 costs less than A100 and H200, and L40S less than any of them.
KINDS = {
    "l40s": ("NVIDIA-L40S", "46068"),
    "a100": ("NVIDIA-A100-SXM4-80GB", "81920"),
    "h100": ("NVIDIA-H100-80GB-HBM3", "81559"),
    "h200": ("NVIDIA-H200", "143771"),
    "b200": ("NVIDIA-B200", "183359"),
}


def boards(kind: str, count: int) -> list[NodeRecord]:
    """Nodes of eight GPUs, named after their kind."""
    return [board_of(kind, f"{kind}-{index}") for index in range(count)]


def board_of(kind: str, name: str, gpus: int = 8) -> NodeRecord:
    """One of them; its name begins with its kind."""
    product, memory = KINDS[kind]
    return node(name, {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory}, gpus)


def open_spec(rate: float, scaling: ScalingSpec | None = None, **others: Any) -> PoolSpec:  # noqa: ANN401 - fields
    """A pool of replicas of one GPU of any kind; none of them may be away in a rollout."""
    load = Workload(rate, input_tokens=1000, output_tokens=200, input_tokens_p95=2000, output_tokens_p95=400)
    spec = pool_spec(1, scaling or ScalingSpec(max_replicas=100, headroom=0.0), rollout=RolloutSpec(max_unavailable=0))
    pins = ShapePins(tensor_parallel=1)
    spec = replace(spec, shape=pins, placement=PlacementSpec(), workload=load, slo=Slo(tpot=((95, 0.2),)))
    return replace(spec, **others)


@dataclass
class Growing:
    """A world and the requests per second that its pools get, what happened, and the least that was served."""

    world: World
    rate: dict[str, float]
    shapes: list[tuple[float, str]] = field(default_factory=list)
    told: list[Reason] = field(default_factory=list)
    step: float = STEP

    def turn(self, seconds: float, rate: float | None = None) -> float:
        """The least that could be served at any time until then, in requests per second."""
        self.rate = dict.fromkeys(self.rate, rate) if rate is not None else self.rate
        least = self.served()
        for _ in range(round(seconds / self.step)):
            self.look()
            self.world.turn(1, self.step)
            least = min(least, self.served())
            for name in self.rate:
                self.told += [event.reason for event in self.world.decision(name).events]
                self._note(name)
        return least

    def look(self) -> None:
        """What engines tell before a pass."""
        for name, rate in self.rate.items():
            if ready := self.world.serving(name):
                self.world.observations[self.world.pools[name].key.uid] = seen(rate, ready)

    def kind(self, name: str = "chat") -> str:
        plan = self.world.status(name).plan
        assert plan is not None
        return plan.shape.accelerator

    def where(self, name: str = "chat") -> Counter[str]:
        """Replicas that are ready, by kind of their nodes."""
        pods = [pod for pod in self.world.pods.values() if pod.ready and not pod.terminating and pod.node is not None]
        uid = self.world.pools[name].key.uid
        return Counter((pod.node or "").split("-")[0] for pod in pods if pod.identity and pod.identity.pool_uid == uid)

    def served(self) -> float:
        """Requests per second that all ready replicas serve, as predicted for their kinds."""
        return sum(capacities()[kind] * count for name in self.rate for kind, count in self.where(name).items())

    def _note(self, name: str) -> None:
        plan = self.world.status(name).plan
        if plan is not None and (not self.shapes or self.shapes[-1][1] != str(plan.shape)):
            self.shapes.append((self.world.now, str(plan.shape)))


def grown(nodes: list[NodeRecord], spec: PoolSpec, few: float, many: float) -> Growing:
    """A pool that has served few requests for a while, and gets many for five minutes."""
    found = Growing(World.of(nodes, pool("chat", spec)), {"chat": few})
    found.turn(200.0)
    found.turn(300.0, many)
    return found


@functools.cache
def capacities() -> dict[str, float]:
    """What one replica of each kind serves."""
    found = {}
    for kind in KINDS:
        world = World.of(boards(kind, 1), pool("chat", open_spec(1.0)))
        world.decide()
        plan = world.status("chat").plan
        assert plan is not None
        found[kind] = plan.prediction.capacity
    return found
