"""A pair in balance: a half that may have no more replicas, and lets requests wait, limits what the other one needs.

Every request passes both halves. Capacities are estimates, so the other half keeps the user's headroom over what the
first one carries, by its capacity or as measured if that is more; and a half that leaves nobody waiting limits nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.texts.figures import counted, request_rate
from weft.domain.workload import Role
from weft.scaling.bounds import bounds_of, own_bounds_of
from weft.scaling.saturation import counted_on, true_capacity

if TYPE_CHECKING:
    from weft.scaling.demand import Want
    from weft.scaling.sight import Sight


def in_balance(sights: tuple[Sight, Sight], wants: tuple[Want, Want]) -> tuple[Want, Want]:
    """The wants of both halves, each no more than what the other one carries takes, where that may not have its own."""
    first, second = zip(sights, wants, strict=True)
    return _beside(*second, *first), _beside(*first, *second)


def _beside(other: Sight, its_want: Want, own: Sight, want: Want) -> Want:
    """The want of a half beside the other one.

    What is lowered only bounds what is wanted: what runs goes when the window of the half is over, as for less demand.
    """
    if not _limits(other, its_want) or want.replicas is None or not own.request.capacity.is_known:
        return want
    most, bounds = own_bounds_of(other.request).most, bounds_of(own.request)
    carried = max(other.request.capacity.of(most), _answered(other), _answered(own))
    takes = _takes(own, carried)
    if bounds.clamp(takes) >= bounds.clamp(want.replicas):
        return want
    told = f"the {other.request.role.value.lower()} pool may have no more than {counted(most, 'replica')}"

    def basis() -> str:
        return f"{want.because}; {told}, and {request_rate(carried)} is what the split carries"

    return replace(want, replicas=takes, with_chance=takes, serving=takes, basis=basis, limited=told)


def _limits(sight: Sight, want: Want) -> bool:
    """Whether a half wants more replicas than its own bounds allow, and is seen to let requests wait.

    Before that is measured its capacity is an estimate, by which nobody shall wait for the other half as well.
    """
    request = sight.request
    if want.replicas is None or want.replicas <= own_bounds_of(request).most or not request.capacity.is_known:
        return False
    return sight.backlogged or request.network_bound


def _answered(sight: Sight) -> float:
    """Requests a second that the engines of a half answer; 0 where that is not known."""
    return sight.reading.rate if sight.reading is not None else 0.0


def _takes(sight: Sight, rate: float) -> int:
    """Replicas of a half that take a rate with headroom; no fewer than there are where its own traffic keeps them.

    Requests that wait for prefill may wait for decode to take its KV, so that it answers no more than decode does:
    that shows nothing of what prefill can do, while a slow decode is its own.
    """
    request = sight.request
    capacity = counted_on(request) if request.role is Role.Prefill else true_capacity(sight)
    takes, keeps_all = request.spec.needed(rate, capacity), sight.backlogged or not sight.tells_everything
    return max(takes, request.current) if keeps_all or request.network_bound else takes
