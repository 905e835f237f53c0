"""One small engine with round numbers, and views of pools of it.

A decode step takes 10 ms and 0.5 ms for each sequence, prompts 10 us a token; 64 sequences of 1,100 tokens fill the KV
cache. Requests have 1,000 and 200 tokens, so that within 30 ms a token 40 sequences and 6.67 requests/s fit.
"""

from __future__ import annotations

from itertools import product

from weft.domain.capacity import Capacity
from weft.domain.hardware import Precision
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineName, EngineRelease, Limit, Percentiles, Plan, Prediction, Shape
from weft.domain.snapshot import PodObservation, PoolObservation
from weft.domain.workload import Role, Slo, Workload
from weft.twin.engine.speed import EngineSpeed
from weft.twin.engine.steps import StepTable
from weft.twin.policies.policy import PoolView

PROMPT, ANSWER, CONTEXT = 1000.0, 200.0, 1100.0
LAUNCH, EACH, A_TOKEN = 0.010, 0.0005, 1e-5
MOST_SEQUENCES = 64
CAPACITY = 6.0

STEPS = StepTable(
    {(float(batch), float(context)): LAUNCH + EACH * batch for batch, context in product((1, 64), (1, 4000))},
    {(float(tokens), float(context)): A_TOKEN * tokens for tokens, context in product((1, 8192), (1, 4000))},
)
SPEED = EngineSpeed(STEPS, max_batch=MOST_SEQUENCES, kv_tokens=int(MOST_SEQUENCES * CONTEXT))
SLO = Slo(ttft=((95, 2.0),), tpot=((95, 0.030),))
WORKLOAD = Workload(60.0, PROMPT, ANSWER, 2 * PROMPT, 2 * ANSWER)
NONE = Percentiles(0.0, 0.0, 0.0, 0.0, 0.0)
PLAN = Plan(
    Shape(EngineName.VLLM, "H200", Precision.FP8),
    Prediction(CAPACITY, NONE, NONE, MOST_SEQUENCES, SPEED.kv_tokens, 0.0, Limit.Compute),
    EngineRelease(EngineName.VLLM, "0.15.1", "vllm"),
    Explanation(Reason.ShapeChosen, "for a test"),
)


def pod(
    waiting: float | None = 0.0,
    kv: float | None = 0.5,
    running: float | None = 32.0,
    rate: float = 5.0,
    *,
    tpot: float | None = None,
    answer: float = ANSWER,
) -> PodObservation:
    """A pod that answered, with prompts of 1,000 tokens."""
    return PodObservation(
        "pod",
        1.0,
        requests_per_second=rate,
        input_tokens=PROMPT,
        output_tokens=answer,
        waiting=waiting,
        running=running,
        kv_usage=kv,
        tpot_mean=tpot,
    )


def observed(
    pods: tuple[PodObservation, ...], arriving: float | None = None, tpot: float | None = None
) -> PoolObservation:
    """What the pods together show, and requests per second at the front."""
    rates = [each.requests_per_second or 0.0 for each in pods]
    return PoolObservation(
        len(pods),
        len(pods),
        1.0,
        requests_per_second=sum(rates),
        input_tokens=PROMPT,
        output_tokens=ANSWER,
        tpot=((95, tpot),) if tpot is not None else (),
        arrivals=None if arriving is None else 10.0 * arriving,
        arrival_seconds=10.0,
        pods=pods,
    )


def view(
    *pods: PodObservation,
    count: int | None = None,
    ready: int | None = None,
    role: Role = Role.Aggregated,
    most: int = 100,
    name: str = "chat",
    arriving: float | None = None,
    tpot: float | None = None,
    blind: bool = False,
    capacity: Capacity | None = None,
) -> PoolView:
    """A pool of these pods, all of it ready unless said otherwise; nothing was measured of a blind one."""
    ready = len(pods) if ready is None else ready
    count = ready if count is None else count
    return PoolView(
        name,
        role,
        count,
        ready,
        max(0, count - ready),
        1,
        most,
        1,
        Capacity(CAPACITY) if capacity is None else capacity,
        PLAN,
        SPEED,
        SLO,
        WORKLOAD,
        None if blind else observed(pods, arriving, tpot),
    )
