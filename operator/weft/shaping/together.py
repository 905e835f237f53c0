"""How much more a replica carries behind a front that goes by load, with others, than one with a random share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.perf import Question, assess

if TYPE_CHECKING:
    from weft.domain.scaling_spec import Gains
    from weft.shaping.case import ShapeCase

MOST = 8  # replicas: with more of them each hardly carries more


def gains(case: ShapeCase, capacity: float) -> Gains:
    """The gains of one to `MOST` replicas over `capacity`, requests a second of one alone; empty where there are none.

    A measured tail below 1 counts as 1: it may be short for a wait that others shorten, which counts here already.
    """
    if capacity <= 0.0:
        return ()
    request, doubt = case.request, replace(case.error_bar, ttft=max(1.0, case.error_bar.ttft))
    asked = Question(request.workload, request.spec.slo, request.spec.role, doubt)
    found = [1.0]
    for replicas in range(2, MOST + 1):
        each = assess(case.replica, replace(asked, in_one_queue=replicas)).prediction.capacity
        found.append(max(found[-1], each / capacity))
    return tuple(found) if found[-1] > 1.0 else ()
