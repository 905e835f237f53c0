"""Both pools of a split, sized together from the same requests: ISL drives prefill, OSL drives decode."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.values.changed import changed
from weft.scaling.balance import in_balance
from weft.scaling.bounds import bounds_of
from weft.scaling.demand import Want, demand, held_want, want_for
from weft.scaling.settle import ScaleAnswer, from_the_new_count, owned_count, settle
from weft.scaling.sight import look

if TYPE_CHECKING:
    from weft.scaling.ratio import RatioGuard
    from weft.scaling.sight import ScaleRequest, Sight

_NOT_YET = "; not yet within "


def scale_split(prefill: ScaleRequest, decode: ScaleRequest, guard: RatioGuard) -> tuple[ScaleAnswer, ScaleAnswer]:
    """Counts of the prefill and the decode pool.

    The capacities of the two requests already contain ISL and OSL, so one request rate sizes both; each half forecasts
    the work per request on its own. Unless both halves report, both hold.
    """
    prefill, decode = sharing_risk(owned_count(prefill), owned_count(decode))
    first, second = _once(prefill, decode, guard)
    if first.changed is not None or second.changed is not None:
        settled = _once(from_the_new_count(prefill, first), from_the_new_count(decode, second), guard)
        first, second = replace(settled[0], changed=first.changed), replace(settled[1], changed=second.changed)
    if guard.holds(first.desired, second.desired):
        return first, second
    return _outside(first, guard), _outside(second, guard)


def sharing_risk(prefill: ScaleRequest, decode: ScaleRequest) -> tuple[ScaleRequest, ScaleRequest]:
    """Both halves, with the user's risk divided in proportion to the GPUs that a request needs in each.

    A request waits if either half falls short, so risks add up, while a margin costs GPUs of its own half only. Where
    margins grow alike with less risk, these shares cost least. Half each while costs are unknown. What a request needs
    is of a lone replica: by what several need (ADR 0113) hardly anything changes.
    """
    costs = [each.gpus / each.capacity.alone if each.capacity.is_known else 0.0 for each in (prefill, decode)]
    shares = [cost / sum(costs) for cost in costs] if min(costs) > 0.0 else [0.5, 0.5]
    first, second = (
        changed(each, spec=changed(each.spec, risk=each.spec.risk * share))
        for each, share in zip((prefill, decode), shares, strict=True)
    )
    return first, second


def _outside(answer: ScaleAnswer, guard: RatioGuard) -> ScaleAnswer:
    """The answer of a half while the pair is outside the ratio, as windows, steps and holds take precedence."""
    told = answer.explanation.message.partition(_NOT_YET)[0]
    return replace(answer, explanation=replace(answer.explanation, message=f"{told}{_NOT_YET}{guard}"))


def _once(prefill: ScaleRequest, decode: ScaleRequest, guard: RatioGuard) -> tuple[ScaleAnswer, ScaleAnswer]:
    sights = look(prefill), look(decode)
    wants = _guarded(sights, _wants(sights), guard)
    return settle(sights[0], wants[0]), settle(sights[1], wants[1])


def _wants(sights: tuple[Sight, Sight]) -> tuple[Want, Want]:
    blind = [sight for sight in sights if sight.blind]
    if blind:
        problem = f"{blind[0].request.role.value} pool: {blind[0].problem}"
        return held_want(sights[0], problem), held_want(sights[1], problem)
    first, second = demand(sights[0]), demand(sights[1])
    prefill, decode = want_for(sights[0], first.at_least(second)), want_for(sights[1], second.at_least(first))
    may_shrink = prefill.may_shrink and decode.may_shrink
    return replace(prefill, may_shrink=may_shrink), replace(decode, may_shrink=may_shrink)


def _guarded(sights: tuple[Sight, Sight], wants: tuple[Want, Want], guard: RatioGuard) -> tuple[Want, Want]:
    """Raise the smaller half into the ratio; where its bound forbids that, lower the other.

    A half that may not have what it wants limits the other one beforehand.
    """
    prefill, decode = wants[0].replicas, wants[1].replicas
    if prefill is None or decode is None:
        return wants
    bounds = bounds_of(sights[0].request), bounds_of(sights[1].request)
    wanted = bounds[0].clamp(prefill), bounds[1].clamp(decode)
    if wanted != (prefill, decode):
        wants = in_balance(sights, wants)
        wanted = bounds[0].clamp(wants[0].replicas or 0), bounds[1].clamp(wants[1].replicas or 0)
    if guard.holds(*wanted):
        return wants
    ranges = [range(each.least, each.most + 1) for each in bounds]
    nearest = guard.nearest(wanted, ranges[0], ranges[1])
    if nearest is None:
        return wants
    first, second = nearest
    return _made(wants[0], first), _made(wants[1], second)


def _made(want: Want, replicas: int) -> Want:
    """The want with a count that the ratio makes of it.

    A count that is lowered lets go of what serves, too: the ratio would never hold otherwise. A raised one does not.
    """
    lowered = want.replicas is not None and replicas < want.replicas
    serving = min(want.serving, replicas) if lowered else want.serving
    rises = want.rises and not lowered
    return replace(want, replicas=replicas, with_chance=replicas, serving=serving, rises=rises, limited="")
