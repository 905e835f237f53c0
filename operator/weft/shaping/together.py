"""How much more a replica carries behind a router that goes by load, with others, than one with a random share.

A router gives each prompt to the prefill replica with the fewest (ADR 0113), and each request to the replica of a pool
(ADR 0118). Neither can be told of a picker, of an image that is not Weft's choice, and of a prompt whose prefix a
router knows: it goes where that is. In a pool a front counts what decodes too, which says little about who waits for a
prompt: what comes is more regular, that is all. The ranks of a replica are not the front's to choose.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from weft.domain.capacity import Capacity
from weft.domain.workload import Role
from weft.engines import adapter_for
from weft.perf import Question, assess

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.shape import Shape
    from weft.domain.workload import Slo
    from weft.shaping.case import ShapeCase
    from weft.shaping.request import ShapeRequest

# Of prompts, as cached. vllm-router sends a prompt by its prefix from 30 % on: no more than one in six, then.
FEW_HITS = 0.05
ASSESSED = (2, 3, 4, 8)  # replicas; others carry as the next fewer, and with more of them each hardly carries more


def share_a_front(role: Role, shape: Shape, prefix_hit: float) -> bool:
    """Whether a router of Weft's choice gives nearly all requests to replicas of this shape by load."""
    if role is Role.Decode or prefix_hit > FEW_HITS or shape.data_parallel > 1:
        return False
    adapter = adapter_for(shape.engine)
    return adapter.picks_by_load if role is Role.Aggregated else adapter.picks_prefill_by_load


def together(case: ShapeCase, alone: float, worth: Callable[[int], float] | None = None) -> Capacity:
    """The capacity of replicas of which one alone serves so many requests a second; no more where they gain nothing.

    One of so many is `worth` so much: what it serves within the SLO, unless told.
    """
    request = case.request
    shared = request.managed and share_a_front(request.spec.role, case.option.shape, request.workload.prefix_hit)
    if not shared or alone <= 0.0:
        return Capacity(alone)
    found, worth = [1.0], worth or partial(_within_slo, case)
    for replicas in ASSESSED:
        each = worth(replicas)
        found += [found[-1]] * (replicas - 1 - len(found))
        found.append(max(found[-1], each / alone))
    return Capacity(alone, tuple(found) if found[-1] > 1.0 else ())


def _within_slo(case: ShapeCase, replicas: int) -> float:
    return assess(case.replica, asked_of(case, replicas)).prediction.capacity


def asked_of(case: ShapeCase, replicas: int = 1) -> Question:
    """The question about one of so many replicas before which a front goes by load.

    Alone a measured TTFT tail below 1 counts as 1: it may be short for a wait that others shortened.
    """
    request, doubt = case.request, case.error_bar
    if replicas == 1:
        doubt = replace(doubt, ttft=max(1.0, doubt.ttft))
    return Question(request.workload, _counted(request), request.spec.role, doubt, replicas)


def _counted(request: ShapeRequest) -> Slo:
    """The targets that count: without TPOT where answers have one token only."""
    slo = request.spec.slo
    return replace(slo, tpot=()) if request.workload.output_tokens <= 1 else slo
