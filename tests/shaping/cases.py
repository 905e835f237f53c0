"""Requests as the cases need them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.catalog import load
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import (
    Balancing,
    EngineSpec,
    KVSpec,
    ModelSpec,
    PlacementSpec,
    PodSpec,
    PoolSpec,
    RolloutSpec,
    RouterSpec,
    ShapePins,
)
from weft.domain.texts.units import MIB
from weft.domain.workload import Role, Slo, Workload
from weft.shaping import ShapeRequest, Supply, choose, resolve_architecture

if TYPE_CHECKING:
    from weft.domain.hardware import Precision
    from weft.domain.reasons import Reason
    from weft.domain.shape import EngineRelease, Plan
    from weft.domain.spec import Pairs

CATALOG = load()

LLAMA_8B = "Llama-3.1-8B-Instruct"
LLAMA_70B = "Llama-3.3-70B-Instruct"
LLAMA_405B = "Llama-3.1-405B-Instruct"
DEEPSEEK = "DeepSeek-V3"
QWEN_MOE = "Qwen3-30B-A3B"

H100 = Supply("H100", 81559 * MIB, domain_gpus=8, gpus_per_node=8)
A100 = Supply("A100", 81920 * MIB, domain_gpus=8, gpus_per_node=8)
H200 = Supply("H200", 143771 * MIB, domain_gpus=8, gpus_per_node=8)
B200 = Supply("B200", 183359 * MIB, domain_gpus=8, gpus_per_node=8)
GB200 = Supply("GB200", 189471 * MIB, domain_gpus=72, gpus_per_node=4)
MI300X = Supply("MI300X", 196608 * MIB, domain_gpus=8, gpus_per_node=8)
SHARED = replace(H100, shared=True)

NO_PINS = ShapePins()
ANYWHERE = PlacementSpec()
BY_ITSELF = ScalingSpec()
ANY_ENGINE = EngineSpec()
IN_16_BITS = KVSpec()
RELAXED = Slo(ttft=((95, 2.0),), tpot=((95, 0.05),))


@dataclass(frozen=True, slots=True)
class Wish:
    """What a case varies; the rest is an ordinary pool with 1,000 tokens in and 200 out."""

    model: str = LLAMA_70B
    supplies: tuple[Supply, ...] = (H200,)
    rate: float = 5.0
    slo: Slo = RELAXED
    role: Role = Role.Aggregated
    pins: ShapePins = NO_PINS
    precision: Precision | None = None
    max_context_tokens: int | None = None
    input_tokens: float = 1000.0
    placement: PlacementSpec = ANYWHERE
    scaling: ScalingSpec = BY_ITSELF
    engine: EngineSpec = ANY_ENGINE
    kv: KVSpec = IN_16_BITS
    adapters: Pairs = ()
    balancing: Balancing = Balancing.Internal

    def request(self, incumbent: Plan | None = None, release: EngineRelease | None = None) -> ShapeRequest:
        """The request of this wish."""
        workload = Workload(self.rate, self.input_tokens, 200, 2 * self.input_tokens, 400)
        spec = PoolSpec(
            role=self.role,
            model=ModelSpec(
                self.model,
                precision=self.precision,
                max_context_tokens=self.max_context_tokens,
                adapters=self.adapters,
            ),
            engine=self.engine,
            kv=self.kv,
            workload=workload,
            slo=self.slo,
            shape=self.pins,
            placement=self.placement,
            scaling=self.scaling,
            rollout=RolloutSpec(),
            pod=PodSpec(),
            router=RouterSpec(),
            balancing=self.balancing,
        )
        architecture = resolve_architecture(spec.model, CATALOG)
        return ShapeRequest(spec, architecture, workload, self.supplies, incumbent, release)

    def plan(self, incumbent: Plan | None = None, release: EngineRelease | None = None) -> Plan:
        """What is chosen for this wish."""
        return choose(self.request(incumbent, release), CATALOG)


def reasons(plan: Plan) -> dict[str, Reason]:
    """Why each alternative lost, by the words of its shape."""
    return {str(each.shape): each.verdict.reason for each in plan.alternatives}
