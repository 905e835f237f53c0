"""How much more a replica carries behind a router that goes by load, with others, than one with a random share.

A router gives each prompt to the prefill replica with the fewest (ADR 0113). None can be told of a picker, of an image
that is not Weft's choice, and of a prompt whose prefix a router knows: it goes where that is. In a pool a front counts
what decodes too, which says little about who waits for a prompt. The ranks of a replica are not the front's to choose.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.capacity import Capacity
from weft.domain.workload import Role
from weft.engines import adapter_for
from weft.perf import Question, assess

if TYPE_CHECKING:
    from weft.domain.shape import Shape
    from weft.shaping.case import ShapeCase

# Of prompts, as cached. vllm-router sends a prompt by its prefix from 30 % on: no more than one in six, then.
FEW_HITS = 0.05
ASSESSED = (2, 3, 4, 8)  # replicas; others carry as the next fewer, and with more of them each hardly carries more


def share_a_queue(role: Role, shape: Shape, prefix_hit: float) -> bool:
    """Whether a router of Weft's choice gives nearly all requests to replicas of this shape by load."""
    return (
        role is Role.Prefill
        and prefix_hit <= FEW_HITS
        and shape.data_parallel == 1
        and adapter_for(shape.engine).picks_prefill_by_load
    )


def together(case: ShapeCase, alone: float) -> Capacity:
    """The capacity of replicas of which one alone serves so many requests a second; no more where they gain nothing.

    A measured tail below 1 counts as 1: it may be short for a wait that others shorten, which counts here already.
    """
    request = case.request
    shared = request.managed and share_a_queue(request.spec.role, case.option.shape, request.workload.prefix_hit)
    if not shared or alone <= 0.0:
        return Capacity(alone)
    doubt = replace(case.error_bar, ttft=max(1.0, case.error_bar.ttft))
    asked = Question(request.workload, request.spec.slo, request.spec.role, doubt)
    found = [1.0]
    for replicas in ASSESSED:
        each = assess(case.replica, replace(asked, in_one_queue=replicas)).prediction.capacity
        found += [found[-1]] * (replicas - 1 - len(found))
        found.append(max(found[-1], each / alone))
    return Capacity(alone, tuple(found) if found[-1] > 1.0 else ())
