"""The order of possible shapes: the cheapest within the SLO, the simpler of near equals, the running one kept.

Cost is running replicas x GPUs x the accelerator's relative price, with headroom and minReplicas. Ties are
broken by the shape itself, never by order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import Percentiles
from weft.domain.texts.figures import digits, request_rate
from weft.domain.workload import Slo
from weft.perf import assess, at_rate, half_as_likely, worthwhile
from weft.shaping.together import asked_of, together

if TYPE_CHECKING:
    from weft.domain.capacity import Capacity
    from weft.domain.shape import Prediction, Shape
    from weft.domain.workload import Workload
    from weft.perf import Assessment
    from weft.shaping.case import ShapeCase
    from weft.shaping.request import ShapeRequest

SIMPLER_WITHIN = 1.10
CHANGE_SAVES_AT_LEAST = 0.15
BEST_EFFORT_SLACK = 1.5
LEAST_OF_PLANNED = 0.5
HELPS = 0.5  # d log(latency) / d log(rate): a tenth fewer requests shorten a latency by a twentieth
BUSY = 0.3  # fraction of time filled by prompts: below it TTFT is late for long prompts, not for want of replicas
ENOUGH = 1.0 - 1e-9  # of the rate, allowing for rounding
_NO_TOKENS = Percentiles(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Scored:
    """A shape with its assessment, the replicas that run for the demanded rate, and the fraction of it served.

    `served` is the fraction of the rate that the largest allowed number of replicas serves, at most 1.
    """

    case: ShapeCase
    assessment: Assessment
    capacity: Capacity
    replicas: int
    served: float

    @property
    def shape(self) -> Shape:
        """The shape itself."""
        return self.case.option.shape

    @property
    def meets_slo(self) -> bool:
        """Whether it serves any requests within all targets."""
        return self.assessment.prediction.capacity > 0

    @property
    def serves_all(self) -> bool:
        """Whether the allowed number serves the whole rate."""
        return self.served >= ENOUGH

    @property
    def cost(self) -> float:
        """Cost of all replicas that run."""
        return self.replicas * self.replica_cost

    @property
    def replica_cost(self) -> float:
        """Cost of one replica."""
        return self.shape.gpus * self.case.option.accelerator.cost

    @property
    def overshoot(self) -> float:
        """The worst missed target, as predicted over target; 1 where all are met."""
        return max((miss.overshoot for miss in self.assessment.misses), default=1.0)

    @property
    def simplicity(self) -> tuple[tuple[int, ...], float, float, str]:
        """Sort key, smaller is simpler: the structure, then more bits, then cost and name, which make it total."""
        shape = self.shape
        return self.structure, -shape.precision.bytes_per_weight, self.cost, f"{shape} {shape.engine.value}"

    @property
    def structure(self) -> tuple[int, ...]:
        """Sort key: fewer GPUs and nodes per replica, then no PP, no DCP or PCP, fewer DP ranks, smaller EP."""
        shape = self.shape
        return (
            shape.gpus,
            shape.pods,
            shape.pipeline_parallel,
            shape.decode_context_parallel * shape.prefill_context_parallel,
            shape.data_parallel,
            shape.expert_parallel,
        )


def score(case: ShapeCase) -> Scored:
    """Evaluate one shape under the request's workload and SLO."""
    request, assessment = case.request, assess(case.replica, asked_of(case))
    capacity = together(case, assessment.prediction.capacity)
    return Scored(case, assessment, capacity, *_replicas_for(request, case.option.shape, capacity))


def expected(scored: Scored) -> Prediction:
    """The prediction with the latencies at the rate that each replica gets when there are as many as needed.

    That rate is at most the capacity: demand beyond it waits outside. TPOT is 0 for answers of one
    token, as in a prefill replica.
    """
    prediction, request, replicas = scored.assessment.prediction, scored.case.request, scored.replicas
    rate = min(scored.capacity.each(replicas), request.workload.requests_per_second / replicas)
    found = None
    if rate > 0.0:
        asked = replace(request.workload, requests_per_second=rate)
        in_company = replicas if scored.capacity.gain(replicas) > 1.0 else 1
        found = at_rate(scored.case.replica, asked, request.spec.role, in_company)
    error_bar = scored.case.error_bar
    prediction = replace(prediction, ttft_doubt=error_bar.ttft, tpot_doubt=error_bar.tpot)
    if found is not None:
        prediction = replace(prediction, ttft=found[0], tpot=found[1])
    return prediction if request.workload.output_tokens > 1 else replace(prediction, tpot=_NO_TOKENS)


def with_targets_in_reach(scored: Scored) -> Scored:
    """The shape scored with each missed target relaxed to 1.5 times what an idle replica reaches, for best effort.

    Without any target it would be fully loaded, and an order of magnitude slower than necessary.
    """
    request, misses = scored.case.request, scored.assessment.misses
    highest_last = sorted(misses, key=lambda miss: miss.reachable_seconds)  # KV may miss the same target as prompts
    reach = {(miss.metric, miss.percentile): BEST_EFFORT_SLACK * miss.reachable_seconds for miss in highest_last}
    slo = Slo(
        ttft=tuple((percentile, reach.get(("TTFT", percentile), at)) for percentile, at in request.spec.slo.ttft),
        tpot=tuple((percentile, reach.get(("TPOT", percentile), at)) for percentile, at in request.spec.slo.tpot),
    )
    return score(replace(scored.case, request=replace(request, spec=replace(request.spec, slo=slo))))


def capacity_worth(case: ShapeCase, declared: Workload, planned: float, replicas: int = 1) -> float:
    """Requests a second to count on from one replica of live traffic; `planned` is its capacity for declared traffic.

    It is one of so many `replicas` before which a front goes by load.

    Normally the rate within the targets. Where that is less than half of `planned`, at least the rate below which fewer
    requests would hardly help: if prompts alone take nearly the whole target, few can be served in time, and scaling
    for them would buy any number of replicas for next to nothing.
    """
    asked = asked_of(case, replicas)
    found, enough = assess(case.replica, asked).prediction.capacity, LEAST_OF_PLANNED * planned
    meets_slo = found > 0.0
    if not meets_slo:
        found = half_as_likely(case.replica, asked)
    if found >= enough:
        return found
    own = asked_of(replace(case, request=replace(case.request, workload=declared)))
    if not meets_slo and assess(case.replica, own).misses:
        return with_targets_in_reach(score(case)).assessment.prediction.capacity
    return max(found, min(enough, worthwhile(case.replica, asked, HELPS, BUSY)))


def _replicas_for(request: ShapeRequest, shape: Shape, capacity: Capacity) -> tuple[int, float]:
    """Replicas that run for the demanded rate, and the fraction of it that the allowed number serves."""
    rate, scaling = request.workload.requests_per_second, request.spec.scaling
    most = capacity.of(scaling.affordable(shape.gpus, shape.pods))
    served = min(1.0, most / rate) if rate > 0 else float(most > 0)
    return scaling.running(rate, capacity, shape.gpus, shape.pods), served


def ranked(within_slo: list[Scored]) -> list[Scored]:
    """Best first: shapes that serve the whole rate, of these the simplest within 10 % of the cheapest, then by cost."""
    enough = [each for each in within_slo if each.serves_all]
    short = [each for each in within_slo if not each.serves_all]
    short.sort(key=lambda each: (-round(each.served, 6), each.cost, each.simplicity))
    if not enough:
        return short
    near = min(each.cost for each in enough) * SIMPLER_WITHIN
    simple = sorted((each for each in enough if each.cost <= near), key=lambda each: each.simplicity)
    dear = sorted((each for each in enough if each.cost > near), key=lambda each: (each.cost, each.simplicity))
    return simple + dear + short


def nearest(outside_slo: list[Scored]) -> list[Scored]:
    """Best first where nothing meets the SLO: by the worst missed target, then by price."""
    return sorted(outside_slo, key=lambda each: (round(each.overshoot, 2), each.replica_cost, each.simplicity))


def kept(best: Scored, running: Scored | None) -> bool:
    """Whether the running shape stays: unless the best is better by `CHANGE_SAVES_AT_LEAST`, or alone meets the SLO.

    If the request `stays`, a shape that only costs less does not replace it.
    """
    if running is None or running.shape == best.shape or running.meets_slo != best.meets_slo:
        return False
    left = 0.0 if running.case.request.stays else 1.0 - CHANGE_SAVES_AT_LEAST
    if not best.meets_slo:
        return running.overshoot * left < best.overshoot
    if not running.serves_all:
        return best.served * left < running.served and not best.serves_all
    return running.cost * left < best.cost


def praise(chosen: Scored, best: Scored) -> Explanation:
    """Why the chosen shape won."""
    prediction = chosen.assessment.prediction
    if not chosen.meets_slo:
        missed = ", ".join(str(miss) for miss in chosen.assessment.misses)
        closest = (
            f"no shape meets the SLO with 90% confidence; the closest one may take {missed} even without load; "
            f"its capacity is the rate up to which it takes no more than {BEST_EFFORT_SLACK:g} times that"
        )
        too_long = "no shape has room for a sequence of the mean length of spec.workload beside the weights"
        return Explanation(Reason.BestEffort, closest if missed else too_long)
    if chosen.shape != best.shape:
        now, then = digits(chosen.cost), digits(best.cost)
        cost = f"as much, {now}" if now == then else f"{then} instead of {now}"
        return Explanation(Reason.ShapeKept, f"{best.shape} would cost {cost}; {_why_no_change(chosen, 'must save')}")
    rate, headroom = chosen.case.request.workload.requests_per_second, chosen.case.request.spec.scaling.headroom
    spare = f" and {headroom:.0%} headroom" if headroom > 0 else ""
    short = "" if chosen.serves_all else f"; as many as are allowed serve {part(chosen.served)} of it"
    return Explanation(
        Reason.ShapeChosen,
        f"{_bill(chosen)} for {request_rate(rate)}{spare}; one serves {request_rate(prediction.capacity)}"
        f"{_together(chosen)}, bound by {prediction.limit.value}{short}",
    )


def _together(chosen: Scored) -> str:
    """What each of the replicas serves where that is more than one alone; else nothing."""
    each = digits(chosen.capacity.each(chosen.replicas))
    gains = chosen.capacity.gain(chosen.replicas) > 1.0
    return f", each of {chosen.replicas} behind their router {each}" if gains else ""


def _why_no_change(running: Scored, takes: str) -> str:
    if running.case.request.stays:
        return "its shape changed less than an hour ago"
    return f"a change {takes} {100.0 * CHANGE_SAVES_AT_LEAST:.0f} %"


def overruled(better: Scored, running: Scored) -> Explanation:
    """Why a shape that is better than the running one did not win."""
    if not better.meets_slo:
        gain = 1.0 - better.overshoot / running.overshoot
    elif not running.serves_all:
        gain = 1.0 - running.served / better.served
    else:
        gain = 1.0 - better.cost / running.cost
    how = f"{gain:.0%} better" if gain > 0 else "simpler, but no cheaper"
    return Explanation(Reason.ShapeKept, f"{how} than the running {running.shape}; {_why_no_change(running, 'takes')}")


def criticism(loser: Scored, chosen: Scored) -> Explanation:
    """Why a shape lost to the chosen one, which is ahead of it in order."""
    if not loser.meets_slo:
        return _missed(loser)
    rate = loser.case.request.workload.requests_per_second
    if not loser.serves_all:
        sentence = f"as many replicas as are allowed serve {part(loser.served)} of {request_rate(rate)}"
        return Explanation(Reason.AtMaximum, sentence)
    bill = f"{_bill(loser)}, {_bill(chosen)}"
    advantage = _advantage(loser, chosen)
    if advantage is None or loser.cost > chosen.cost * SIMPLER_WITHIN or loser.simplicity < chosen.simplicity:
        return Explanation(Reason.CostsMore, bill)
    return Explanation(Reason.SimplerWins, f"{bill}, {advantage}")


def _advantage(loser: Scored, chosen: Scored) -> str | None:
    """Why the chosen one of two near equals is ahead, besides its cost."""
    if loser.structure != chosen.structure:
        return "which is the simpler shape"
    if loser.shape.precision.bytes_per_weight != chosen.shape.precision.bytes_per_weight:
        return "which keeps more bits of the weights"
    return "which is as simple: a tie that goes by the name" if digits(loser.cost) == digits(chosen.cost) else None


def _bill(scored: Scored) -> str:
    return f"{scored.replicas} x {scored.shape} cost {digits(scored.cost)}"


def part(served: float) -> str:
    """Format a fraction of the demand that is neither none nor all of it."""
    return "under 1%" if 0 < served < 0.01 else f"{min(0.99, served):.0%}"  # noqa: PLR2004 - what rounds to 0 %


def _missed(loser: Scored) -> Explanation:
    misses = loser.assessment.misses
    if not misses:  # memory holds one long sequence but not one of the mean length: only with a small maxModelLen
        return Explanation(Reason.NoRoomForKV, "no sequence of the mean length fits beside the weights")
    reason = Reason.MissesTTFT if misses[0].metric == "TTFT" else Reason.MissesTPOT
    missed = ", ".join(str(miss) for miss in misses)
    return Explanation(reason, f"may take {missed} even without load (with 90% confidence not more)")
