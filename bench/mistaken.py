"""`python -m bench.mistaken`: pools whose engines are truly slower or faster than predicted, one simulation a row.

What a pool takes, how many of its requests are in time, and how many replicas it had at most. Targets on TTFT are next
to what an idle replica does, where an error of a tenth is a factor in the rate (ADR 0130), and the model with experts
is predicted to serve more than its engines can (ADR 0131). Deterministic: the machine does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from weft.catalog import load
from weft.cli.cluster.inputs import world_from
from weft.cli.simulate.setting import cases_of
from weft.cli.simulate.wishes import Clients, SimulationWishes
from weft.twin.engine.steps import StepTable
from weft.twin.serving.front import FrontRule
from weft.twin.simulation import simulate

if TYPE_CHECKING:
    from weft.twin.engine.speed import EngineSpeed
    from weft.twin.outcome import SimulationOutcome

START_UP_SECONDS = 120.0
STEP = "step:from=4,to=12,at=1800,seconds=5400"
BURSTS = "burst:rate=6,times=3,every=900,lasting=240,seconds=7200"
RISES, FALLS = "ramp:from=2,to=24,over=3600,seconds=7200", "ramp:from=20,to=1,over=5400,seconds=9000"
WIDE_STEP = "step:from=10,to=30,at=1800,seconds=5400"
WIDE_BURSTS = "burst:rate=10,times=3,every=900,lasting=240,seconds=7200"
SLOW_RISE = "ramp:from=43.9,to=74.6,over=6000,seconds=7200,isl=380,osl=67"
LONG_BURSTS = "burst:rate=9.5,times=2,every=900,lasting=240,seconds=7200,isl=4620,osl=91"
LONGER_BURSTS = "burst:rate=9.3,times=2,every=900,lasting=240,seconds=7200,isl=5260,osl=296"
FEW_LONG = "poisson:rate=1.6,seconds=7200,isl=2580,osl=433"
DENSE, EXPERTS = ("meta-llama/Llama-3.1-8B-Instruct", "L40S"), ("Qwen/Qwen3-30B-A3B", "H100")
OPEN = ("openai/gpt-oss-120b", "H100")


@dataclass(frozen=True, slots=True)
class Case:
    """A pool or a split over TCP, and its traffic.

    `prompts` and `steps` are how much longer engines truly take for them than predicted. `declared` requests/s have
    prompts and answers of so many tokens; those that come have 1,000 and 200 unless told.
    """

    target: dict[str, Any]
    trace: str
    prompts: float = 1.0
    steps: float = 1.0
    declared: str = "4"
    tokens: tuple[int, int] = (1000, 200)
    front: FrontRule = FrontRule.LeastLoad
    seed: int = 0
    model: tuple[str, str] = DENSE
    split: bool = False

    @property
    def body(self) -> dict[str, Any]:
        """The InferencePool or PDSplit."""
        (name, accelerator), (prompt, answer) = self.model, self.tokens
        spec = {
            "model": {"id": name},
            "workload": {
                "requestsPerSecond": self.declared,
                "inputTokens": {"mean": prompt},
                "outputTokens": {"mean": answer},
            },
            "slo": self.target,
            "scaling": {"maxReplicas": 100},
            "placement": {"accelerators": [accelerator]},
        }
        if self.split:
            spec["kvTransfer"] = {"connector": "NIXL", "transport": "TCP"}
        kind, metadata = "PDSplit" if self.split else "InferencePool", {"name": "chat", "namespace": "default"}
        return {"apiVersion": "weft.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}

    @property
    def words(self) -> str:
        """The first cells of its row."""
        (metric, targets), *_ = self.target.items()
        percentile, seconds = next(iter(targets.items()))
        name, target = self.model[0].rpartition("/")[2], f"{metric.upper()} {percentile} {seconds}"
        name = f"{name}, split" if self.split else name
        return f"{name} | {target} | `{self.trace}`{self._turns} | {self.prompts:g}, {self.steps:g}"

    @property
    def _turns(self) -> str:
        return ", in turn" if self.front is FrontRule.RoundRobin else ""


AT_250, AT_400, P99 = {"ttft": {"p95": "250ms"}}, {"ttft": {"p95": "400ms"}}, {"ttft": {"p99": "400ms"}}
AT_470, AT_500 = {"ttft": {"p95": "470ms"}}, {"ttft": {"p95": "500ms"}}
AT_1880, AT_2330 = {"ttft": {"p95": "1880ms"}}, {"ttft": {"p95": "2330ms"}}
TPOT = {"tpot": {"p95": "40ms"}, "ttft": {"p95": "800ms"}}
BOTH_TIGHT = {"tpot": {"p95": "20ms"}, "ttft": {"p95": "240ms"}}
CASES = (
    Case(AT_250, STEP),
    Case(AT_250, BURSTS, seed=1),
    Case(AT_250, RISES, seed=2),
    Case(AT_250, FALLS, declared="20", seed=1),
    Case(AT_250, FALLS, declared="20", seed=1, front=FrontRule.RoundRobin),
    Case(AT_250, STEP, prompts=0.8, steps=0.8),
    Case(AT_400, STEP, prompts=1.25),
    Case(AT_400, STEP, prompts=1.5),
    Case(AT_400, BURSTS, prompts=1.25, seed=1),
    Case(P99, STEP),
    Case(TPOT, "burst:rate=16,times=2,every=900,lasting=240,seconds=7200", seed=1),
    Case(TPOT, "burst:rate=16,times=2,every=900,lasting=240,seconds=7200", steps=1.25, seed=1),
    *(
        Case(AT_500, trace, prompts=prompts, declared="10", tokens=(2000, 200), model=EXPERTS)
        for trace in (WIDE_STEP, WIDE_BURSTS)
        for prompts in (1.0, 1.4)
    ),
    Case(AT_1880, LONG_BURSTS, 1.46, 1.14, declared="9.5", tokens=(4620, 91), seed=1, split=True),
    Case(
        {"ttft": {"p95": "2330ms"}}, LONGER_BURSTS, 1.41, 1.29, declared="9.3", tokens=(5260, 296), seed=7, split=True
    ),
    Case(BOTH_TIGHT, SLOW_RISE, 1.37, 1.08, declared="43.9", tokens=(380, 67), seed=33, model=OPEN),
    Case(AT_470, FEW_LONG, 0.92, 1.08, declared="1.6", tokens=(2580, 433), seed=113),
)


def truth(speed: EngineSpeed, prompts: float, steps: float) -> EngineSpeed:
    """Engines that take so many times as long for prompts, and for decode steps."""
    known = speed.steps
    decode = {at: seconds * steps for at, seconds in known.decode_points.items()}
    prompt = {at: seconds * prompts for at, seconds in known.prompt_points.items()}
    return replace(speed, steps=StepTable(decode, prompt, known.launch_seconds * prompts, known.graphs))


def simulated(case: Case) -> SimulationOutcome:
    """The case by Weft's own rule."""
    clients = Clients(front=case.front.value)
    wishes = SimulationWishes(trace=(case.trace,), start_up=START_UP_SECONDS, seed=case.seed, clients=clients)
    world = world_from(f"20x{case.model[1]}", None, imagine=True)
    (found,) = cases_of(wishes, [case.body], world, load())
    return simulate(replace(found.setting, truth=partial(truth, prompts=case.prompts, steps=case.steps)))


def row(case: Case) -> str:
    """The case as a line of the table."""
    found = simulated(case)
    most = max(pool.ready for moment in found.timeline for pool in moment.pools)
    return f"| {case.words} | {found.gpu_hours:.1f} | {found.attainment:.1%} | {most} |"


def main() -> None:
    """Print the table."""
    print("| model | target | requests | prompts and steps truly take | GPU-hours | in time | most replicas |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        print(row(case), flush=True)


if __name__ == "__main__":
    main()
