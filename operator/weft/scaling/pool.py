"""The replica count of one pool on its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.scaling.demand import held_want, want
from weft.scaling.saturation import with_what_saturation_shows
from weft.scaling.settle import ScaleAnswer, from_the_new_count, owned_count, settle
from weft.scaling.sight import look

if TYPE_CHECKING:
    from weft.scaling.sight import ScaleRequest


def scale_pool(request: ScaleRequest) -> ScaleAnswer:
    """How many replicas a pool shall have, why, and what to remember."""
    request = owned_count(request)
    answer = _once(request)
    if answer.changed is None:
        return answer
    return replace(_once(from_the_new_count(request, answer)), changed=answer.changed)


def _once(request: ScaleRequest) -> ScaleAnswer:
    """One decision; before the first one the declared rate stands in for metrics that do not exist yet."""
    sight = with_what_saturation_shows(look(request))
    measured = want(sight)
    return settle(sight, measured if measured.replicas is not None else held_want(sight, measured.because))
