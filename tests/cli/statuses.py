"""Statuses as the operator writes them, made by the same functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.api import converge_status, pool_status, split_converge_status, split_status
from weft.catalog import load
from weft.cli.cluster.world import imagined_world
from weft.cli.plan.planning import plan_all
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import Condition, Failure, Observed, PoolProgress, SplitProgress

if TYPE_CHECKING:
    from weft.domain.status import PoolStatus

Json = dict[str, Any]
SERVING = Condition("Ready", "True", Explanation(Reason.Serving, "all replicas are ready"))
STARTING = Condition("Ready", "False", Explanation(Reason.NoReplicaReady, "the first replica is starting"))
OBSERVED = Observed(
    requests_per_second=7.91234,
    input_tokens=1203.0,
    output_tokens=250.1,
    ttft=((50, 0.2), (95, 1.43)),
    tpot=((95, 0.0371),),
    attainment=0.97,
    live=("requestsPerSecond",),
    caveats=("the engine does not show vllm:kv_cache_usage_perc",),
)


def decided(body: Json, *, ready: bool, now: float) -> Json:
    """The whole status of a pool or a split, that serves (`ready`) or has failed twice; `now` is epoch seconds."""
    planned = plan_all([body], imagined_world(load()), load(), now)[0]
    conditions = (SERVING if ready else STARTING,)
    if planned.split is not None:
        mine = split_status(planned.split, {}, now)
        progress = SplitProgress(1, 1, int(ready), 1, int(ready), 1, "http://front:8000", conditions)
        theirs = split_converge_status(progress, {}, now)
        sides = {side: {**mine[side], **theirs[side]} for side in ("prefill", "decode")}
        return {**mine, **theirs, **sides, "conditions": [*mine["conditions"], *theirs["conditions"]]}
    _, decision = planned.pools[0]
    status = _serving(decision.status) if ready else _failing(decision.status, now)
    mine = pool_status(replace(decision, status=status), {}, now)
    theirs = converge_status(PoolProgress(1, 1, int(ready), "a=b", "http://chat:8000", conditions), {}, now)
    return {**mine, **theirs, "conditions": [*mine["conditions"], *theirs["conditions"]]}


def _serving(status: PoolStatus) -> PoolStatus:
    return replace(status, observed=OBSERVED)


def _failing(status: PoolStatus, now: float) -> PoolStatus:
    why = Explanation(Reason.EngineFailed, "exit code 1: CUDA out of memory")
    return replace(status, failure=Failure(status.revision, 2, now, why))
