"""Two factors are learnt from live metrics, robustly and slowly, and never from what is not whole."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scaling.learning import (
    DECLARED,
    PODS,
    START,
    SUBJECT,
    WINDOW,
    FixedCosts,
    Pool,
    look,
    off,
    quiet,
    replica,
    reporting,
)
from tests.shaping.cases import DEEPSEEK, LLAMA_70B
from weft.domain.calibration import Calibrated
from weft.domain.pool_memory import CalibrationMemory, LoadSample
from weft.domain.shape import Calibration
from weft.domain.workload import Role
from weft.scaling.calibrating.calibration import CLAIMS, Means, is_due, is_quiet, learnt, load_of, of, settled, watched


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
        memory = CalibrationMemory(SUBJECT, Calibration(1.1, 0.9, 3, 3), PODS, START - 1000.0, START - 500.0)
        assert not is_due(memory, seen)
        assert watched(memory, seen, ()) == replace(memory, pods=(), quiet_since=None)

    @pytest.mark.parametrize(
        "changes",
        [
            {"ready": ()},
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

    def test_mostly_other_replicas_start_a_new_window(self) -> None:
        memory = watched(None, look(START), ())
        others = ("chat-2-0", "chat-3-0")
        seen = replace(quiet(), expected=3, answered=3, pods=(*quiet().pods[:1], *map(reporting, others)))
        grown = look(START + WINDOW, seen, ready=(PODS[0], *others))
        assert not is_due(memory, grown)
        assert watched(memory, grown, ()).quiet_since == START + WINDOW

    def test_who_starts_or_leaves_meanwhile_is_left_out(self) -> None:
        """A new replica answers, and another is expected to: the two that were there all the time are measured."""
        memory = watched(None, look(START), ())
        seen = replace(quiet(), expected=4, answered=3, pods=(*quiet().pods, reporting("chat-2-0", rate=0.1, tpot=9.0)))
        grown = look(START + WINDOW, seen, ready=(*PODS, "chat-2-0"))
        assert is_due(memory, grown)
        assert settled(memory, grown) == PODS
        alone = of(PODS, grown)
        assert alone.observation is not None
        assert alone.observation.tpot_mean == pytest.approx(0.02)
        assert load_of(alone, DECLARED).requests_per_second == 2.0
        gone = look(
            START + WINDOW, replace(quiet(rate=2.0), expected=1, answered=1, pods=quiet().pods[:1]), ready=PODS[:1]
        )
        assert is_due(memory, gone)
        assert load_of(of(settled(memory, gone), gone), DECLARED).requests_per_second == 2.0

    def test_a_clock_that_was_set_back_starts_anew_from_what_is_in_force(self) -> None:
        known = (Calibrated(SUBJECT, Calibration(1.3, 0.9, 20, 20), START),)
        ahead = CalibrationMemory(SUBJECT, Calibration(3.0, 3.0, 30, 30), PODS, START, START + 5000.0)
        assert watched(ahead, look(START), known).factors == Calibration(1.3, 0.9, 20, 20)

    def test_the_load_is_that_of_one_replica(self) -> None:
        seen = replace(quiet(rate=5.0), input_tokens=3000.0, prefix_hit=0.4)
        load = load_of(look(observation=seen), DECLARED)
        assert (load.requests_per_second, load.input_tokens, load.output_tokens) == (2.5, 3000.0, 200.0)
        assert (load.input_tokens_p95, load.output_tokens_p95, load.prefix_hit) == (6000.0, 400.0, 0.4)
