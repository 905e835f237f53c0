"""A prefix cache that the user turns off although the plan counts on prompts in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.spec import PoolSpec


def prefix_conflict(spec: PoolSpec, turned_off_by: str | None) -> Explanation | None:
    """Why the argument that turns the prefix cache off (None: not given) is refused, or None.

    A decode half computes no prompts.
    """
    percent = round(100 * spec.workload.prefix_hit)
    if turned_off_by is None or not percent or spec.role is Role.Decode:
        return None
    message = (
        f"spec.engine.args may not contain {turned_off_by} while spec.workload.prefixHitPercent is {percent}: "
        "the plan counts on prompts in the cache; set that to 0, or remove the argument"
    )
    return Explanation(Reason.ArgumentConflict, message)
