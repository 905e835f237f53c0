"""One run of the autoscaling benchmark: a rule with its options, on a scenario, with a start-up time and a seed."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bench.fixed_ratio import fixed_ratio
from bench.scaling_bench.scenarios import FIXED_RATIO, ORACLE, OWN_RULE, Scenario, load_trace, settings, workload_of
from bench.scaling_bench.truth import true_speed
from weft.api import parse_pool, parse_split
from weft.catalog import load
from weft.cli.cluster.world import World
from weft.cli.plan.planning import plan_all
from weft.cli.simulate.oracle import needs, oracle_outcome
from weft.cli.simulate.setting import SimulationCase
from weft.domain.cluster import NodeRecord
from weft.domain.labels import API_VERSION
from weft.domain.workload import Slo
from weft.perf import predict
from weft.twin.cluster.start_up import StartPhases
from weft.twin.engine.modelled import engine_speed
from weft.twin.hindsight.need import attainable
from weft.twin.policies import frontier, grid
from weft.twin.serving.stream import Route, Stream
from weft.twin.simulation import SimulationSetting, simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from bench.fixed_ratio import FixedRatio
    from weft.domain.workload import Workload
    from weft.twin.outcome import SimulationOutcome
    from weft.twin.policies import Options
    from weft.twin.traffic.trace import Trace

    Json = dict[str, Any]
    Targets = tuple[tuple[int, float], ...]

ATTAINMENTS = (0.95, 0.98, 0.99)  # what the oracle aims at


class Asked(NamedTuple):
    """What a user of Weft says of risk, in percent: of how many requests the targets are, headroom, and the risk.

    `risk` is `scaling.riskPercent`, None as it is by default.
    """

    ttft: int
    tpot: int
    headroom: int
    risk: int | None = None

    def __str__(self) -> str:
        """`targets of p90, headroomPercent 0`, or each percentile by name."""
        apart = f"TTFT of p{self.ttft}, TPOT of p{self.tpot}"
        targets = f"targets of p{self.ttft}" if self.ttft == self.tpot else apart
        risk = "" if self.risk is None else f", riskPercent {self.risk}"
        return f"{targets}, headroomPercent {self.headroom}{risk}"


# From cheap to safe, and some that are cheaper still. Rows name places in here: whatever is added is added at the end.
RISKS = (
    *(Asked(p, p, more) for p, more in ((90, 0), (90, 20), (95, 0), (95, 20), (95, 40), (95, 60), (95, 90))),
    Asked(90, 90, 0, 30),
    Asked(50, 50, 0),
    Asked(50, 50, 0, 50),
    Asked(95, 95, 150),
    *(Asked(90, 90, 0, risk) for risk in (20, 40)),
)
# In a split first tokens are missed sooner, and cost less to have in time.
SPLIT_RISKS = (
    *(Asked(*each) for each in ((90, 50, 0), (95, 50, 0), (99, 50, 0), (95, 90, 0), (99, 90, 0))),
    Asked(90, 50, 0, 20),
    Asked(95, 50, 0, 20),
)
# Of the ratio that is the best one in the fluid of the whole trace, and what is risked with it.
# The fluid knows no bursts, which prefill has to answer within seconds: what is held has to go far beyond its best one.
RATIOS, GREATER_RATIOS = (0.7, 1.0, 1.4), (2.0, 2.8)
HELD = (
    *((times, risk) for risk in SPLIT_RISKS[:3] for times in RATIOS),
    *((times, risk) for risk in SPLIT_RISKS[:2] for times in GREATER_RATIOS),
    (2.8, SPLIT_RISKS[5]),
    (4.0, SPLIT_RISKS[0]),
    (4.0, SPLIT_RISKS[5]),
)
RATIO_WITHIN = 1.15  # as counts are whole numbers
RATIO_BIN_SECONDS = 300.0
FLEET_SECONDS = 300.0  # from one count of replicas that a row keeps to the next
ROOM = 5.0  # times the mean fleet that the cluster holds, so that no rule is short of GPUs
PERCENTS = (50.0, 90.0, 99.0)
NAME = "bench"
KIBI, MEGA, _MINUTE = 1024, 1e6, 60.0


@dataclass(frozen=True, slots=True)
class Run:
    """What is run. `point` is a place on the rule's frontier, or in its grid where `of_grid`.

    `tuning` plays the trace that rules are tuned on, and not the one that they are judged on; `minutes` is how much of
    it, all where that is 0.
    """

    scenario: str
    policy: str
    point: int
    startup_seconds: float
    seed: int
    of_grid: bool = False
    tuning: bool = False
    minutes: float = 0.0

    @property
    def key(self) -> str:
        """Its name among results; the same run has the same name."""
        return " ".join(f"{name}={value}" for name, value in asdict(self).items())

    @property
    def options(self) -> str:
        """In words, what the rule was set to."""
        if self.policy == ORACLE:
            return f"for {ATTAINMENTS[self.point]:.0%}"
        if self.policy not in {OWN_RULE, FIXED_RATIO}:
            return repr(_options(self))
        held = f", {HELD[self.point][0]:g} times the best ratio" if self.policy == FIXED_RATIO else ""
        return f"{self.risk}{held}"

    @property
    def risk(self) -> Asked:
        """What Weft's own rule is told of risk."""
        if self.policy == FIXED_RATIO:
            return HELD[self.point][1]
        return (SPLIT_RISKS if settings().scenarios[self.scenario].split else RISKS)[self.point]


def points(policy: str, *, of_grid: bool = False, split: bool = False) -> int:
    """How many settings of a rule there are to run; nothing of the oracle's or of Weft's is tuned."""
    own = {OWN_RULE: len(SPLIT_RISKS if split else RISKS), FIXED_RATIO: len(HELD), ORACLE: len(ATTAINMENTS)}
    return own[policy] if policy in own else len(grid(policy) if of_grid else frontier(policy))


def run(what: Run, progress: Callable[[float], None] | None = None) -> Json:
    """Simulate it; figures in seconds, fractions and GPU-hours."""
    told: Json = {}
    megabytes = peak_of_memory()
    if what.policy == ORACLE:
        case = _case(what)
        told = {"in_time_alone": in_time_alone(case)} if len(case.planned.pools) == 1 else {}
        outcome = oracle_outcome(case, progress or (lambda _: None), ATTAINMENTS[what.point])
    elif what.policy == FIXED_RATIO:
        best = best_ratio(what)
        told = {"ratio": best.ratio, "ceiling": 1.0 - best.following_hours / best.fixed_hours}
        outcome = simulate(setting_of(what, HELD[what.point][0] * best.ratio), None, progress)
    else:
        policy = None if what.policy == OWN_RULE else _options(what).policy()
        outcome = simulate(setting_of(what), policy, progress)
    held = {"peak_megabytes": round(megabytes())}
    return {"key": what.key, "options": what.options, **asdict(what), **told, **_told(outcome), **held}


def peak_of_memory() -> Callable[[], float]:
    """The most MB that this process holds from now on, once it is asked (Linux: proc(5), `clear_refs` and `VmHWM`)."""
    Path("/proc/self/clear_refs").write_text("5", "ascii")

    def megabytes() -> float:
        (line,) = [line for line in Path("/proc/self/status").read_text("ascii").splitlines() if "VmHWM" in line]
        return KIBI * float(line.split()[1]) / MEGA

    return megabytes


def in_time_alone(case: SimulationCase) -> float:
    """The part of requests that a true replica for each would answer in time: no count of one pool reaches more."""
    ((first, decision),) = case.planned.pools
    plan, truth = decision.status.plan, case.setting.truth
    if first.spec is None or plan is None or truth is None:
        raise ValueError(f"{case.words} has no plan")
    return round(attainable(case.trace, truth(engine_speed(plan, first.spec, case.setting.catalog)), case.slo), 5)


def best_ratio(what: Run) -> FixedRatio:
    """The best ratio of the halves of a split that never changes, and what following demand costs, both as a fluid."""
    case = _case(what)
    prefill, decode = needs(case, case.trace, RATIO_BIN_SECONDS, interrupted=False)
    return fixed_ratio(prefill, decode, RATIO_BIN_SECONDS)


def setting_of(what: Run, ratio: float | None = None) -> SimulationSetting:
    """The fleet, the traffic and what is asked of them; the ratio of prefill to decode replicas where it is fixed."""
    scenario = settings().scenarios[what.scenario]
    trace, slo = traffic(what.scenario, what.seed, tuning=what.tuning, minutes=what.minutes)
    workload = workload_of(trace)
    capacities = [predict(scenario.replica(), workload, slo, role).capacity for role in scenario.roles]
    most = math.ceil(ROOM * max(trace.rate / capacity for capacity in capacities))
    asked, scaling = slo, {"maxReplicas": most}
    if what.policy in {OWN_RULE, FIXED_RATIO}:
        scaling |= {"headroomPercent": what.risk.headroom}
        scaling |= {"riskPercent": what.risk.risk} if what.risk.risk is not None else {}
        asked = Slo(_at(what.risk.ttft, slo.ttft), _at(what.risk.tpot, slo.tpot))
    body = _body(scenario, workload, asked, scaling)
    if ratio is not None:
        body["spec"]["ratio"] = {"min": f"{ratio / RATIO_WITHIN:.4f}", "max": f"{ratio * RATIO_WITHIN:.4f}"}
    return SimulationSetting(
        pools=() if scenario.split else (parse_pool(body),),
        splits=(parse_split(body),) if scenario.split else (),
        nodes=tuple(_boards(scenario, most * len(scenario.roles))),
        catalog=load(),
        streams=(Stream(trace, _route(scenario)),),
        start_up=StartPhases().lasting(what.startup_seconds),
        warm_up=settings().warm_up_seconds,
        seed=what.seed,
        truth=partial(true_speed, most=settings().truth_off, seed=what.seed),
    )


def _route(scenario: Scenario) -> Route:
    prefill, decode = f"{NAME}-prefill", f"{NAME}-decode"
    return Route(NAME, prefill, decode, namespace=NAME) if scenario.split else Route(NAME, NAME, namespace=NAME)


def _at(percent: int, targets: Targets) -> Targets:
    """The same seconds of another percentile."""
    return tuple((percent, seconds) for _, seconds in targets)


def _case(what: Run) -> SimulationCase:
    """The same setting with what would be planned of it."""
    scenario, setting = settings().scenarios[what.scenario], setting_of(what)
    trace, slo = traffic(what.scenario, what.seed, tuning=what.tuning, minutes=what.minutes)
    body = _body(scenario, workload_of(trace), slo, {})
    (planned,) = plan_all([body], World(setting.nodes), setting.catalog, 0.0)
    return SimulationCase(NAME, what.scenario, setting, planned)


@lru_cache(maxsize=2)
def traffic(name: str, seed: int, *, tuning: bool = False, minutes: float = 0.0) -> tuple[Trace, Slo]:
    """The trace at the rate of the benchmark, and the targets, which follow from the whole trace."""
    scenario = settings().scenarios[name]
    trace = load_trace(scenario.tuned_on if tuning else scenario.trace)
    slo = settings().targets(scenario, workload_of(trace))
    scaled = trace.scaled(settings().rate_factor(scenario, trace), seed)
    return (scaled.part(0.0, _MINUTE * minutes) if minutes else scaled), slo


def _options(what: Run) -> Options:
    return (grid if what.of_grid else frontier)(what.policy)[what.point]


def _body(scenario: Scenario, workload: Workload, slo: Slo, scaling: Json) -> Json:
    """The resource as a user writes it; the shape is pinned, so that every rule counts the same thing."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PDSplit" if scenario.split else "InferencePool",
        "metadata": {"name": NAME, "namespace": NAME, "uid": NAME},
        "spec": {
            "model": {"id": scenario.model, "precision": scenario.precision.value},
            "engine": {"name": "VLLM", **(_NICS if scenario.split else {})},
            "shape": {"tensorParallel": scenario.gpus, "pipelineParallel": 1, "dataParallel": 1},
            "placement": {"accelerators": [scenario.accelerator]},
            "workload": {
                "requestsPerSecond": str(round(workload.requests_per_second, 3)),
                "inputTokens": {"mean": round(workload.input_tokens), "p95": round(workload.input_tokens_p95)},
                "outputTokens": {"mean": round(workload.output_tokens), "p95": round(workload.output_tokens_p95)},
            },
            "slo": {"ttft": _targets(slo.ttft), "tpot": _targets(slo.tpot)},
            "scaling": scaling,
            **({} if scenario.split else {"router": {"type": "Managed"}}),  # the simulated front goes by load
        },
    }


# Devices without which KV would go over TCP, at a thirtieth of what these NICs do.
_DEVICES = ("rdma/ib",)
_NICS: Json = {"resources": {"rdma": {"resource": _DEVICES[0], "count": 1}}}


def _targets(targets: tuple[tuple[int, float], ...]) -> dict[str, str]:
    return {f"p{percent}": f"{round(1000 * seconds)}ms" for percent, seconds in targets}


def _boards(scenario: Scenario, replicas: int) -> Iterator[NodeRecord]:
    """Machines with room for so many replicas."""
    accelerator = load().accelerator(scenario.accelerator)
    devices = tuple((each, accelerator.gpus_per_node) for each in (accelerator.resource, *_DEVICES))
    found = (("nvidia.com/gpu.product", accelerator.products[0]),)
    for index in range(math.ceil(replicas * scenario.gpus / accelerator.gpus_per_node)):
        yield NodeRecord(f"board-{index:03}", f"board-{index:03}", found, devices, devices)


def _told(outcome: SimulationOutcome) -> Json:
    counted = outcome.counted
    return {
        "ttft_target_seconds": outcome.targets[0],
        "tpot_target_seconds": outcome.targets[1],
        "requests": len(counted.arrived),
        "failed": int((~counted.completed).sum()),
        "attainment": round(outcome.attainment, 5),
        "gpu_hours": round(outcome.gpu_hours, 3),
        "changes": sum(pool.changes for pool in outcome.pools),
        "ttft_seconds": _percentiles(counted.ttft),
        "tpot_seconds": _percentiles(counted.tpot),
        "fleet": [
            [moment.at, *(sample.paid for sample in moment.pools)]
            for moment in outcome.timeline
            if not moment.at % FLEET_SECONDS
        ],
        "wall_seconds": round(outcome.wall_seconds, 1),
    }


def _percentiles(seconds: NDArray[np.float32]) -> dict[str, float | None]:
    """Of those that there are; None where one lies among requests that failed."""
    known = seconds[~np.isnan(seconds)]
    if not len(known):
        return {}
    found = np.percentile(known, PERCENTS, method="higher")
    return {
        f"p{percent:g}": round(float(each), 4) if math.isfinite(each) else None
        for percent, each in zip(PERCENTS, found, strict=True)
    }
