"""What the latencies of a half of a split are held against: a prefill replica has none after the first token."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.changed import changed
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolObservation
    from weft.domain.workload import Slo

_TPOT = "tpot"


def targets_of(role: Role, slo: Slo) -> Slo:
    """The targets that a replica of this role can miss: all, but for prefill only those of TTFT."""
    return replace(slo, tpot=()) if role is Role.Prefill and slo.tpot else slo


def seen_of(role: Role, seen: PoolObservation | None) -> PoolObservation | None:
    """The measurements that mean something: of prefill none of TPOT, as engines count 0 s where one token is all."""
    if seen is None or role is not Role.Prefill:
        return seen
    return changed(
        seen,
        tpot=(),
        tpot_buckets=(),
        tpot_mean=None,
        unresolved=tuple(each for each in seen.unresolved if each[0] != _TPOT),
        caveats=tuple(each for each in seen.caveats if each.figure != _TPOT),
    )
