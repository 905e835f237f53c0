"""What the autoscaling benchmark runs: `bench/scenarios.yaml`, typed, with what follows from it for a trace."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml

from bench.percentiles import replica_of
from weft.domain.hardware import Precision
from weft.domain.workload import Role, Slo, Workload
from weft.perf import predict
from weft.perf.steps import stepper
from weft.twin.policies import NAMES
from weft.twin.traffic.files import read_trace
from weft.twin.traffic.made_up import made_up

if TYPE_CHECKING:
    from weft.perf import ReplicaModel
    from weft.twin.traffic.trace import Trace

REPOSITORY = Path(__file__).parents[2]
FILE = REPOSITORY / "bench" / "scenarios.yaml"
FOLDER_VARIABLE = "WEFT_BENCH_DATA"
OWN_RULE = "weft"
ORACLE = "oracle"  # who knows the future, on the same simulator
FIXED_RATIO = "fixed-ratio"  # Weft, where the halves of a split have to keep a ratio
MADE_UP = "made up: "
_PERCENT, _MINUTE, _LONG = 100.0, 60.0, 95.0


@dataclass(frozen=True, slots=True)
class SloRule:
    """How targets follow from an unloaded replica: seconds, and times of the unloaded prefill and decode step."""

    percentile: int
    ttft_least_seconds: float
    ttft_times: float
    tpot_times: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """A trace, served by replicas of one kind; `tuned_on` is the trace that rules are tuned on before.

    `gpus` are of one replica, which shares every layer among them; a `split` has a prefill and a decode pool of such
    replicas. No target of TPOT is below `tpot_least_seconds`.
    """

    trace: str
    tuned_on: str
    model: str
    accelerator: str
    precision: Precision
    gpus: int
    split: bool = False
    tpot_least_seconds: float = 0.0

    @property
    def roles(self) -> tuple[Role, ...]:
        """Those of its pools."""
        return (Role.Prefill, Role.Decode) if self.split else (Role.Aggregated,)

    def judges(self, policy: str) -> bool:
        """Whether there is anything that a rule is about."""
        return self.split or policy != FIXED_RATIO

    def replica(self) -> ReplicaModel:
        """One replica as the performance model has it."""
        return replica_of(self.model, self.accelerator, self.precision, self.gpus)


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole file: times in seconds, `truth_off` a part."""

    warm_up_seconds: float
    startup_seconds: tuple[float, ...]
    seeds: tuple[int, ...]
    least_mean_replicas: float
    truth_off: float
    policies: tuple[str, ...]
    slo: SloRule
    traces: dict[str, str]
    scenarios: dict[str, Scenario] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises `ValueError` for names that nothing has, and for rules tuned on what they are judged on."""
        unknown = [name for name in self.policies if name not in {OWN_RULE, ORACLE, FIXED_RATIO, *NAMES}]
        if unknown:
            raise ValueError(f"there is no policy {unknown[0]!r}")
        for name, scenario in self.scenarios.items():
            if not {scenario.trace, scenario.tuned_on} <= set(self.traces):
                raise ValueError(f"{name} names a trace that is not there")
            if scenario.trace == scenario.tuned_on:
                raise ValueError(f"{name} would be tuned on the trace that it is judged on")

    def targets(self, scenario: Scenario, workload: Workload) -> Slo:
        """The SLO of a workload by the rule: of a prompt of the 95th percentile, and a sequence of mean context."""
        rule, steps = self.slo, stepper(scenario.replica())
        prefill = steps.prefill(workload.input_tokens_p95, 0.0, 1.0).seconds
        step = steps.decode(1.0, workload.input_tokens + workload.output_tokens / 2.0).seconds
        ttft = max(rule.ttft_least_seconds, rule.ttft_times * prefill)
        tpot = max(scenario.tpot_least_seconds, rule.tpot_times * step)
        return Slo(((rule.percentile, ttft),), ((rule.percentile, tpot),))

    def rate_factor(self, scenario: Scenario, trace: Trace) -> float:
        """By how much the traffic is multiplied, so that the mean fleet of all pools is large enough; 1 or more.

        The fleet is that of the mean rate by the performance model. Raises `ValueError` where a replica serves nothing.
        """
        workload = workload_of(trace)
        slo = self.targets(scenario, workload)
        capacities = [predict(scenario.replica(), workload, slo, role).capacity for role in scenario.roles]
        if min(capacities) <= 0:
            raise ValueError(f"no replica of {scenario.model} meets the targets of {scenario.trace} at any rate")
        fleet = sum(trace.rate / capacity for capacity in capacities)
        return max(1.0, self.least_mean_replicas / fleet)


def workload_of(trace: Trace) -> Workload:
    """What a user who knew the trace would declare: mean rate, and tokens as mean and 95th percentile."""
    return Workload(
        requests_per_second=trace.rate,
        input_tokens=float(trace.inputs.mean()),
        output_tokens=float(trace.outputs.mean()),
        input_tokens_p95=float(np.percentile(trace.inputs, _LONG)),
        output_tokens_p95=float(np.percentile(trace.outputs, _LONG)),
        input_p95_declared=True,
        output_p95_declared=True,
    )


@cache
def settings() -> Settings:
    """What the file says."""
    return parsed(yaml.safe_load(FILE.read_text(encoding="utf-8")))


def parsed(read: dict[str, Any]) -> Settings:
    """Settings from the file's content; raises `ValueError` as `Settings` does."""
    return Settings(
        warm_up_seconds=read["warm_up_minutes"] * _MINUTE,
        startup_seconds=tuple(map(float, read["startup_seconds"])),
        seeds=tuple(read["seeds"]),
        least_mean_replicas=float(read["least_mean_replicas"]),
        truth_off=read["truth_off_percent"] / _PERCENT,
        policies=tuple(read["policies"]),
        slo=SloRule(**read["slo"]),
        traces=dict(read["traces"]),
        scenarios={
            name: Scenario(**{**values, "precision": Precision(values["precision"])})
            for name, values in read["scenarios"].items()
        },
    )


def data_folder() -> Path:
    """Where the traces lie: as the variable says, else beside the repository."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else REPOSITORY.parent / "shared" / "data"


def load_trace(name: str) -> Trace:
    """A trace of the file by its name. Raises `FileNotFoundError` with what to do where it is not there."""
    source = settings().traces[name]
    if source.startswith(MADE_UP):
        return made_up(source.removeprefix(MADE_UP))
    path = data_folder() / source
    if not path.is_file():
        raise FileNotFoundError(
            f"the trace {name!r} is not at {path}: set {FOLDER_VARIABLE} to the folder that has {source}, whose origin "
            f"{FILE.name} names"
        )
    with path.open("rb") as file:
        return read_trace(file, path.name)
