"""What was learnt from a pool's metrics, in the choice of its shape."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.shaping.cases import CATALOG, H200, LLAMA_8B, LLAMA_70B, Wish
from weft.catalog.calibrated import ENOUGH_POINTS, calibrated_spread
from weft.catalog.uncertainty import Spread
from weft.domain.calibration import Calibrated, CalibrationSubject
from weft.domain.hardware import Precision
from weft.domain.shape import Calibration, EngineName, EngineRelease, Plan, Shape
from weft.shaping import choose
from weft.shaping.candidates import Option
from weft.shaping.case import ShapeCase

RELEASE = EngineRelease(EngineName.VLLM, "0.33.0", "docker.io/vllm/vllm-openai:v0.33.0")
RUNNING = Shape(EngineName.VLLM, "H200", Precision.BF16, tensor_parallel=4, gpus_per_pod=4)
LEARNT = Calibration(1.5, 1.25, 40, 30)


def case(shape: Shape, learnt: Calibration = LEARNT, release: EngineRelease | None = RELEASE) -> ShapeCase:
    """A shape beside what was learnt of the running one."""
    subject = CalibrationSubject.of(LLAMA_70B, RELEASE, RUNNING)
    request = replace(Wish(LLAMA_70B).request(), engine=release, calibration=(Calibrated(subject, learnt, 0.0),))
    supply = replace(H200, accelerator=shape.accelerator)
    return ShapeCase(Option(shape, supply, CATALOG.accelerator(shape.accelerator)), request, CATALOG)


def test_the_running_shape_has_its_factors_and_a_narrow_error_bar() -> None:
    measured = case(RUNNING)
    assert measured.replica.calibration == Calibration(LEARNT.prefill, LEARNT.decode)
    assert (measured.error_bar.ttft, measured.error_bar.tpot) == (1.3, 1.12)


def test_kin_have_the_factors_and_all_of_the_error_bar() -> None:
    kin = case(replace(RUNNING, tensor_parallel=2, gpus_per_pod=2))
    fresh = case(replace(RUNNING, tensor_parallel=2, gpus_per_pod=2), Calibration())
    assert (kin.replica.calibration.prefill, kin.replica.calibration.decode) == (1.5, 1.25)
    assert kin.error_bar == fresh.error_bar
    assert kin.error_bar.tpot > 1.12


@pytest.mark.parametrize(
    "stranger",
    [replace(RUNNING, precision=Precision.FP8), replace(RUNNING, accelerator="H100")],
    ids=["another precision", "another accelerator"],
)
def test_strangers_have_neither(stranger: Shape) -> None:
    assert case(stranger).replica.calibration == Calibration()
    assert case(stranger).error_bar == case(stranger, Calibration()).error_bar


@pytest.mark.parametrize("release", [None, replace(RELEASE, version="0.34.0")])
def test_another_release_has_neither(release: EngineRelease | None) -> None:
    assert case(RUNNING, release=release).replica.calibration == Calibration()
    assert case(RUNNING, release=release).error_bar == case(RUNNING, Calibration()).error_bar


def test_the_error_bar_narrows_after_ten_points_and_of_ttft_after_ten_that_told_of_prompts() -> None:
    wide = case(RUNNING, Calibration(1.0, 1.0, ENOUGH_POINTS - 1, ENOUGH_POINTS - 1)).error_bar
    half = case(RUNNING, Calibration(1.0, 1.0, ENOUGH_POINTS, 3)).error_bar
    assert (half.ttft, half.tpot) == (wide.ttft, 1.12)
    assert wide.tpot > 1.12


def test_a_running_shape_that_is_measured_is_not_left_for_a_guess() -> None:
    """What is measured takes whatever it takes: a guess that takes half at most would always look better."""
    rival = replace(RUNNING, tensor_parallel=2, gpus_per_pod=2)
    running = replace(choose(Wish(LLAMA_70B).request(), CATALOG), engine=RELEASE, shape=RUNNING)

    def beside(shape: Shape, points: int) -> ShapeCase:
        found = case(shape, replace(LEARNT, points=points))
        return replace(found, request=replace(found.request, incumbent=running))

    assert not beside(rival, ENOUGH_POINTS).error_bar.guessed
    assert beside(rival, ENOUGH_POINTS - 1).error_bar.guessed
    assert case(rival).error_bar.guessed, "where nothing runs, all are guesses"
    assert not beside(RUNNING, ENOUGH_POINTS).error_bar.guessed
    assert beside(RUNNING, ENOUGH_POINTS - 1).error_bar.guessed


def test_the_error_bar_never_widens() -> None:
    known = Spread(1.1, 1.05, 1.2, 1.1, 1.05, 1.2, 2.0, 2.0)
    assert calibrated_spread(known, Calibration(1.0, 1.0, 100, 100)) == known


def test_measured_tails_take_the_place_of_the_error_bar() -> None:
    """With a little care, whether they are shorter or longer than it was."""
    found = case(RUNNING, Calibration(1.0, 1.0, 3, 3, 1.6, 0.9)).error_bar
    assert (found.ttft, found.tpot) == pytest.approx((1.05 * 1.6, 1.05 * 0.9))
    half = case(RUNNING, Calibration(1.0, 1.0, ENOUGH_POINTS, 3, None, 1.0)).error_bar
    assert (half.ttft, half.tpot) == pytest.approx((case(RUNNING, Calibration()).error_bar.ttft, 1.05))


def plan_with(learnt: Calibration, rate: float = 40.0) -> Plan:
    """What is chosen beside a running TP1 of which so much is known."""
    wish = Wish(LLAMA_8B, (H200,), rate=rate)
    before = wish.plan(release=RELEASE)
    subject = CalibrationSubject.of(LLAMA_8B, RELEASE, before.shape)
    known = (Calibrated(subject, learnt, 0.0),)
    return choose(replace(wish.request(before, RELEASE), calibration=known), CATALOG)


def test_capacity_follows_the_factors() -> None:
    """An engine that is slower than predicted serves less, and a faster one more."""
    slow, exact, fast = (plan_with(Calibration(factor, factor, 40, 40)) for factor in (1.5, 1.0, 0.7))
    assert slow.prediction.capacity < exact.prediction.capacity < fast.prediction.capacity


def test_a_change_that_saves_less_than_15_percent_is_not_made_for_it() -> None:
    """Slightly other factors leave the running shape as it is."""
    shapes = {str(plan_with(Calibration(factor, factor, 40, 40)).shape) for factor in (0.95, 1.0, 1.05)}
    assert len(shapes) == 1
