"""The oracle: what full knowledge of the trace would pay for it, and a policy that pays about that."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.cli.simulate.report import Figures
from weft.twin.cluster.parts import Parts
from weft.twin.engine.modelled import engine_speed
from weft.twin.hindsight.need import answerable, demand, most_tokens, replicas_needed, split_needed, too_long
from weft.twin.hindsight.oracle import PoolNeed, Terms, bound_hours, oracle_hours, work_hours
from weft.twin.hindsight.search import Run, cheapest_run
from weft.twin.policies import ScheduledChange, ScheduleOptions
from weft.twin.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.cli.simulate.setting import SimulationCase
    from weft.domain.shape import Plan
    from weft.domain.spec import PoolSpec
    from weft.domain.workload import Slo
    from weft.twin.engine.speed import EngineSpeed
    from weft.twin.hindsight.oracle import Column, OracleHours, Steps
    from weft.twin.outcome import SimulationOutcome
    from weft.twin.traffic.trace import Trace

    Progress = Callable[[float], None]

ORACLE = "oracle"
_BIN_SECONDS, _FEWEST_BINS = 60.0, 10
_WAITS_IN_A_BIN = 10.0  # least length of a bin in TTFT targets: in shorter ones too much of the work can wait
_MOMENT_SECONDS = 1e-6
_SLIGHTLY = 1.0 + 1e-9  # stretches the bins, so that the last request falls into the last one
_USUAL_ATTAINMENT = 0.99  # used where no target is declared


def oracle_gpu_hours(case: SimulationCase) -> float | None:
    """Return GPU-hours after the warm-up below which no counts serve enough requests within the SLO.

    Nothing is lost there to queues or to steps that are not full, so no policy reaches it. None where all requests come
    at one moment.
    """
    trace = case.trace.part(case.setting.warm_up, math.inf)
    if trace.seconds <= _MOMENT_SECONDS:
        return None
    usual = _usual_bins(trace.seconds)
    bins = min(usual, int(trace.seconds / (_WAITS_IN_A_BIN * case.slo.ttft[-1][1]))) if case.slo.ttft else 0
    bound = bound_hours if bins >= _FEWEST_BINS else work_hours
    bin_seconds = trace.seconds * _SLIGHTLY / (bins if bins >= _FEWEST_BINS else usual)
    return bound(*_hindsight(case, trace, bin_seconds, _attainment(case.slo), interrupted=False)) / _SLIGHTLY


def oracle_outcome(case: SimulationCase, progress: Progress, attainment: float | None = None) -> SimulationOutcome:
    """Simulate counts chosen in hindsight: the cheapest of those tried that meet the SLO, if any does.

    The fraction `attainment` of requests has to meet it; where it is None, that of the declared percentile, and every
    percentile has to hold.
    """
    wanted = _attainment(case.slo) if attainment is None else attainment
    seconds = max(case.trace.seconds, 1.0) * _SLIGHTLY / _usual_bins(case.trace.seconds)
    pools, requests, terms = _hindsight(case, case.trace, seconds, wanted, interrupted=True)

    def planned(slack: float, late: float) -> OracleHours:
        starts = (1.0 + late) * terms.start_up_seconds
        return oracle_hours(pools, requests, replace(terms, start_up_seconds=starts), slack)

    def simulated(steps: Steps) -> Run[SimulationOutcome]:
        outcome = _simulated(case, steps, progress)
        enough = not outcome.attainment < wanted and (attainment is not None or Figures.of(outcome).meets)
        return Run(outcome, outcome.gpu_hours, outcome.attainment, enough)

    return cheapest_run(planned, simulated).outcome


def no_dearer(outcomes: tuple[SimulationOutcome, ...]) -> tuple[SimulationOutcome, ...]:
    """Give the oracle the cheapest run of all that meet the SLO: full knowledge can do as any policy does."""
    meeting = [outcome for outcome in outcomes if Figures.of(outcome).meets]
    best = min(meeting, key=lambda each: (each.gpu_hours, each.policy != ORACLE), default=None)
    if best is None:
        return outcomes
    return tuple(replace(best, policy=ORACLE) if each.policy == ORACLE else each for each in outcomes)


def does_as(outcomes: tuple[SimulationOutcome, ...]) -> str | None:
    """Return the policy whose run the oracle shares; None without one."""
    own = [outcome for outcome in outcomes if outcome.policy == ORACLE]
    same = [each.policy for each in outcomes if own and each.answers is own[0].answers and each.policy != ORACLE]
    return same[0] if same else None


def _simulated(case: SimulationCase, steps: Steps, progress: Progress) -> SimulationOutcome:
    changes = tuple(ScheduledChange(at, tuple(counts.items())) for at, counts in steps)
    outcome = simulate(case.setting, ScheduleOptions(changes).policy(), progress)
    return replace(outcome, policy=ORACLE)


def _usual_bins(seconds: float) -> int:
    """Return the number of bins for a trace of so many seconds."""
    return max(_FEWEST_BINS, math.ceil(seconds / _BIN_SECONDS))


def _hindsight(
    case: SimulationCase, trace: Trace, bin_seconds: float, attainment: float, *, interrupted: bool
) -> tuple[list[PoolNeed], Column, Terms]:
    """Return what pools need and how many requests arrive, in bins of one length, with the terms of the oracle."""
    terms = Terms(bin_seconds, case.setting.longest_start.engine_seconds, attainment=attainment)
    return needs(case, trace, bin_seconds, interrupted=interrupted), demand(trace, bin_seconds).requests, terms


def needs(case: SimulationCase, trace: Trace, bin_seconds: float, *, interrupted: bool) -> list[PoolNeed]:
    """Return what each pool needs in each bin, by its true engines; `interrupted` as in `need.Batching`."""
    speeds = _speeds(case)
    placed = {pool.key.name: len(decision.status.assignments) for pool, decision in case.planned.pools}
    trace = answerable(trace, speeds)
    if len(speeds) > 1:
        needed = [*split_needed(trace, speeds[0], speeds[1], case.slo, bin_seconds)]
    else:
        needed = [replicas_needed(trace, speeds[0], case.slo, bin_seconds, interrupted=interrupted)]
    return [
        PoolNeed(name, plan.shape.gpus, each, min(spec.scaling.min_replicas, placed[name]))
        for (name, spec, plan), each in zip(_known(case), needed, strict=True)
    ]


def refused(case: SimulationCase) -> tuple[int, int]:
    """Return how many requests after the warm-up are too long for a replica, and the most tokens that one takes."""
    speeds = _speeds(case)
    counted = case.trace.part(case.setting.warm_up, math.inf)
    return int(too_long(counted, speeds).sum()), int(min(map(most_tokens, speeds)))


def _known(case: SimulationCase) -> list[tuple[str, PoolSpec, Plan]]:
    """Return the planned pools in the order in which a request goes through them."""
    pools = [(pool, decision.status.plan) for pool, decision in case.planned.pools]
    return [(pool.key.name, pool.spec, plan) for pool, plan in pools if pool.spec is not None and plan is not None]


def _speeds(case: SimulationCase) -> list[EngineSpeed]:
    """Return the true speeds of the pools' engines."""
    catalog, truth = case.setting.catalog, case.setting.truth
    parts = Parts(case.setting.nodes, catalog)
    modelled = [engine_speed(plan, spec, catalog, parts.device_bytes(plan, spec)) for _, spec, plan in _known(case)]
    return [truth(speed) for speed in modelled] if truth is not None else modelled


def _attainment(slo: Slo) -> float:
    held = [kind[-1][0] / 100.0 for kind in (slo.ttft, slo.tpot) if kind]
    return min(held, default=_USUAL_ATTAINMENT)
