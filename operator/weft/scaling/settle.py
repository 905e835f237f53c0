"""From wanted to desired replicas: freeze, bounds, steps and what keeps a pool from shrinking, with the reason.

The persisted explanation describes the state after the change, never the change itself (that is an event) and never a
live number, so that a steady state writes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.scaling_spec import ScalingMode
from weft.domain.texts.figures import counted, moment_of, seconds
from weft.domain.values.changed import changed
from weft.domain.values.made_often import made_often
from weft.scaling.bounds import Bounds, bounds_of
from weft.scaling.shrinking import fewest_now, missing, steady, what_keeps_it

if TYPE_CHECKING:
    from weft.domain.pool_memory import ScaleMemory
    from weft.scaling.demand import Want
    from weft.scaling.shrinking import Held
    from weft.scaling.sight import ScaleRequest, Sight

# `maxStep` applies per this time, or a loop that runs often would make it meaningless.
STEP_SECONDS = 60.0


@made_often
@dataclass(frozen=True, slots=True)
class ScaleAnswer:
    """The count of one pool. `recommended` is what Auto would run; `memory` goes into the next request.

    `changed` is what happened in this pass, for an event; `wake_after_seconds` is when time alone changes the answer;
    `shortfall` says that the budget holds the count below the fewest that the spec asks for. `needed` is what traffic
    and forecasts need now, before bounds; while metrics are missing, the last known need. `declared` is as in `Want`.
    """

    desired: int
    recommended: int
    explanation: Explanation
    memory: ScaleMemory
    changed: Explanation | None = None
    wake_after_seconds: float | None = None
    shortfall: Explanation | None = None
    needed: int = 0
    declared: int = 0


def settle(sight: Sight, want: Want) -> ScaleAnswer:
    """The desired count for a want."""
    bounds = bounds_of(sight.request)
    answer = _settled(sight, want, bounds)
    return answer if bounds.shortfall is None else replace(answer, shortfall=bounds.shortfall)


def _settled(sight: Sight, want: Want, bounds: Bounds) -> ScaleAnswer:
    if sight.request.spec.mode is ScalingMode.External:
        return _external(sight, want, bounds)
    sight = changed(sight, memory=_remember_want(sight, want, bounds))
    desired = bounds.clamp(_next_count(sight, want, bounds))
    current = sight.request.current
    if desired == current:
        explanation, wake = _explain(sight, want, bounds)
        needed = current if want.replicas is None else want.replicas
        return ScaleAnswer(
            current, current, explanation, sight.memory, None, wake, needed=needed, declared=want.declared
        )
    reason = Reason.ScaleUp if desired > current else Reason.ScaleDown
    news = Explanation(
        reason, f"{current} -> {desired} replicas: {want.because}{_why_no_further(sight, want, desired)}"
    )
    memory, needed = changed(sight.memory, stepped=sight.request.now), want.replicas or 0
    return ScaleAnswer(desired, desired, news, memory, news, needed=needed)


def owned_count(request: ScaleRequest) -> ScaleRequest:
    """In External mode the count is what its owner wrote, within the bounds, and no decision of ours."""
    if request.spec.mode is not ScalingMode.External:
        return request
    return changed(request, current=bounds_of(request).clamp(request.spec.replicas or 0))


def from_the_new_count(request: ScaleRequest, answer: ScaleAnswer) -> ScaleRequest:
    """The request repeated with the new count, so that its explanation is the one that the next pass will find."""
    return changed(request, current=answer.desired, memory=answer.memory)


def _external(sight: Sight, want: Want, bounds: Bounds) -> ScaleAnswer:
    desired = sight.request.current
    memory = _remember_want(sight, want, bounds)
    recommended = bounds.clamp(_recommended(changed(sight, memory=memory), want))
    message, asked = f"{counted(desired, 'replica')}, as spec.scaling.replicas says", sight.request.spec.replicas or 0
    if desired != asked:
        message = f"spec.scaling.replicas is {asked}, which the bounds make {desired}"
    needed = max((wanted for _, wanted in memory.wanted), default=0) if want.replicas is None else want.replicas
    return ScaleAnswer(desired, recommended, Explanation(Reason.OwnedExternally, message), memory, needed=needed)


def _recommended(sight: Sight, want: Want) -> int:
    """What Auto would go to from the count of the owner; it never exceeds both that and what traffic wanted lately.

    A rise that holds an Auto pool for a moment holds no recommendation: an HPA keeps the highest of the last minutes,
    and would keep a count that was far too high from one rise to the next.
    """
    current = sight.request.current
    peak = max((wanted for _, wanted in sight.memory.wanted), default=current)
    return peak if peak >= current else fewest_now(sight, replace(want, rises=False))


def _next_count(sight: Sight, want: Want, bounds: Bounds) -> int:
    """The count to go to from the current one; the caller clamps it."""
    request = sight.request
    if request.current == 0:
        return want.replicas if want.replicas is not None else bounds.least
    if want.replicas is None or _frozen_until(sight) is not None:
        return request.current
    wanted = bounds.clamp(want.replicas)
    if wanted < request.current:
        wanted = fewest_now(sight, want)
    return _one_step(sight, wanted)


def _why_no_further(sight: Sight, want: Want, desired: int) -> str:
    """Why a pool that shrinks keeps more than it needs now, in words; empty where it does not."""
    spec, needed = sight.request.spec, sight.request.current if want.replicas is None else want.replicas
    if not max(needed, spec.min_replicas) < desired < sight.request.current:
        return ""
    if spec.max_step is not None and desired > fewest_now(sight, want):
        return f"; {_what_a_step_allows(spec.max_step)}"
    return f"; as many as were needed within the last {seconds(spec.scale_down_delay_seconds)}"


def _what_a_step_allows(step: int) -> str:
    return f"maxStep {step} allows {counted(step, 'replica')} a minute"


def _one_step(sight: Sight, wanted: int) -> int:
    request = sight.request
    if request.spec.max_step is None or wanted == request.current:
        return wanted
    if _step_wait(sight) > 0:
        return request.current
    step = max(1, request.spec.max_step)
    return max(request.current - step, min(request.current + step, wanted))


def _step_wait(sight: Sight) -> float:
    """Seconds until `maxStep` allows the next change."""
    stepped = sight.memory.stepped
    if sight.request.spec.max_step is None or stepped is None or stepped > sight.request.now:
        return 0.0
    return max(0.0, stepped + STEP_SECONDS - sight.request.now)


def _frozen_until(sight: Sight) -> float | None:
    """Until when (epoch seconds) `freezeUntil` holds the count; None where it does not, or no more."""
    return sight.request.spec.frozen_until(sight.request.now)


def _remember_want(sight: Sight, want: Want, bounds: Bounds) -> ScaleMemory:
    """Add this pass's want to the window. While no engine answers, the wants before are never lowered."""
    if want.replicas is None or sight.blind:
        return sight.memory
    wanted, with_chance = bounds.clamp(want.replicas), bounds.clamp(max(want.replicas, want.with_chance))
    memory = sight.memory
    if sight.reading is None:
        wanted = max(wanted, max((count for _, count in memory.wanted), default=sight.request.current))
        with_chance = max(with_chance, wanted)
    wants, with_chances = _added(memory.wanted, wanted, sight), _added(memory.with_chance, with_chance, sight)
    return changed(memory, wanted=wants, with_chance=with_chances)


def _added(window: tuple[tuple[float, int], ...], latest: int, sight: Sight) -> tuple[tuple[float, int], ...]:
    """The window with one more sample, less earlier ones that are no higher, as only the maximum matters."""
    now = sight.request.now
    start = now - sight.request.spec.scale_down_delay_seconds
    return (*[(at, count) for at, count in window if start <= at <= now and count > latest], (now, latest))


def _explain(sight: Sight, want: Want, bounds: Bounds) -> Held:
    """Why the count is what it is, and when time alone would change it."""
    request = sight.request
    if bounds.most == 0:
        return bounds.shortfall or bounds.at_most, None
    if (until := _frozen_until(sight)) is not None:
        held = (
            f"held at {counted(request.current, 'replica')} until {moment_of(until)}, as spec.scaling.freezeUntil says"
        )
        return Explanation(Reason.Frozen, held), until - request.now
    if want.replicas is not None and want.replicas > request.current:
        return _why_not_more(sight, bounds)
    if want.replicas is None or sight.reading is None:
        declared = _why_not_as_declared(request.current, want, bounds)
        return declared or missing(sight, sight.problem or want.because), None
    if want.replicas < request.current:
        return _why_not_fewer(sight, want, bounds)
    return (_balanced(request.current, want.limited) if want.limited else steady(request.current)), None


def _balanced(replicas: int, limited: str) -> Explanation:
    """The explanation of a count that is what gets through needs, while demand needs more of both halves."""
    return Explanation(Reason.Steady, f"{limited}, and what those carry needs {counted(replicas, 'replica')}")


def _why_not_as_declared(current: int, want: Want, bounds: Bounds) -> Explanation | None:
    """The budget that keeps a pool below what its declared rate needs, before anything can be measured; else None."""
    is_bound = want.declared > current >= bounds.most and bounds.at_most.reason is Reason.BudgetExhausted
    return bounds.at_most if is_bound else None


def _why_not_more(sight: Sight, bounds: Bounds) -> Held:
    if sight.request.current >= bounds.most:
        return bounds.at_most, None
    return _step_limited(sight, f"; demand needs more than {sight.request.current}")


def _step_limited(sight: Sight, beside: str = "") -> Held:
    message = f"{_what_a_step_allows(sight.request.spec.max_step or 0)}{beside}"
    return Explanation(Reason.StepLimited, message), _step_wait(sight)


def _why_not_fewer(sight: Sight, want: Want, bounds: Bounds) -> Held:
    request, least = sight.request, bounds.least
    if request.current <= least:
        fewest = f"minReplicas {least}" if least == request.spec.min_replicas else f"the {least} that the budget leaves"
        return Explanation(Reason.AtMinimum, f"demand needs fewer than {fewest}"), None
    return what_keeps_it(sight, want) or _step_limited(sight)
