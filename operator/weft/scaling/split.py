"""Both pools of a split, sized together from the same requests: ISL drives prefill, OSL drives decode."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, floor

from weft.scaling.bounds import bounds_of
from weft.scaling.demand import ScaleRequest, Sight, Want, declared_want, look, offered, want_for
from weft.scaling.settle import ScaleAnswer, from_the_new_count, owned_count, settle


@dataclass(frozen=True, slots=True)
class RatioGuard:
    """Least and most prefill replicas per decode replica; None is no guard."""

    least: float | None = None
    most: float | None = None


def scale_split(prefill: ScaleRequest, decode: ScaleRequest, guard: RatioGuard) -> tuple[ScaleAnswer, ScaleAnswer]:
    """Counts of the prefill and the decode pool.

    The capacities of the two requests already contain ISL and OSL, so one request rate sizes both. Unless both halves
    report, both hold.
    """
    prefill, decode = owned_count(prefill), owned_count(decode)
    first, second = _once(prefill, decode, guard)
    if first.changed is None and second.changed is None:
        return first, second
    settled = _once(from_the_new_count(prefill, first), from_the_new_count(decode, second), guard)
    return replace(settled[0], changed=first.changed), replace(settled[1], changed=second.changed)


def _once(prefill: ScaleRequest, decode: ScaleRequest, guard: RatioGuard) -> tuple[ScaleAnswer, ScaleAnswer]:
    sights = look(prefill), look(decode)
    wants = _guarded(sights, _wants(sights), guard)
    return settle(sights[0], wants[0]), settle(sights[1], wants[1])


def _wants(sights: tuple[Sight, Sight]) -> tuple[Want, Want]:
    blind = [sight for sight in sights if sight.reading is None]
    if blind:
        if all(sight.request.current == 0 for sight in sights):
            return declared_want(sights[0].request), declared_want(sights[1].request)
        problem = f"{blind[0].request.role.value} pool: {blind[0].problem}"
        return _hold(sights[0], problem), _hold(sights[1], problem)
    rate = max(offered(sight) for sight in sights)
    prefill, decode = want_for(sights[0], rate), want_for(sights[1], rate)
    may_shrink = prefill.may_shrink and decode.may_shrink
    return replace(prefill, may_shrink=may_shrink), replace(decode, may_shrink=may_shrink)


def _hold(sight: Sight, problem: str) -> Want:
    """Hold this half; one that has no count yet starts as declared."""
    if sight.request.current == 0:
        return declared_want(sight.request)
    return Want(None, may_shrink=False, basis=problem)


def _guarded(sights: tuple[Sight, Sight], wants: tuple[Want, Want], guard: RatioGuard) -> tuple[Want, Want]:
    """Raise the smaller half into the ratio; where its bound forbids that, lower the other."""
    prefill, decode = wants[0].replicas, wants[1].replicas
    if prefill is None or decode is None:
        return wants
    bounds = bounds_of(sights[0].request), bounds_of(sights[1].request)
    prefill, decode = bounds[0].clamp(prefill), bounds[1].clamp(decode)
    if guard.least is not None and prefill < guard.least * decode:
        prefill = bounds[0].clamp(ceil(guard.least * decode - 1e-9))
        decode = min(decode, max(1, floor(prefill / guard.least + 1e-9)))
    if guard.most is not None and prefill > guard.most * decode:
        decode = bounds[1].clamp(ceil(prefill / guard.most - 1e-9))
        prefill = min(prefill, max(1, floor(decode * guard.most + 1e-9)))
    guarded = replace(wants[0], replicas=prefill), replace(wants[1], replicas=decode)
    unguarded = wants[0].replicas, wants[1].replicas
    return wants if unguarded == (prefill, decode) else guarded
