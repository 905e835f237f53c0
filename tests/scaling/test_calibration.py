"""Design section 6: two factors are learnt from live metrics, robustly and slowly, and never from what is not whole."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.shaping.cases import CATALOG, DEEPSEEK, LLAMA_70B
from weft.domain.calibration import Calibrated, Subject, factors_for, measured_on
from weft.domain.shape import Calibration, EngineName, EngineRelease, Shape
from weft.domain.snapshot import CalibrationMemory, LoadSample, PoolObservation
from weft.domain.workload import Role, Workload
from weft.perf import ReplicaModel, at_rate
from weft.scaling.calibration import CLAIMS, Look, Means, in_force, is_due, is_quiet, learnt, load_of, watched

WINDOW = 120.0
START = 1_000_000.0
RELEASE = EngineRelease(EngineName.VLLM, "0.33.0", "vllm/vllm-openai:v0.33.0")
DECLARED = Workload(1.0, 1000, 200, 2000, 400)


def shape_of(model: str, tensor: int) -> Shape:
    architecture = CATALOG.architecture(model)
    assert architecture is not None
    return Shape(EngineName.VLLM, "H200", architecture.checkpoint_precision, tensor, gpus_per_pod=tensor)


SHAPE = shape_of(LLAMA_70B, 4)
SUBJECT = Subject.of(LLAMA_70B, RELEASE, SHAPE)


def replica(model: str = LLAMA_70B, tensor: int = 4) -> ReplicaModel:
    architecture, accelerator, shape = CATALOG.architecture(model), CATALOG.accelerator("H200"), shape_of(model, tensor)
    assert architecture is not None
    efficiency = CATALOG.efficiency(accelerator, shape.engine, shape.precision)
    return ReplicaModel(architecture, shape, accelerator, efficiency, accelerator.memory_bytes)


def quiet(ttft: float | None = 0.2, tpot: float | None = 0.02, rate: float = 4.0) -> PoolObservation:
    """Two replicas that answer, with nothing in the way of a measurement."""
    return PoolObservation(
        expected=2,
        answered=2,
        age_seconds=5.0,
        requests_per_second=rate,
        input_tokens=1000.0,
        output_tokens=200.0,
        prefix_hit=0.0,
        waiting=0.0,
        running=20.0,
        kv_usage=0.3,
        ttft_mean=ttft,
        tpot_mean=tpot,
    )


def look(now: float = START, observation: PoolObservation | None = None, **changes: Any) -> Look:  # noqa: ANN401 - any field
    return replace(Look(SUBJECT, Role.Aggregated, now, (0, 1), observation or quiet()), **changes)


@dataclass
class Pool:
    """A pool whose true factors the model does not know; each step is one window of metrics."""

    truth: Calibration
    model: ReplicaModel = field(default_factory=replica)
    role: Role = Role.Aggregated
    rate: float = 2.0  # of one replica
    now: float = START
    memory: CalibrationMemory | None = None
    known: tuple[Calibrated, ...] = ()
    writes: int = 0

    def means(self, factors: Calibration) -> Means | None:
        load = replace(DECLARED, requests_per_second=self.rate)
        found = at_rate(replace(self.model, calibration=factors), load, self.role)
        return None if found is None else Means(found[0].mean, found[1].mean)

    @cached_property
    def true_means(self) -> Means:
        found = self.means(self.truth)
        assert found is not None
        return found

    def step(self, ttft: float = 1.0, tpot: float = 1.0) -> Calibration:
        """One more window, in which latencies were so many times what they are on average."""
        self.now += WINDOW
        seen = quiet(self.true_means.ttft * ttft, self.true_means.tpot * tpot, 2 * self.rate)
        this = look(self.now, seen, role=self.role)
        if self.memory is not None and is_due(self.memory, this):
            self.memory = learnt(self.memory, this, self.means)
        self.memory = watched(self.memory, this, self.known)
        before, self.known = self.known, in_force(self.known, self.memory, self.now)
        self.writes += self.known != before
        return self.memory.factors

    def run(self, steps: int) -> Calibration:
        """Windows without noise."""
        for _ in range(steps - 1):
            self.step()
        return self.step()


class FixedCosts(Pool):
    """Half of its TTFT is no work, and all is arithmetic: for histories of days."""

    def means(self, factors: Calibration) -> Means | None:
        return Means(
            0.1 + 0.1 * factors.prefill + 0.02 * factors.decode, 0.02 * factors.decode + 0.002 * factors.prefill
        )


def off(found: Calibration, truth: Calibration) -> tuple[float, float]:
    """How far both factors are off, at least 1."""
    pairs = ((found.prefill, truth.prefill), (found.decode, truth.decode))
    prefill, decode = (math.exp(abs(math.log(one / other))) for one, other in pairs)
    return prefill, decode


class TestTrajectories:
    """What a pool learns in the course of hours."""

    @pytest.mark.parametrize("truth", [(1.0, 1.0), (1.5, 0.8), (0.7, 1.4), (2.0, 2.0), (0.5, 0.5)])
    @pytest.mark.parametrize(("model", "tensor", "rate"), [(LLAMA_70B, 4, 0.5), (LLAMA_70B, 4, 2.5), (DEEPSEEK, 8, 3)])
    def test_constant_factors_are_found(self, truth: tuple[float, float], model: str, tensor: int, rate: float) -> None:
        """To 3 % within forty windows, at a load that is low or high, of a dense model or of one with experts."""
        pool = Pool(Calibration(*truth), replica(model, tensor), rate=rate)
        assert max(off(pool.run(40), pool.truth)) < 1.03

    @pytest.mark.parametrize("truth", [(1.0, 1.0), (1.5, 0.8), (0.7, 1.4)])
    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_factors_are_found_in_noise_with_outliers(self, truth: tuple[float, float], seed: int) -> None:
        """Noise of 12 %, and one in ten five times too long: within 20 % after forty windows, 8 % on average."""
        pool, random = Pool(Calibration(*truth)), Random(seed)
        found = [pool.step(_noise(random), _noise(random)) for _ in range(100)][40:]
        assert max(max(off(each, pool.truth)) for each in found) < 1.2
        for kind in ("prefill", "decode"):
            mean = sum(math.log(getattr(each, kind) / getattr(pool.truth, kind)) for each in found) / len(found)
            assert abs(mean) < 0.08

    @settings(max_examples=8, deadline=None)
    @given(st.floats(0.6, 1.8), st.floats(0.6, 1.8), st.floats(0.5, 2.5))
    def test_any_plausible_factors_are_found(self, prefill: float, decode: float, rate: float) -> None:
        pool = Pool(Calibration(prefill, decode), rate=rate)
        assert max(off(pool.run(40), pool.truth)) < 1.05

    @pytest.mark.parametrize(("role", "learns"), [(Role.Prefill, "prefill"), (Role.Decode, "decode")])
    def test_half_a_pair_learns_what_it_does(self, role: Role, learns: str) -> None:
        """The other factor stays 1: nothing of it was seen."""
        pool = Pool(Calibration(1.4, 1.4), role=role)
        found = pool.run(40)
        other = {"prefill": "decode", "decode": "prefill"}[learns]
        assert abs(getattr(found, learns) / 1.4 - 1.0) < 0.03
        assert getattr(found, other) == 1.0
        assert found.prompt_points == (found.points if role is Role.Prefill else 0)

    def test_an_engine_that_gets_slower_is_followed(self) -> None:
        pool = Pool(Calibration(1.0, 1.0))
        pool.run(20)
        slower = Pool(Calibration(1.0, 1.5), memory=pool.memory, known=pool.known, now=pool.now)
        assert abs(slower.run(45).decode / 1.5 - 1.0) < 0.05

    def test_a_single_measurement_moves_little_however_wrong_it_is(self) -> None:
        """After an hour of good ones, one that is a hundred times too long moves a factor by less than 4 %."""
        pool = Pool(Calibration(1.0, 1.0))
        before = pool.run(30)
        after = pool.step(100.0, 100.0)
        assert max(off(after, before)) < 1.04
        assert max(off(pool.run(10), pool.truth)) < 1.03

    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.tuples(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6)), min_size=1, max_size=60))
    def test_factors_stay_within_a_quarter_and_four_whatever_is_measured(
        self, noise: list[tuple[float, float]]
    ) -> None:
        pool = FixedCosts(Calibration(1.0, 1.0))
        for ttft, tpot in noise:
            found = pool.step(ttft, tpot)
            assert all(0.25 <= factor <= 4.0 for factor in (found.prefill, found.decode))

    def test_a_ttft_that_prompts_hardly_make_teaches_nothing_of_them(self) -> None:
        """At low load it is the API's time and a step: that all of it is twice as long says nothing of prompts."""

        def expects(factors: Calibration) -> Means | None:
            return Means(0.09 + 0.01 * factors.prefill, 0.02 * factors.decode)

        seen = look(START + WINDOW, quiet(0.2, 0.024))
        found = learnt(CalibrationMemory(SUBJECT, Calibration()), seen, expects).factors
        assert (found.prefill, found.points, found.prompt_points) == (1.0, 1, 0)
        assert found.decode > 1.02

    def test_a_latency_that_is_all_waiting_teaches_nothing(self) -> None:
        """A tenth slower would be half again as long: that is the queue's doing more than the engine's."""

        def expects(factors: Calibration) -> Means | None:
            return Means(0.1 * factors.prefill**4, 0.02 * factors.decode)

        found = learnt(CalibrationMemory(SUBJECT, Calibration()), look(START + WINDOW, quiet(0.5, 0.02)), expects)
        assert (found.factors.prefill, found.factors.prompt_points) == (1.0, 0)

    def test_a_load_that_the_model_cannot_explain_teaches_nothing(self) -> None:
        memory = CalibrationMemory(SUBJECT, Calibration(1.2, 0.9, 5, 5))
        seen = look(START + WINDOW)
        assert learnt(memory, seen, lambda _: None) == replace(memory, last=START + WINDOW)
        endless = learnt(memory, seen, lambda _: Means(math.inf, 0.02))
        assert endless.factors == memory.factors


def _noise(random: Random) -> float:
    outlier = 5.0 if random.random() < 0.1 else 1.0
    return math.exp(random.gauss(0.0, 0.12)) * outlier


class TestWhatIsMeasured:
    """A look with anything in the way is no measurement."""

    def test_nothing_is_in_the_way_of_a_quiet_pool(self) -> None:
        assert is_quiet(look())

    @pytest.mark.parametrize(
        "changes",
        [
            {"expected": 3},
            {"answered": 1},
            {"age_seconds": 61.0},
            {"age_seconds": math.nan},
            {"requests_per_second": None},
            {"requests_per_second": math.nan},
            {"requests_per_second": 0.2},
            {"input_tokens": None},
            {"output_tokens": math.inf},
            {"prefix_hit": None},
            {"waiting": None},
            {"kv_usage": None},
            {"kv_usage": math.nan},
            {"kv_usage": 0.85},
            {"ttft_mean": None},
            {"ttft_mean": math.nan},
            {"ttft_mean": 0.0},
            {"tpot_mean": None},
            {"tpot_mean": -1.0},
            {"missing": ("vllm:kv_cache_usage_perc",)},
        ],
        ids=str,
    )
    def test_metrics_that_are_missing_stale_partial_or_no_numbers_teach_nothing(self, changes: dict[str, Any]) -> None:
        seen = look(observation=replace(quiet(), **changes))
        memory = CalibrationMemory(SUBJECT, Calibration(1.1, 0.9, 3, 3), (0, 1), START - 1000.0, START - 500.0)
        assert not is_due(memory, seen)
        assert watched(memory, seen, ()) == replace(memory, replicas=(), quiet_since=None)

    @pytest.mark.parametrize(
        "changes",
        [
            {"ready": ()},
            {"ready": (0,)},
            {"observation": None},
            {"network_bound": True},
            {"loads": (LoadSample(START - 30.0, 9.0, 40.0, 2), LoadSample(START, 3.0, 40.0, 2))},
        ],
        ids=str,
    )
    def test_a_pool_that_starts_waits_or_is_bound_by_the_network_teaches_nothing(self, changes: dict[str, Any]) -> None:
        assert not is_quiet(replace(look(), **changes))

    def test_a_short_queue_now_and_then_is_no_backlog(self) -> None:
        loads = tuple(LoadSample(START - 5.0 * i, 4.0 if i == 3 else 0.0, 20.0, 2) for i in range(12))
        assert is_quiet(look(loads=loads))

    def test_each_claim_can_be_what_speaks_against(self) -> None:
        """Else it would claim nothing."""
        bad = replace(quiet(), ttft_mean=None, kv_usage=None, requests_per_second=0.0, answered=1)
        worst = look(observation=bad, ready=(), network_bound=True, loads=(LoadSample(START, 100.0, 200.0, 2),))
        assert [claim(worst) for claim in CLAIMS] == [False] * len(CLAIMS)

    def test_half_a_pair_needs_the_latency_of_what_it_does(self) -> None:
        assert is_quiet(look(observation=quiet(tpot=None), role=Role.Prefill))
        decode = replace(quiet(ttft=None), prefix_hit=None)
        assert is_quiet(look(observation=decode, role=Role.Decode))
        assert not is_quiet(look(observation=decode))

    def test_a_measurement_takes_a_whole_quiet_window(self) -> None:
        memory = watched(None, look(START), ())
        assert memory.quiet_since == START
        assert not is_due(memory, look(START + WINDOW - 1.0))
        assert is_due(memory, look(START + WINDOW))

    def test_there_is_one_measurement_in_a_window(self) -> None:
        pool = Pool(Calibration(1.2, 1.2))
        pool.run(3)
        assert pool.memory is not None
        assert not is_due(pool.memory, look(pool.now + WINDOW - 1.0))
        assert is_due(pool.memory, look(pool.now + WINDOW))

    def test_another_set_of_replicas_starts_a_new_window(self) -> None:
        memory = watched(None, look(START), ())
        grown = replace(look(START + WINDOW), ready=(0, 2))
        assert not is_due(memory, grown)
        assert watched(memory, grown, ()).quiet_since == START + WINDOW

    def test_a_clock_that_was_set_back_starts_anew_from_what_is_in_force(self) -> None:
        known = (Calibrated(SUBJECT, Calibration(1.3, 0.9, 20, 20), START),)
        ahead = CalibrationMemory(SUBJECT, Calibration(3.0, 3.0, 30, 30), (0, 1), START, START + 5000.0)
        assert watched(ahead, look(START), known).factors == Calibration(1.3, 0.9, 20, 20)

    def test_the_load_is_that_of_one_replica(self) -> None:
        seen = replace(quiet(rate=5.0), input_tokens=3000.0, prefix_hit=0.4)
        load = load_of(look(observation=seen), DECLARED)
        assert (load.requests_per_second, load.input_tokens, load.output_tokens) == (2.5, 3000.0, 200.0)
        assert (load.input_tokens_p95, load.output_tokens_p95, load.prefix_hit) == (6000.0, 400.0, 0.4)


class TestInForce:
    """What decisions use and the status keeps."""

    def test_the_first_measurement_is_told(self) -> None:
        pool = Pool(Calibration(1.2, 1.2))
        pool.run(2)
        assert [(each.subject, each.factors.points) for each in pool.known] == [(SUBJECT, 1)]

    @pytest.mark.parametrize(
        ("factor", "points", "after_seconds", "changes"),
        [
            (1.5, 12, 299, False),
            (1.04, 12, 3600, False),
            (1.06, 12, 300, True),
            (0.94, 12, 300, True),
            (1, 24, 300, True),
        ],
    )
    def test_it_stays_until_it_is_old_and_off(
        self,
        factor: float,
        points: int,
        after_seconds: float,
        changes: bool,  # noqa: FBT001 - a case
    ) -> None:
        """L3: 5 %, or twice as many points, at most every 5 minutes."""
        known = (Calibrated(SUBJECT, Calibration(1.2, 1.2, 12, 12), START),)
        memory = CalibrationMemory(SUBJECT, Calibration(1.2 * factor, 1.2, points, points))
        assert (in_force(known, memory, START + after_seconds) != known) is changes

    def test_enough_points_are_told_once(self) -> None:
        known = (Calibrated(SUBJECT, Calibration(1.2, 1.2, 8, 8), START),)
        assert in_force(known, CalibrationMemory(SUBJECT, Calibration(1.2, 1.2, 9, 9)), START + 900) == known
        found = in_force(known, CalibrationMemory(SUBJECT, Calibration(1.2, 1.2, 10, 10)), START + 900)
        assert found[0].factors.points == 10

    def test_a_steady_pool_ends_in_no_write(self) -> None:
        """L3: a few while it learns, a dozen more as points double, and none after a thousand points."""
        pool = FixedCosts(Calibration(1.3, 0.9))
        pool.run(60)
        learning = pool.writes
        pool.run(1000)
        counted = pool.writes
        pool.run(50)
        assert learning <= 20
        assert counted - learning <= 6
        assert pool.writes == counted

    def test_a_restart_goes_on_from_what_is_in_force(self) -> None:
        pool = Pool(Calibration(1.6, 1.3))
        before = pool.run(30)
        pool.memory = None
        after = pool.step()
        assert max(off(after, before)) < 1.05
        assert after.points > 15

    def test_what_was_measured_with_another_release_or_model_goes(self) -> None:
        newer = replace(SUBJECT, release=replace(RELEASE, version="0.34.0"))
        other = replace(SUBJECT, model="meta-llama/Llama-3.1-8B-Instruct")
        sibling = Subject.of(LLAMA_70B, RELEASE, shape_of(LLAMA_70B, 2))
        known = tuple(Calibrated(each, Calibration(1.5, 1.5, 9, 9), START) for each in (newer, other, sibling))
        found = in_force(known, CalibrationMemory(SUBJECT, Calibration(1.1, 1.1, 1, 1)), START)
        assert [SUBJECT, sibling] == [each.subject for each in found]

    def test_the_last_four_shapes_are_kept(self) -> None:
        known: tuple[Calibrated, ...] = ()
        for tensor in (1, 2, 4, 8, 16):
            subject = Subject.of(LLAMA_70B, RELEASE, shape_of(LLAMA_70B, tensor))
            known = in_force(known, CalibrationMemory(subject, Calibration(1.1, 1.1, 1, 1)), START)
        assert [each.subject.shape for each in known] == [
            "H200 BF16 TP16",
            "H200 BF16 TP8",
            "H200 BF16 TP4",
            "H200 BF16 TP2",
        ]

    def test_kin_lend_factors_but_no_points(self) -> None:
        known = (Calibrated(SUBJECT, Calibration(1.5, 1.2, 40, 30), START),)
        sibling = Subject.of(LLAMA_70B, RELEASE, shape_of(LLAMA_70B, 8))
        assert factors_for(sibling, known) == Calibration(1.5, 1.2)
        assert measured_on(sibling, known) is None
        for stranger in (
            replace(sibling, model="another"),
            replace(sibling, accelerator="H100"),
            replace(sibling, release=replace(RELEASE, version="0.34.0")),
        ):
            assert factors_for(stranger, known) == Calibration()
