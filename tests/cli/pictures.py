"""Pictures of plans, as the tests of what draws them need them."""

from __future__ import annotations

from functools import cache

from tests.shaping.cases import CATALOG, DEEPSEEK, GB200, Wish
from weft.cli.plan.picture import Picture, picture_of
from weft.domain.hardware import Precision
from weft.domain.shape import EngineName, Shape
from weft.domain.workload import Role, Slo
from weft.shaping.outlook import Curve, CurvePoint

OUT_OF_REACH = Slo(tpot=((95, 0.001),))


def shape(tensor_parallel: int) -> Shape:
    return Shape(EngineName.VLLM, "H200", Precision.BF16, tensor_parallel)


def curve(tensor_parallel: int, *points: tuple[float, float]) -> Curve:
    """Of tokens a second per user and per GPU; the rest is of no matter."""
    return Curve(shape(tensor_parallel), tuple(CurvePoint(user, gpu, gpu / 50.0) for user, gpu in points))


@cache
def llama() -> Picture:
    """Three shapes, and a target that can be met."""
    return picture_of(Wish().request(), CATALOG)


@cache
def deepseek() -> Picture:
    """More than forty shapes."""
    return picture_of(Wish(DEEPSEEK, (GB200,), rate=20).request(), CATALOG)


@cache
def out_of_reach() -> Picture:
    """A target that nothing meets."""
    return picture_of(Wish(slo=OUT_OF_REACH).request(), CATALOG)


@cache
def prefill() -> Picture:
    """A pool that makes no tokens after the first."""
    return picture_of(Wish(role=Role.Prefill, slo=Slo(ttft=((95, 2.0),))).request(), CATALOG)
