"""A running pool keeps its shape unless another is at least 15 % better, or its own no longer holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from tests.shaping.cases import B200, H100, H200, LLAMA_8B, LLAMA_70B, Wish, reasons
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.spec import ShapePins
from weft.domain.workload import Slo

if TYPE_CHECKING:
    from weft.domain.shape import Plan


def running(wish: Wish, tensor_parallel: int) -> Plan:
    """A plan as if somebody had pinned it once."""
    return replace(wish, pins=ShapePins(tensor_parallel=tensor_parallel)).plan()


def test_what_was_chosen_once_is_chosen_again() -> None:
    wish = Wish(LLAMA_70B, (H100, H200, B200))
    first = wish.plan()
    again = wish.plan(incumbent=first)
    assert again == first


def test_a_shape_that_is_as_cheap_stays_and_says_why() -> None:
    """TP2 costs the same as two replicas of TP1, which alone would win as the simpler."""
    wish = Wish(LLAMA_8B, (H100,), rate=30)
    plan = wish.plan(incumbent=running(wish, 2))
    assert str(plan.shape) == "H100 BF16 TP2"
    assert plan.verdict.reason is Reason.ShapeKept
    assert "H100 BF16 TP1 would cost as much, 2; a change must save 15 %" in plan.verdict.message
    assert reasons(plan)["H100 BF16 TP1"] is Reason.ShapeKept
    assert wish.plan(incumbent=plan) == plan


def test_a_much_cheaper_shape_replaces_the_running_one() -> None:
    wish = Wish(LLAMA_8B, (H100,))
    plan = wish.plan(incumbent=running(wish, 4))
    assert str(plan.shape) == "H100 BF16 TP1"
    assert plan.verdict.reason is Reason.ShapeChosen


def test_a_running_shape_that_misses_a_new_slo_is_replaced() -> None:
    loose = Wish(LLAMA_70B, (H200,), slo=Slo(tpot=((95, 0.1),)))
    tight = replace(loose, slo=Slo(tpot=((95, 0.018),)))
    before = loose.plan()
    after = tight.plan(incumbent=before)
    assert after.shape.tensor_parallel > before.shape.tensor_parallel
    assert after.verdict.reason is Reason.ShapeChosen


def test_a_running_shape_gives_way_to_a_pin_and_to_a_vanished_accelerator() -> None:
    wish = Wish(LLAMA_70B, (H100, H200))
    before = wish.plan()
    other = H100 if before.shape.accelerator == "H200" else H200
    assert replace(wish, supplies=(other,)).plan(incumbent=before).shape.accelerator == other.accelerator
    assert replace(wish, pins=ShapePins(tensor_parallel=8)).plan(incumbent=before).shape.tensor_parallel == 8
    assert replace(wish, precision=Precision.FP8).plan(incumbent=before).shape.precision is Precision.FP8


def test_under_an_slo_out_of_reach_the_running_shape_stays_unless_another_is_much_closer() -> None:
    wish = Wish(LLAMA_70B, (H200,), slo=Slo(tpot=((95, 0.001),)))
    best = wish.plan()
    assert wish.plan(incumbent=best) == best
    assert wish.plan(incumbent=running(wish, 2)).shape == best.shape


@given(st.floats(0.1, 200.0), st.floats(0.1, 200.0))
def test_deciding_twice_on_its_own_result_changes_nothing(before: float, after: float) -> None:
    first = Wish(LLAMA_8B, (H100, H200), rate=before).plan()
    second = Wish(LLAMA_8B, (H100, H200), rate=after).plan(incumbent=first)
    assert Wish(LLAMA_8B, (H100, H200), rate=after).plan(incumbent=second).shape == second.shape
