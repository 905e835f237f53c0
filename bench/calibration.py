"""`python -m bench.calibration`: factors of prefill that simulated engines behind a front teach, and the true ones.

Engines of the twin that only prefill, `TRUTHS` times as slow as the model says, behind a front that takes turns or
picks the least loaded. Prompts come at random, at so much of what the true engines could serve. Learnt after
`WINDOWS` windows are four factors: with the wait of a lone replica, as until ADR 0112; with any wait down to that of
one queue, which is Weft's where it does not know the front; and two that do without the wait, from what vLLM counts. A
minute or two.
"""

from __future__ import annotations

import functools
import math
import sys
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bench.machine import this_machine
from bench.percentiles import replica_of
from weft.domain.calibration import CalibrationSubject
from weft.domain.hardware import Precision
from weft.domain.pool_memory import CalibrationMemory
from weft.domain.shape import Calibration, EngineName, EngineRelease
from weft.domain.snapshot import PoolObservation
from weft.domain.workload import Role, Workload
from weft.perf import Coming, at_engine
from weft.perf.lengths import lengths
from weft.perf.service import service
from weft.scaling.calibrating import calibration
from weft.twin.engine.modelled import step_table
from weft.twin.engine.request import SimulatedRequest
from weft.twin.engine.speed import EngineSpeed
from weft.twin.serving.front import FrontRule, choice
from weft.twin.serving.served import Attempt, ServedEngine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from weft.scaling.calibrating.calibration import CalibrationInput
    from weft.twin.serving.front import Choice

MODEL, TENSOR_PARALLEL = "Llama-3.3-70B-Instruct", 4
PROMPTS = Workload(1.0, 3000, 1, 7000, 1)  # tokens: means, then 95th percentiles
LOADS = (0.25, 0.5, 0.75)  # of the time in which a true engine computes
REPLICAS = (1, 2, 4, 8)
TRUTHS = (0.8, 1.0, 1.25)
WINDOWS, WINDOW_SECONDS = 40, calibration.WINDOW_SECONDS
RULES = ("lone wait", "any wait", "prefill time", "TTFT less queue time")
_MAX_BATCH, _KV_TOKENS = 256, 2_000_000  # neither is in the way
_NO_WAIT = 1000  # replicas that share a queue in which nobody waits
_LEARNER = replica_of(MODEL, "H100", Precision.BF16, TENSOR_PARALLEL)
_SUBJECT = CalibrationSubject.of(
    MODEL, EngineRelease(EngineName.VLLM, "0.33.0", "vllm/vllm-openai:v0.33.0"), _LEARNER.shape
)


@dataclass(frozen=True, slots=True)
class Case:
    """Replicas behind a front, each busy for a part of the time, and how slow they truly are."""

    busy: float
    replicas: int
    front: FrontRule
    truth: float

    @property
    def rate(self) -> float:
        """Requests a second of all replicas."""
        true = replace(_LEARNER, calibration=Calibration(self.truth, self.truth))
        return service(true, PROMPTS, Role.Prefill).at_utilisation(self.busy).rate * self.replicas


class Timed(NamedTuple):
    """Seconds of a request: when it came, TTFT, from scheduled to first token, and what vLLM calls its queue time.

    vLLM takes requests in between steps, and counts from then on: the wait for the running step is in neither.
    """

    arrived: float
    tokens: int
    ttft: float
    prefill: float
    queue: float
    waited: float


def cases() -> Iterator[Case]:
    """All of them; the front of a lone replica has no choice."""
    for busy in LOADS:
        for replicas in REPLICAS:
            for front in FrontRule if replicas > 1 else (FrontRule.LeastLoad,):
                for truth in TRUTHS:
                    yield Case(busy, replicas, front, truth)


def learnt(case: Case, windows: int = WINDOWS) -> tuple[float, ...]:
    """Factors of prefill after so many windows, by `RULES`."""
    requests = serve(case, windows * WINDOW_SECONDS)
    edges = np.searchsorted([each.arrived for each in requests], np.arange(windows + 1) * WINDOW_SECONDS)
    memories = [CalibrationMemory(_SUBJECT, Calibration()) for _ in RULES]
    for begin, end in pairwise(edges.tolist()):
        window = requests[begin:end]
        if sum(each.waited for each in window) > calibration.MOST_WAITING * case.replicas * WINDOW_SECONDS:
            continue  # a backlog, which is no measurement
        ttft, outside = _mean([each.ttft for each in window]), _LEARNER.efficiency.request_seconds
        computing = _mean([each.prefill for each in window]) + outside
        unqueued = _mean([each.ttft - each.queue for each in window])
        lone, pooled, no_wait = (partial(_expects, case, window, each) for each in (None, case.replicas, _NO_WAIT))
        shared = pooled if case.replicas > 1 else None
        rules = ((ttft, lone, None), (ttft, lone, shared), (computing, no_wait, None), (unqueued, no_wait, None))
        for place, (measured, most, least) in enumerate(rules):
            memories[place] = calibration.learnt(memories[place], _look(case, window, measured), most, least)
    return tuple(memory.factors.prefill for memory in memories)


def serve(case: Case, seconds: float, seed: int = 0, front: Choice | None = None) -> list[Timed]:
    """The requests that come in so many seconds, in their order; `front` is another than the case's."""
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(1.0 / case.rate, int(case.rate * seconds * 1.1) + 100))
    arrivals = arrivals[arrivals < seconds]
    drawn = lengths(PROMPTS.input_tokens, PROMPTS.input_tokens_p95, _LEARNER.architecture.max_context_tokens)
    tokens = np.minimum(drawn.longest, drawn.median * np.exp(drawn.deviation * random.standard_normal(len(arrivals))))
    rule, speed = front or choice(case.front), _speed(case.truth)
    served = [ServedEngine("prefill", speed, 0.0, number) for number in range(case.replicas)]
    requests = [
        SimulatedRequest(now, max(1, round(length)), 1)
        for now, length in zip(arrivals.tolist(), tokens.tolist(), strict=True)
    ]
    return [_timed(request, heard) for request, heard in through(rule, served, requests)]


def through(
    rule: Choice, served: list[ServedEngine], requests: list[SimulatedRequest]
) -> list[tuple[SimulatedRequest, float]]:
    """Send requests through a front to engines, until all have ended, each with when its engine heeded it."""
    for each in served:
        rule.add(each)
    sent: list[tuple[SimulatedRequest, float]] = []
    for request in requests:
        for each in served:
            for ended in each.engine.ended_by(request.arrived):
                del each.inside[ended]
                rule.left(each)
        chosen = rule.choose()
        if chosen is None:
            raise ValueError("a front needs replicas")
        chosen.inside[request] = Attempt(len(sent))
        rule.sent(chosen)
        chosen.engine.submit(request, request.arrived)
        sent.append((request, chosen.engine.heeds_at))
    for each in served:
        each.engine.ended_by(math.inf)
    return sent


def _timed(request: SimulatedRequest, heard: float) -> Timed:
    return Timed(
        request.arrived,
        request.input_tokens,
        request.ttft,
        request.first_token_at - request.scheduled_at,
        request.scheduled_at - heard,
        request.queue,
    )


@functools.cache
def _speed(truth: float) -> EngineSpeed:
    true = replace(_LEARNER, calibration=Calibration(truth, truth))
    budget = int(true.efficiency.batched_tokens)
    table = step_table(true, _MAX_BATCH, budget)
    return EngineSpeed(table, _MAX_BATCH, _KV_TOKENS, budget, request_seconds=true.efficiency.request_seconds)


def _look(case: Case, window: list[Timed], ttft: float) -> CalibrationInput:
    """One window as calibration sees it, with so many seconds for the mean TTFT."""
    seen = PoolObservation(
        expected=case.replicas,
        answered=case.replicas,
        age_seconds=0.0,
        requests_per_second=len(window) / WINDOW_SECONDS,
        input_tokens=_mean([float(each.tokens) for each in window]),
        output_tokens=1.0,
        ttft_mean=ttft,
    )
    ready = tuple(str(number) for number in range(case.replicas))
    return calibration.CalibrationInput(_SUBJECT, Role.Prefill, window[-1].arrived, ready, seen)


def _expects(
    case: Case, window: list[Timed], in_one_queue: int | None, factors: Calibration
) -> calibration.Means | None:
    load = calibration.load_of(_look(case, window, 0.0), PROMPTS)
    found = at_engine(
        replace(_LEARNER, calibration=Calibration(factors.prefill, factors.decode)),
        load,
        Role.Prefill,
        Coming(in_one_queue),
    )
    return None if found is None else calibration.Means(found[0].mean, found[1].mean)


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def rows(found: Mapping[Case, tuple[float, ...]]) -> Iterator[str]:
    """Lines of a Markdown table: one for each load, count and front, and in it `RULES` for each true factor."""
    yield f"| busy | replicas | front | {' | '.join(f'true {truth:g}' for truth in TRUTHS)} |"
    yield "|" + "---|" * (3 + len(TRUTHS))
    for case in found:
        if case.truth == TRUTHS[0]:
            told = (" / ".join(f"{each:.2f}" for each in found[replace(case, truth=truth)]) for truth in TRUTHS)
            front = case.front.value if case.replicas > 1 else "-"
            yield f"| {100 * case.busy:.0f} % | {case.replicas} | {front} | {' | '.join(told)} |"


def main() -> int:
    """Print the table."""
    print(f"Factors of prefill learnt, {' / '.join(RULES)} ({this_machine()}):\n")
    print("\n".join(rows({case: learnt(case) for case in cases()})))
    return 0


if __name__ == "__main__":
    sys.exit(main())
