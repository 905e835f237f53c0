"""The autoscaling benchmark's scenarios: what is fixed, what follows from a trace, and engines off the model."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from bench.scaling_bench import scenarios
from bench.scaling_bench.scenarios import Settings, load_trace, parsed, settings, workload_of
from bench.scaling_bench.truth import off_by, true_speed
from weft.domain.workload import Role
from weft.perf import predict
from weft.perf.steps import stepper
from weft.twin.engine.modelled import step_table
from weft.twin.engine.speed import EngineSpeed

if TYPE_CHECKING:
    from pathlib import Path

    from weft.twin.engine.steps import StepTable

READ: dict[str, Any] = yaml.safe_load(scenarios.FILE.read_text(encoding="utf-8"))


def edited(**changes: Any) -> Settings:  # noqa: ANN401 - as YAML has it
    """The file with keys of the first scenario, or of the file, changed."""
    read = deepcopy(READ)
    for key, value in changes.items():
        (read if key in read else read["scenarios"]["conversation"])[key] = value
    return parsed(read)


def test_what_the_file_fixes() -> None:
    known = settings()
    assert 900.0 == known.warm_up_seconds
    assert (60.0, 120.0, 300.0) == known.startup_seconds
    assert (1, 2, 3) == known.seeds
    assert 0.3 == known.truth_off
    assert {Role.Prefill, Role.Decode} == set(known.scenarios["reasoning-split"].roles)


@pytest.mark.parametrize("name", settings().scenarios)
def test_every_scenario_is_tuned_on_made_up_traffic_that_fills_a_fleet(name: str) -> None:
    known, scenario = settings(), settings().scenarios[name]
    assert known.traces[scenario.tuned_on].startswith(scenarios.MADE_UP)
    trace = load_trace(scenario.tuned_on)
    factor, workload = known.rate_factor(scenario, trace), workload_of(trace)
    slo = known.targets(scenario, workload)
    fleet = sum(
        factor * trace.rate / predict(scenario.replica(), workload, slo, role).capacity for role in scenario.roles
    )
    assert factor == 1.0 or fleet == pytest.approx(20.0)
    assert fleet >= 20.0 - 1e-6


def test_traffic_is_never_divided() -> None:
    trace = load_trace("like-conversation")
    assert 1.0 == edited(least_mean_replicas=0.001).rate_factor(settings().scenarios["conversation"], trace)


def test_targets_follow_from_an_unloaded_replica() -> None:
    known, scenario = settings(), settings().scenarios["conversation"]
    workload = replace(
        workload_of(load_trace("like-conversation")), input_tokens=1000.0, input_tokens_p95=2000.0, output_tokens=200.0
    )
    step = stepper(scenario.replica()).decode(1.0, 1100.0).seconds
    assert ((95, 2.0),) == known.targets(scenario, workload).ttft  # three times the prefill is less
    assert pytest.approx(2.0 * step) == dict(known.targets(scenario, workload).tpot)[95]
    long = replace(workload, input_tokens_p95=40_000.0)
    prefill = stepper(scenario.replica()).prefill(40_000.0, 0.0, 1.0).seconds
    assert pytest.approx(3.0 * prefill) == dict(known.targets(scenario, long).ttft)[95]


def test_experts_are_not_held_to_twice_a_step_that_reads_few_of_them() -> None:
    scenario = settings().scenarios["reasoning"]
    assert ((95, 0.03),) == settings().targets(scenario, workload_of(load_trace("like-reasoning"))).tpot


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tuned_on": "conversation"}, "tuned on the trace that it is judged on"),
        ({"trace": "nowhere"}, "names a trace that is not there"),
        ({"policies": ["weft", "keda"]}, "no policy 'keda'"),
    ],
)
def test_what_would_flatter_or_is_not_there_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        edited(**changes)


def test_a_trace_that_is_not_there_says_where_to_put_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scenarios.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match="set WEFT_BENCH_DATA to the folder that has traces/azure/"):
        load_trace("code")


def test_traces_are_read_from_the_folder_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scenarios.FOLDER_VARIABLE, str(tmp_path))
    file = tmp_path / settings().traces["code"]
    file.parent.mkdir(parents=True)
    file.write_text("arrival_s,input_tokens,output_tokens\n0.5,10,20\n2.5,30,40\n")
    workload = workload_of(load_trace("code"))
    assert (20.0, 30.0, 0.8) == (workload.input_tokens, workload.output_tokens, workload.requests_per_second)


@pytest.fixture(scope="module")
def table() -> StepTable:
    """Steps of Llama 70B on two H200 by the performance model."""
    return step_table(settings().scenarios["conversation"].replica(), 256, 8192)


@pytest.mark.parametrize("seed", range(8))
def test_true_times_are_off_by_so_much_at_most_and_by_a_lot_somewhere(table: StepTable, seed: int) -> None:
    truth = off_by(table, 0.3, seed)
    for modelled, true in ((table.decode_points, truth.decode_points), (table.prompt_points, truth.prompt_points)):
        off = [abs(true[point] / seconds - 1.0) for point, seconds in modelled.items()]
        assert max(off) <= 0.3 + 1e-9
        assert max(off) > 0.15  # 0.3 but for what is lifted to the time of a smaller batch


def test_the_truth_is_that_of_its_seed(table: StepTable) -> None:
    assert off_by(table, 0.3, 1).decode_points == off_by(table, 0.3, 1).decode_points
    assert off_by(table, 0.3, 1).decode_points != off_by(table, 0.3, 2).decode_points
    assert table.prompt_points == pytest.approx(off_by(table, 0.0, 1).prompt_points)


@pytest.mark.parametrize("seed", range(8))
def test_the_truth_is_smooth_and_larger_batches_never_take_less(table: StepTable, seed: int) -> None:
    truth = off_by(table, 0.3, seed)
    sizes = sorted({size for size, _ in table.decode_points})
    for low, high in pairwise(sizes):
        below, above = truth.decode_points[low, 1024.0], truth.decode_points[high, 1024.0]
        modelled = table.decode_points[high, 1024.0] / table.decode_points[low, 1024.0]
        assert below <= above
        assert above / below == pytest.approx(modelled, rel=0.15)


def test_the_rest_of_an_engine_is_as_it_was(table: StepTable) -> None:
    speed = EngineSpeed(table, max_batch=256, kv_tokens=500_000)
    assert speed == replace(true_speed(speed, 0.3, 1), steps=table)
    assert true_speed(speed, 0.3, 1).steps.launch_seconds < 1.3 * table.launch_seconds


def test_times_are_not_off_by_all_of_themselves(table: StepTable) -> None:
    with pytest.raises(ValueError, match="a part below 1"):
        off_by(table, 1.0, 1)
