"""The sentences of a plan: why a shape won or lost has to be true in every case."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.shaping.cases import CATALOG, H100, LLAMA_8B, MI300X, Wish
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.workload import Slo
from weft.perf.misses import Miss
from weft.shaping import Supply, choose
from weft.shaping.outlook import variations

if TYPE_CHECKING:
    from weft.domain.shape import Plan


def said(plan: Plan, shape: str) -> tuple[Reason, str]:
    """Why a shape lost, in full."""
    verdict = next(each.verdict for each in plan.alternatives if str(each.shape) == shape)
    return verdict.reason, verdict.message


def test_the_cheaper_of_shapes_that_are_built_alike_is_told_as_cheaper() -> None:
    """Within a tenth, and none of them is simpler."""
    h800 = Supply("H800", H100.memory_bytes, domain_gpus=8, gpus_per_node=8)
    plan = Wish(LLAMA_8B, (H100, h800), rate=1).plan()
    assert str(plan.shape) == "H800 BF16 TP1"
    why = (Reason.CostsMore, "1 x H100 BF16 TP1 cost 1, 1 x H800 BF16 TP1 cost 0.95")
    assert why == said(plan, "H100 BF16 TP1")


def test_a_tie_is_told_as_a_tie() -> None:
    plan = Wish(LLAMA_8B, (H100, replace(MI300X, accelerator="MI325X")), rate=1).plan()
    assert str(plan.shape) == "H100 BF16 TP1"
    bills = "1 x MI325X BF16 TP1 cost 1, 1 x H100 BF16 TP1 cost 1"
    why = (Reason.SimplerWins, f"{bills}, which is as simple: a tie that goes by the name")
    assert why == said(plan, "MI325X BF16 TP1")


def test_more_bits_win_where_the_rest_is_alike() -> None:
    wish = Wish(LLAMA_8B, (H100,), rate=1).request()
    model = replace(wish.spec.model, precisions=(Precision.BF16, Precision.FP8))
    plan = choose(replace(wish, spec=replace(wish.spec, model=model)), CATALOG)
    assert str(plan.shape) == "H100 BF16 TP1"
    reason, message = said(plan, "H100 FP8 TP1")
    assert reason is Reason.SimplerWins
    assert message.endswith("which keeps more bits of the weights")


def test_one_request_a_second_is_told_in_the_singular() -> None:
    wish = Wish(LLAMA_8B, (H100,), rate=1)
    assert "for 1 request/s and 10% headroom" in wish.plan().verdict.message
    half = replace(wish, rate=0.5).request()
    assert "1 request/s" in [each.wish for each in variations(half, CATALOG)]


def test_times_of_hours_are_told_without_an_exponent() -> None:
    """A target of an hour and a half, which nothing misses, and one of a microsecond."""
    wish = Wish(slo=Slo(ttft=((95, 5400.0),)))
    wishes = [each.wish for each in variations(wish.request(), CATALOG)]
    assert ["TTFT p95=8100s", "TTFT p95=3600s", "10 requests/s"] == wishes
    assert "e-" not in Wish(slo=Slo(tpot=((95, 1e-6),))).plan().verdict.message
    assert "TTFT p95 90 min of 2 s" == str(Miss("TTFT", 95, 2.0, 5400.0))


def test_nobody_waits_for_a_token_after_the_only_one() -> None:
    """A classifier: its TPOT is neither predicted nor a reason to buy more, and no wish for another one is tried."""
    request = Wish(LLAMA_8B, (H100,), slo=Slo(ttft=((95, 2.0),), tpot=((95, 0.0001),))).request()
    one = replace(request, workload=replace(request.workload, output_tokens=1.0, output_tokens_p95=1.0))
    plan = choose(one, CATALOG)
    assert plan.verdict.reason is Reason.ShapeChosen
    assert plan.prediction.tpot.mean == plan.prediction.tpot.p99 == 0.0
    assert all(each.prediction is None or each.prediction.tpot.mean == 0.0 for each in plan.alternatives)
    assert not [each.wish for each in variations(one, CATALOG) if "TPOT" in each.wish]
    assert choose(request, CATALOG).verdict.reason is Reason.BestEffort
