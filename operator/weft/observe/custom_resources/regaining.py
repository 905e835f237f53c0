"""Restore lost replicas of pools, where an error over one pool leaves the others readable.

Without its lost replicas a pool would look as if they had to go. So it is left out, and nobody decides on it or acts
for it, until reading succeeds: the error comes from its pods, which change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.stumbling import Stumbled
from weft.observe.custom_resources.regained import regained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from weft.domain.cluster import PodRecord
    from weft.domain.reasons import Explanation
    from weft.domain.reports import Reports
    from weft.domain.snapshot import PoolRecord, ResourceKey


class Regaining:
    """Reads pools with their lost replicas. Not thread-safe: for one caller."""

    def __init__(self, told: Callable[[ResourceKey, Stumbled], None]) -> None:
        """`told` is called once for a pool that cannot be read, while it lasts."""
        self._told = told
        self._left_out: dict[str, tuple[Explanation, str | None]] = {}  # why, and the UID of the split it belongs to

    def read(
        self, pools: Iterable[PoolRecord], pods: Mapping[str, Sequence[PodRecord]], reports: Reports
    ) -> tuple[PoolRecord, ...]:
        """As `regained`, without the pools over which it raises."""
        every = tuple(pools)
        try:
            found = regained(every, pods, reports)
        except Exception:  # noqa: BLE001 - reading one after the other tells which pool it is
            return self._one_by_one(every, pods, reports)
        self._left_out = {}
        return found

    @property
    def owners(self) -> dict[str, Explanation]:
        """Why splits are left out of which a half cannot be read, by UID of the split."""
        return {owner: why for why, owner in self._left_out.values() if owner is not None}

    @property
    def held(self) -> dict[str, Explanation]:
        """Why nobody may decide on these resources, by UID; a split is held with its half."""
        return self.owners | {uid: why for uid, (why, _) in self._left_out.items()}

    def _one_by_one(
        self, pools: Iterable[PoolRecord], pods: Mapping[str, Sequence[PodRecord]], reports: Reports
    ) -> tuple[PoolRecord, ...]:
        found: list[PoolRecord] = []
        before, self._left_out = self._left_out, {}
        for pool in pools:
            try:
                found.extend(regained((pool,), pods, reports))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is about this pool alone
                uid = pool.key.uid
                known = before[uid][0] if uid in before else self._stumbled(pool, error)
                self._left_out[uid] = known, pool.split_uid
        return tuple(found)

    def _stumbled(self, pool: PoolRecord, error: Exception) -> Explanation:
        stumbled = Stumbled((pool.key.uid,), error)
        self._told(pool.key, stumbled)
        return stumbled.explanation
