"""The order in which pools get what is scarce, and which pools belong together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.workload import Role

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.snapshot import PoolRecord, SplitRecord

Unit = tuple["PoolRecord", ...]  # one pool, or the prefill and the decode pool of a split


def in_order(pools: Iterable[PoolRecord], splits: Iterable[SplitRecord]) -> tuple[Unit, ...]:
    """Units by priority, then by age and name, so that the answer never depends on the order of a listing.

    Pools that are being deleted are left out. The two halves of a split stand together where the first of them would.
    """
    known = {split.key.uid for split in splits if not split.deleting}
    alive = sorted((pool for pool in pools if not pool.deleting), key=_rank)
    halves: dict[str, list[PoolRecord]] = {}
    for pool in alive:
        if pool.split_uid in known and pool.spec is not None:
            halves.setdefault(pool.split_uid, []).append(pool)
    paired = {uid: _by_role(pools) for uid, pools in halves.items() if _is_pair(pools)}
    first_of = {uid: pools[0] for uid, pools in halves.items()}
    units: list[Unit] = []
    for pool in alive:
        pair = paired.get(pool.split_uid or "")
        if pair is None:
            units.append((pool,))
        elif pool is first_of[pool.split_uid or ""]:
            units.append(pair)
    return tuple(units)


def priority_of(unit: Iterable[PoolRecord]) -> int:
    """The priority of a unit: of both halves of a split, the higher one."""
    return max([pool.priority for pool in unit])


def _rank(pool: PoolRecord) -> tuple[int, float, str, str, str]:
    return -pool.priority, pool.created, pool.key.namespace, pool.key.name, pool.key.uid


def _is_pair(pools: list[PoolRecord]) -> bool:
    return sorted(pool.spec.role for pool in pools if pool.spec) == [Role.Decode, Role.Prefill]


def _by_role(pools: list[PoolRecord]) -> Unit:
    return tuple(sorted(pools, key=lambda pool: pool.spec is not None and pool.spec.role is Role.Decode))
