"""What is decided is written into status and read back as exactly the same; a steady state writes nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.decisions import CONDITIONS, DECISIONS, FIGURES, INSTANTS, RELEASES, SECONDS, SHAPES
from weft.api import (
    converge_status,
    parse_pool,
    parse_split,
    pool_status,
    quantised,
    split_converge_status,
    split_status,
)
from weft.api.fields import MAX_MESSAGE_CHARACTERS
from weft.api.figures import figure, milliseconds, read_figure, read_milliseconds
from weft.api.status import InferencePoolStatus, PDSplitStatus, PoolObservedStatus
from weft.domain.calibration import Calibrated, CalibrationSubject
from weft.domain.decision import PoolDecision, SplitDecision
from weft.domain.forecast import KeptForecast
from weft.domain.hardware import Precision
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import Calibration, EngineName, EngineRelease
from weft.domain.snapshot import ResourceKey
from weft.domain.start_up import StartUp
from weft.domain.status import Assignment, Condition, Observed, PoolProgress, PoolStatus, SplitProgress
from weft.domain.texts.times import instant, read_instant

Json = dict[str, Any]

NOW = 1782892800.0  # 2026-07-01T08:00:00Z
POOL = ResourceKey("InferencePool", "team", "chat", "u-1")
READY = Condition("Ready", "True", Explanation(Reason.Serving, "2 of 2 replicas answer"))


def _decision(status: PoolStatus, *conditions: Condition) -> PoolDecision:
    return PoolDecision(POOL, 3, status, 1, conditions)


@settings(max_examples=50)
@given(DECISIONS)
def test_a_decision_is_read_back_as_it_was_written(decision: PoolDecision) -> None:
    """L5: a restart decides on exactly what was decided before it."""
    record = parse_pool({"status": pool_status(decision, {}, NOW)})

    assert record.status == decision.status
    assert record.conditions == decision.conditions


@settings(max_examples=50)
@given(DECISIONS)
def test_a_written_decision_obeys_the_schema(decision: PoolDecision) -> None:
    written = pool_status(decision, {}, NOW)
    assert InferencePoolStatus.model_validate(written).model_dump(by_alias=True, exclude_unset=True) == written


@settings(max_examples=50)
@given(DECISIONS)
def test_the_same_decision_again_writes_nothing_new(decision: PoolDecision) -> None:
    """L3."""
    written = pool_status(decision, {}, NOW)
    assert pool_status(decision, written, NOW + 3600) == written


@given(FIGURES)
def test_a_figure_is_exact(value: float) -> None:
    assert read_figure(figure(value)) == value


@given(SECONDS)
def test_a_time_in_milliseconds_is_exact(seconds: float) -> None:
    assert read_milliseconds(milliseconds(seconds)) == seconds


@given(INSTANTS)
def test_an_instant_is_exact(epoch_seconds: float) -> None:
    assert read_instant(instant(epoch_seconds)) == epoch_seconds


@pytest.mark.parametrize("zone", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_a_replica_since_a_year_without_a_name_is_as_if_never_written(zone: str) -> None:
    """Writing it again would fail, and with it the decisions of all pools that come after."""
    assigned = PoolStatus(assignments=(Assignment(0, "r", ("n",), 1, NOW),))
    written = pool_status(_decision(assigned), {}, NOW)
    assert parse_pool({"status": written}).status.assignments
    written["assignments"][0]["since"] = zone
    assert parse_pool({"status": written}).status.assignments == ()


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0"), (2.0, "2"), (2.35, "2.35"), (1e10, "10000000000"), (1e-9, "1e-9")]
)
def test_figures_are_plain_to_read(value: float, shown: str) -> None:
    assert figure(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0, "0ms"), (0.00825, "8.25ms"), (1.5, "1500ms"), (100.0, "100000ms")]
)
def test_times_are_plain_to_read(seconds: float, shown: str) -> None:
    assert milliseconds(seconds) == shown


def test_instants_are_plain_to_read() -> None:
    assert (instant(NOW), instant(NOW + 0.25)) == ("2026-07-01T08:00:00Z", "2026-07-01T08:00:00.25Z")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_never_written(value: float) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        figure(value)


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = pool_status(_decision(PoolStatus(), READY), {}, NOW)
    other_words = replace(READY, explanation=Explanation(Reason.Serving, "3 of 3 replicas answer"))
    second = pool_status(_decision(PoolStatus(), other_words), first, NOW + 60)
    third = pool_status(_decision(PoolStatus(), replace(READY, status="False")), second, NOW + 120)

    times = [status["conditions"][0]["lastTransitionTime"] for status in (first, second, third)]
    assert times == ["2026-07-01T08:00:00Z", "2026-07-01T08:00:00Z", "2026-07-01T08:02:00Z"]
    assert second["conditions"][0]["message"] == "3 of 3 replicas answer"


def test_a_condition_says_which_generation_it_is_about() -> None:
    assert pool_status(_decision(PoolStatus(), READY), {}, NOW)["conditions"][0]["observedGeneration"] == 3


def test_last_words_of_any_length_are_cut() -> None:
    endless = replace(READY, explanation=Explanation(Reason.EngineFailed, "x" * 100_000))
    written = pool_status(_decision(PoolStatus(), endless), {}, NOW)
    assert len(written["conditions"][0]["message"]) == MAX_MESSAGE_CHARACTERS
    InferencePoolStatus.model_validate(written)


SPLIT = ResourceKey("PDSplit", "team", "chat", "u-1")
SPLIT_DECISIONS = st.builds(
    SplitDecision,
    st.just(SPLIT),
    st.integers(1, 100),
    st.none() | RELEASES,
    st.integers(0, 1000),
    st.integers(0, 1000),
    CONDITIONS,
    prefill_shape=st.none() | SHAPES,
    decode_shape=st.none() | SHAPES,
)


@settings(max_examples=30)
@given(SPLIT_DECISIONS)
def test_a_split_is_read_back_as_it_was_written(decision: SplitDecision) -> None:
    written = split_status(decision, {}, NOW)
    PDSplitStatus.model_validate(written)
    record = parse_split({"status": written})

    assert record.status.engine == decision.engine
    assert record.conditions == decision.conditions
    counts = (written["prefill"]["desired"], written["decode"]["desired"])
    assert counts == (decision.prefill_desired, decision.decode_desired)


def test_a_split_shows_its_ratio_and_both_shapes() -> None:
    decision = SplitDecision(SPLIT, 2, None, 1, 3, ())
    assert split_status(decision, {}, NOW)["ratio"] == "0.33"
    assert "ratio" not in split_status(replace(decision, decode_desired=0), {}, NOW)


def test_the_two_writers_share_no_field() -> None:
    """One owner per field; conditions are shared by type, and the sides of a split by field."""
    decided = pool_status(_decision(PoolStatus(), READY), {}, NOW)
    converged = converge_status(PoolProgress(3, 2, 2, "weft.dev/rank=0", "http://chat", (READY,)), {}, NOW)
    assert decided.keys() & converged.keys() == {"conditions"}

    split = SplitDecision(SPLIT, 2, None, 1, 1, ())
    one, other = (
        split_status(split, {}, NOW),
        split_converge_status(SplitProgress(2, 1, 1, 1, 1, 2, "http://x"), {}, NOW),
    )
    assert one.keys() & other.keys() == {"conditions", "prefill", "decode"}
    assert one["prefill"].keys() & other["prefill"].keys() == set()


def test_progress_obeys_the_schema() -> None:
    progress = PoolProgress(3, 2, 1, "weft.dev/pool-uid=u,weft.dev/rank=0", None, (READY,))
    shown = InferencePoolStatus.model_validate(converge_status(progress, {}, NOW))
    assert (shown.replicas, shown.ready_replicas) == (2, 1)
    pair = PDSplitStatus.model_validate(split_converge_status(SplitProgress(2, conditions=(READY,)), {}, NOW))
    assert [condition.reason for condition in pair.conditions or ()] == [READY.explanation.reason]


class TestLiveFigures:
    """L3: live figures are rewritten after a change of 5 %, at most every 5 minutes."""

    OBSERVED = Observed(10.04, 1000.0, 200.0, 0.25, ((95, 0.4),), ((50, 0.02), (95, 0.03)), 0.99, ("inputTokens",))

    @staticmethod
    def written(observed: Observed, live: Json, now: float) -> Json:
        figures: Json = pool_status(_decision(PoolStatus(observed=observed)), live, now)["observed"]
        return figures

    def test_they_are_rounded(self) -> None:
        assert self.written(self.OBSERVED, {}, NOW) == {
            "requestsPerSecond": "10",
            "inputTokens": "1000",
            "outputTokens": "200",
            "prefixHitPercent": "25",
            "attainmentPercent": "99",
            "ttft": {"p95": "400ms"},
            "tpot": {"p50": "20ms", "p95": "30ms"},
            "live": ["inputTokens"],
            "updated": "2026-07-01T08:00:00Z",
        }

    def test_those_of_a_split_are_shown_and_kept_likewise(self) -> None:
        def written(observed: Observed, live: Json, now: float) -> Json:
            decision = SplitDecision(SPLIT, 1, None, 1, 1, (), observed=observed)
            figures: Json = split_status(decision, live, now)["observed"]
            return figures

        shown = written(self.OBSERVED, {}, NOW)
        assert shown == self.written(self.OBSERVED, {}, NOW)
        PDSplitStatus.model_validate({"observed": shown})
        more = replace(self.OBSERVED, requests_per_second=20.0)
        assert written(more, {"observed": shown}, NOW + 299) == shown
        assert written(more, {"observed": shown}, NOW + 300)["requestsPerSecond"] == "20"

    @pytest.mark.parametrize(
        ("factor", "after_seconds", "rewritten"),
        [(1.5, 299, False), (1.04, 3600, False), (1.06, 300, True), (0.9, 301, True)],
    )
    def test_they_stay_until_they_are_old_and_off(self, factor: float, after_seconds: float, rewritten: bool) -> None:  # noqa: FBT001 - a case
        shown = self.written(self.OBSERVED, {}, NOW)
        changed = replace(self.OBSERVED, requests_per_second=10 * factor)
        assert (self.written(changed, {"observed": shown}, NOW + after_seconds) != shown) == rewritten

    def test_transfers_are_shown_and_kept_beside_what_is_expected_of_them(self) -> None:
        moved = replace(self.OBSERVED, transfer=0.15, transfer_expected=0.0351)
        shown = self.written(moved, {}, NOW)
        assert (shown["transfer"], shown["transferExpected"]) == ("150ms", "35.1ms")
        PoolObservedStatus.model_validate(shown)
        near, off = replace(moved, transfer=0.151), replace(moved, transfer=0.3)
        assert self.written(near, {"observed": shown}, NOW + 3600) == shown
        assert self.written(off, {"observed": shown}, NOW + 300)["transfer"] == "300ms"

    def test_a_percentile_that_appears_is_a_change(self) -> None:
        shown = self.written(self.OBSERVED, {}, NOW)
        changed = replace(self.OBSERVED, ttft=((95, 0.4), (99, 0.9)))
        assert self.written(changed, {"observed": shown}, NOW + 300)["ttft"] == {"p95": "400ms", "p99": "900ms"}

    def test_caveats_stay_as_they_are_written_in_whatever_order_they_come(self) -> None:
        """L3, for names of live values too: neither has an order of its own."""
        said = replace(self.OBSERVED, caveats=("b" * 300, "a"), live=("requestsPerSecond", "inputTokens"))
        shown = self.written(said, {}, NOW)
        assert shown["caveats"] == ["a", "b" * 256]
        PoolObservedStatus.model_validate(shown)
        assert self.written(said, {"observed": shown}, NOW + 3600) == shown
        assert "caveats" not in self.written(self.OBSERVED, {"observed": shown}, NOW + 300)

    @given(st.floats(1, 100), st.floats(0, 1e6))
    def test_a_figure_that_does_not_change_is_written_once(self, value: float, later: float) -> None:
        shown = quantised(None, value, None, NOW)
        assert quantised(shown, value, NOW, NOW + later) == shown

    def test_an_unreadable_figure_is_replaced(self) -> None:
        assert "updated" in self.written(self.OBSERVED, {"observed": {"requestsPerSecond": "many"}}, NOW)

    @pytest.mark.parametrize("time", ["soon", "2026-07-01T08:00:00", "9999-12-31T23:59:59-12:00", 7])
    def test_figures_of_an_unreadable_time_are_replaced(self, time: object) -> None:
        """Anybody may write a status; one in a year without a name stopped all writes of that pool."""
        shown = self.written(self.OBSERVED, {}, NOW) | {"updated": time}
        more = replace(self.OBSERVED, requests_per_second=20.0)
        assert self.written(more, {"observed": shown}, NOW)["updated"] == "2026-07-01T08:00:00Z"


class TestCalibration:
    """`status.calibration` is read back exactly, for decisions use it."""

    SUBJECT = CalibrationSubject(
        "Llama", EngineRelease(EngineName.VLLM, "0.33.0", "vllm:0.33.0"), "H200", Precision.FP8, "H200 FP8 TP4"
    )
    KNOWN = (Calibrated(SUBJECT, Calibration(1.12, 0.94, 37, 31), NOW),)

    def written(self) -> Json:
        return pool_status(_decision(PoolStatus(calibration=self.KNOWN)), {}, NOW)

    def test_it_is_good_to_read(self) -> None:
        assert self.written()["calibration"] == [
            {
                "shape": "H200 FP8 TP4",
                "accelerator": "H200",
                "precision": "FP8",
                "model": "Llama",
                "engine": {"name": "VLLM", "version": "0.33.0", "image": "vllm:0.33.0"},
                "prefill": "1.12",
                "decode": "0.94",
                "points": 37,
                "promptPoints": 31,
                "updated": "2026-07-01T08:00:00Z",
            }
        ]

    def test_nothing_is_written_before_anything_is_learnt(self) -> None:
        assert "calibration" not in pool_status(_decision(PoolStatus()), {}, NOW)

    @pytest.mark.parametrize("factor", ["0", "0.2", "4.1", "1e300", "NaN", "fast"])
    def test_a_factor_that_no_measurement_gives_is_as_if_never_written(self, factor: str) -> None:
        """Whoever may write a status must not make the operator believe in engines a thousand times as fast."""
        written = self.written()
        written["calibration"][0]["decode"] = factor
        assert parse_pool({"status": written}).status.calibration == ()


class TestForecast:
    """`status.forecast` is text for scaling, and read back as it was written."""

    KEPT = KeptForecast("1.AAECAw==", NOW)

    def written(self) -> Json:
        return pool_status(_decision(PoolStatus(forecast=self.KEPT)), {}, NOW)

    def test_it_says_when_it_was_written(self) -> None:
        assert self.written()["forecast"] == {"learnt": "1.AAECAw==", "updated": "2026-07-01T08:00:00Z"}

    def test_nothing_is_written_before_anything_is_learnt(self) -> None:
        assert "forecast" not in pool_status(_decision(PoolStatus()), {}, NOW)

    @pytest.mark.parametrize("odd", [{"learnt": "1." + "A" * 3000}, {"learnt": ""}, {"learnt": 7}, {"updated": "soon"}])
    def test_what_nobody_wrote_is_as_if_never_written(self, odd: Json) -> None:
        """And leaves the rest of the status as it was."""
        written = self.written()
        written["forecast"] |= odd
        assert parse_pool({"status": written | {"desiredReplicas": 3}}).status == PoolStatus(desired_replicas=3)


class TestStartUp:
    """`status.startUp` says in one line which time is in use, and is read back by its numbers."""

    TOLD = StartUp(100, 68, 148, measured=140)

    def written(self, told: StartUp | None = TOLD) -> Json:
        return pool_status(_decision(PoolStatus(start_up=told)), {}, NOW)

    def test_the_line_and_its_numbers(self) -> None:
        assert self.written()["startUp"] == {
            "message": str(self.TOLD),
            "imageSeconds": 100,
            "weightsSeconds": 68,
            "engineSeconds": 148,
            "measuredSeconds": 140,
        }

    def test_phases_that_were_measured_are_told_by_name_and_read_back(self) -> None:
        told = replace(self.TOLD, phases=(2, 38, 0, 60, 40))
        found = self.written(told)["startUp"]
        assert found["phases"] == {
            "setupSeconds": 2,
            "imageSeconds": 38,
            "downloadSeconds": 0,
            "weightsSeconds": 60,
            "engineSeconds": 40,
        }
        assert found["message"].startswith("140 s measured: setup 2 s, image 38 s, weights 60 s, engine 40 s; 316 s")
        assert parse_pool({"status": self.written(told) | {"desiredReplicas": 3}}).status.start_up == told

    def test_an_estimate_says_nothing_of_a_measurement(self) -> None:
        assert "measuredSeconds" not in self.written(StartUp(100, 68, 148))["startUp"]
        assert "startUp" not in self.written(None)

    @pytest.mark.parametrize(
        "odd",
        [
            {"imageSeconds": -1},
            {"engineSeconds": "soon"},
            {"measuredSeconds": 10**9},
            {"phases": {"imageSeconds": 38}},
        ],
    )
    def test_what_nobody_wrote_is_as_if_never_written(self, odd: Json) -> None:
        written = self.written()
        written["startUp"] |= odd
        assert parse_pool({"status": written | {"desiredReplicas": 3}}).status == PoolStatus(desired_replicas=3)
