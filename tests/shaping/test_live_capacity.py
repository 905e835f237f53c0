"""What a replica shall serve of traffic that is no longer what was declared."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from tests.shaping.cases import CATALOG, DEEPSEEK, LLAMA_8B, LLAMA_70B, Wish
from weft.decide.plans.wished_shapes import pinned_to
from weft.domain.reasons import Reason
from weft.domain.workload import Role, Slo, Workload
from weft.perf.service import service
from weft.shaping import capacity_of, choose, planned_capacity, replanned_capacity
from weft.shaping.candidates import Option
from weft.shaping.case import ShapeCase

if TYPE_CHECKING:
    from weft.domain.shape import Plan
    from weft.shaping import ShapeRequest

TIGHT_FIRST_TOKENS = Slo(ttft=((95, 0.5),), tpot=((95, 0.05),))


def capacities(wish: Wish, times: list[float]) -> list[float]:
    """Of the chosen shape, with prompts so many times as long as declared."""
    request = wish.request()
    plan = choose(request, CATALOG)
    return [capacity_of(plan, request, CATALOG, longer(request.workload, each)).alone for each in times]


def longer(workload: Workload, times: float) -> Workload:
    return replace(
        workload, input_tokens=times * workload.input_tokens, input_tokens_p95=times * workload.input_tokens_p95
    )


@pytest.mark.parametrize("model", [LLAMA_8B, DEEPSEEK])
def test_ever_longer_prompts_never_make_capacity_collapse(model: str) -> None:
    """Up to prompts that miss the target on an idle replica: a twentieth longer, at most a seventh less is served."""
    steps = [1.05**step for step in range(1, 80)]
    found = capacities(Wish(model, slo=TIGHT_FIRST_TOKENS), steps)
    assert all(0.0 < after <= 1.01 * before for before, after in pairwise(found))
    assert all(after > before / 1.17 for before, after in pairwise(found))


@pytest.mark.parametrize("percentile", [95, 99])
def test_a_few_long_prompts_leave_no_replica_idle(percentile: int) -> None:
    """One in twenty is far longer than the mean: whoever waits behind it waits for it, and not for a replica."""
    request = Wish(LLAMA_70B, slo=Slo(ttft=((percentile, 2.0),)), role=Role.Prefill).request()
    plan = choose(request, CATALOG)
    for step in range(40):
        live = longer(request.workload, 1.1**step)
        live = replace(live, input_tokens_p95=3.5 * live.input_tokens)
        capacity = capacity_of(plan, request, CATALOG, live).alone
        enough = capacity >= 0.499 * plan.prediction.capacity
        assert enough or busy(plan, request, live, capacity) > 0.28


def busy(plan: Plan, request: ShapeRequest, live: Workload, rate: float) -> float:
    """The part of its time that one replica of a plan spends on prompts and what shares steps, or its links do."""
    supply = next(each for each in request.supplies if each.accelerator == plan.shape.accelerator)
    option = Option(plan.shape, supply, CATALOG.accelerator(plan.shape.accelerator))
    point = service(ShapeCase(option, request, CATALOG).replica, live, request.spec.role).at_rate(rate)
    assert point is not None
    return max(point.utilisation, point.sending)


def test_what_more_replicas_help_is_bought() -> None:
    """Prompts half as long again: all that is served is within the target, not just what is cheap."""
    wish = Wish(LLAMA_8B, slo=TIGHT_FIRST_TOKENS)
    request = wish.request()
    plan = choose(request, CATALOG)
    live = longer(request.workload, 1.5)
    strict = choose(replace(request, workload=live, spec=replace(request.spec, workload=live)), CATALOG)
    assert strict.shape == plan.shape
    assert capacity_of(plan, request, CATALOG, live).alone == pytest.approx(strict.prediction.capacity)


def test_prompts_a_little_beyond_a_close_target_double_the_replicas_at_most() -> None:
    """Declared within a hundredth of what an idle replica takes, a tenth longer is out of reach of any count."""
    closest = next(
        wish
        for wish in (Wish(LLAMA_8B, slo=Slo(ttft=((95, 0.04 * 1.01**step),))) for step in range(100))
        if wish.plan().verdict.reason is not Reason.BestEffort
    )
    declared, *longer_ones = capacities(closest, [1.0, 1.1, 1.3])
    assert declared > 0
    assert all(each >= declared / 2.0 * 0.999 for each in longer_ones)


def test_best_effort_stays_best_effort() -> None:
    """A target that no idle replica reaches with the declared lengths either: as much as was planned."""
    planned, live = capacities(Wish(LLAMA_8B, slo=Slo(ttft=((95, 0.001),))), [1.0, 1.01])
    assert live == pytest.approx(planned, rel=0.05)


@pytest.mark.parametrize("times", [0.2, 1.0, 3.0, 12.0])
@pytest.mark.parametrize("managed", [True, False])
def test_what_a_plan_for_other_prompts_would_say_is_known_without_it(times: float, managed: bool) -> None:  # noqa: FBT001
    """Also where they miss the targets on an idle replica, and the plan is made for what is in reach."""
    request = replace(Wish(LLAMA_8B, slo=TIGHT_FIRST_TOKENS).request(), managed=managed)
    shape = choose(request, CATALOG).shape
    live = longer(request.workload, times)
    other = replace(request, workload=live, spec=pinned_to(replace(request.spec, workload=live), shape))
    plan = choose(other, CATALOG)
    assert (shape, times < 12.0) == (plan.shape, plan.verdict.reason is not Reason.BestEffort)
    assert planned_capacity(plan, other, CATALOG) == replanned_capacity(shape, other, CATALOG)
