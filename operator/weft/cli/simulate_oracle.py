"""What who knows the future would pay for a trace, and the policy that pays it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.twin.modelled import engine_speed
from weft.twin.need import demand, replicas_needed, split_needed
from weft.twin.oracle import PoolNeed, Terms, bound_hours, calibrated, oracle_hours
from weft.twin.policies import Change, ScheduleOptions
from weft.twin.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.cli.simulating import Case
    from weft.domain.workload import Slo
    from weft.twin.oracle import Column, Steps
    from weft.twin.outcome import Outcome
    from weft.twin.trace import Trace

    Progress = Callable[[float], None]

ORACLE = "oracle"
_BIN_SECONDS, _FEWEST_BINS = 60.0, 10
_SLIGHTLY = 1.0 + 1e-9  # more than the trace, so that its last request falls into the last bin
_USUAL_ATTAINMENT = 0.99  # where no target is declared


def oracle_gpu_hours(case: Case) -> float | None:
    """GPU-hours after the warm-up below which no counts serve as many requests within the SLO, by what engines can do.

    Nothing is lost there to queues or to steps that are not full, so nobody reaches it. None for a single moment.
    """
    trace = case.trace.part(case.setting.warm_up, math.inf)
    if trace.seconds <= 0.0:
        return None
    return bound_hours(*_hindsight(case, trace, _attainment(case.slo), interrupted=False)) / _SLIGHTLY


def oracle_outcome(case: Case, progress: Progress, attainment: float | None = None) -> Outcome:
    """The simulation of counts chosen in hindsight, with as little slack as meets the SLO where that can be had.

    As many requests as `attainment` says shall meet it, those of the declared percentile where nothing is said.
    """
    wanted = _attainment(case.slo) if attainment is None else attainment
    tried: list[tuple[Steps, Outcome]] = []

    def attained(steps: Steps) -> float:
        tried.append((steps, _simulated(case, steps, progress)))
        return tried[-1][1].attainment

    known = _hindsight(case, case.trace, wanted, interrupted=True)
    try:
        found = calibrated(lambda slack: oracle_hours(*known, slack), attained, wanted)
    except ValueError:  # no slack is enough, say because a node fails
        return max((outcome for _, outcome in tried), key=lambda outcome: outcome.attainment)
    return next(outcome for steps, outcome in tried if steps == found.found.steps)


def _simulated(case: Case, steps: Steps, progress: Progress) -> Outcome:
    changes = tuple(Change(at, tuple(counts.items())) for at, counts in steps)
    outcome = simulate(case.setting, ScheduleOptions(changes).policy(), progress)
    return replace(outcome, policy=ORACLE)


def _hindsight(
    case: Case, trace: Trace, attainment: float, *, interrupted: bool
) -> tuple[list[PoolNeed], Column, Terms]:
    """What pools need and how many requests arrive, in bins of one length that are together as long as the trace."""
    bins = max(_FEWEST_BINS, math.ceil(trace.seconds / _BIN_SECONDS))
    bin_seconds = max(trace.seconds, 1.0) * _SLIGHTLY / bins
    terms = Terms(bin_seconds, case.setting.start_up.engine_seconds, attainment=attainment)
    return needs(case, trace, bin_seconds, interrupted=interrupted), demand(trace, bin_seconds).requests, terms


def needs(case: Case, trace: Trace, bin_seconds: float, *, interrupted: bool) -> list[PoolNeed]:
    """What each pool needs in each bin, by what its true engines can do; `interrupted` by prompts, in one pool."""
    pools = [(pool, decision.status.plan) for pool, decision in case.planned.pools]
    known = [(pool.key.name, pool.spec, plan) for pool, plan in pools if pool.spec is not None and plan is not None]
    modelled = [engine_speed(plan, spec, case.setting.catalog) for _, spec, plan in known]
    speeds = [case.setting.truth(speed) for speed in modelled] if case.setting.truth is not None else modelled
    if len(speeds) > 1:
        needed = [*split_needed(trace, speeds[0], speeds[1], case.slo, bin_seconds)]
    else:
        needed = [replicas_needed(trace, speeds[0], case.slo, bin_seconds, interrupted=interrupted)]
    return [
        PoolNeed(name, plan.shape.gpus, each, spec.scaling.min_replicas)
        for (name, spec, plan), each in zip(known, needed, strict=True)
    ]


def _attainment(slo: Slo) -> float:
    held = [kind[-1][0] / 100.0 for kind in (slo.ttft, slo.tpot) if kind]
    return min(held, default=_USUAL_ATTAINMENT)
