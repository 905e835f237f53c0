"""How the replicas of a pool do beside each other: one more look in each pass, from which outliers are named."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.domain.stumbling import stumbled
from weft.domain.values.remembered import LastAnswers
from weft.domain.workload import Role
from weft.scaling.underperforming.cut_off import all_fail, as_handed_over
from weft.scaling.underperforming.outliers import watched, worth_a_look
from weft.scaling.underperforming.slowness import is_whole

if TYPE_CHECKING:
    from weft.decide.replicas.roll import Roll
    from weft.domain.pool_memory import Outliers, ScaleMemory
    from weft.domain.snapshot import PodObservation, PoolRecord, Snapshot

REMEMBERED = 4096  # pools
_LAST: LastAnswers[tuple[tuple[PodObservation, ...], Role], bool] = LastAnswers(REMEMBERED)


def look_for_outliers(snapshot: Snapshot, roll: Roll) -> Snapshot:
    """The snapshot with one more look at how the replicas of each pool do beside each other in its memory."""
    learnt: dict[str, ScaleMemory] = {}
    for pool in snapshot.pools:
        known = snapshot.memory.get(pool.key.uid)
        if known is None or pool.spec is None:
            continue
        seen = snapshot.observations.get(pool.key.uid)
        try:
            if known.outliers is None and (
                seen is None or not _is_worth_a_look(pool.key.uid, seen.pods, pool.spec.role)
            ):
                continue
            outliers = _compared(pool, known.outliers, snapshot, roll)
        except Exception as error:
            raise stumbled(error, pool) from error
        if outliers != known.outliers:
            learnt[pool.key.uid] = replace(known, outliers=outliers)
    return replace(snapshot, memory={**snapshot.memory, **learnt}) if learnt else snapshot


def _is_worth_a_look(uid: str, pods: tuple[PodObservation, ...], role: Role) -> bool:
    """Whether comparing the pods of a pool could tell anything; the same pods, as in most passes, are judged once."""
    return _LAST.ask(uid, (pods, role), lambda question: worth_a_look(*question))


def _compared(pool: PoolRecord, known: Outliers | None, snapshot: Snapshot, roll: Roll) -> Outliers | None:
    if pool.spec is None:
        return known
    pods = _pods_of(pool, snapshot, roll)
    if pods is not None and pool.spec.role is Role.Prefill:
        fail, ranks = _decode_fails(pool, snapshot, roll), _ranks(pool)
        pods = {replica: as_handed_over(pod, ranks, fail=fail) for replica, pod in pods.items()}
    present = {each.assignment.replica for each in roll.replicas(pool)}
    return watched(known, pods, present, pool.spec.role, snapshot.now)


def _decode_fails(prefill: PoolRecord, snapshot: Snapshot, roll: Roll) -> bool | None:
    """Whether the decode replicas of the same split all fail to fetch KV alike; None where nobody can tell."""
    if prefill.split_uid is None:
        return None
    halves = (pool for pool in snapshot.pools if pool.split_uid == prefill.split_uid)
    decode = next((pool for pool in halves if pool.spec is not None and pool.spec.role is Role.Decode), None)
    pods = _pods_of(decode, snapshot, roll) if decode is not None else None
    return all_fail(pods) if pods is not None else None


def _ranks(pool: PoolRecord) -> int:
    """How many processes of one engine hold KV of the same prompt."""
    shape = pool.status.plan.shape if pool.status.plan is not None else None
    return 1 if shape is None else shape.tensor_parallel * shape.pipeline_parallel * shape.prefill_context_parallel


def _pods_of(pool: PoolRecord, snapshot: Snapshot, roll: Roll) -> dict[int, PodObservation] | None:
    """What ready replicas of the planned revision tell, by replica; None where one of them does not."""
    observation, revision = snapshot.observations.get(pool.key.uid), pool.status.revision
    if observation is None or not is_whole(observation):
        return None
    told = {each.pod: each for each in observation.pods}
    ready = [each for each in roll.replicas(pool) if each.ready and each.assignment.revision == revision]
    names = {each.assignment.replica: each.pods[0].name for each in ready}
    return {replica: told[name] for replica, name in names.items()} if told.keys() >= set(names.values()) else None
