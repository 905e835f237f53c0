"""Pools with the replicas that their pods tell of; a mistake over one of them is no reason to see no others.

Without its lost replicas a pool would look as if they were to go. So nobody sees it, and nobody decides on it or acts
for it, until reading goes well: what it stumbles over are pods, which change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.domain.stumbling import Stumbled
from weft.observe.regained import regained

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from weft.domain.cluster import PodRecord
    from weft.domain.reasons import Explanation
    from weft.domain.reports import Reports
    from weft.domain.snapshot import PoolRecord, ResourceKey


class Regaining:
    """Not thread-safe: one caller."""

    def __init__(self, told: Callable[[ResourceKey, Stumbled], None]) -> None:
        """`told` hears of a pool once as long as it lasts."""
        self._told = told
        self._left_out: dict[str, tuple[Explanation, str | None]] = {}  # why, and the UID of the split it belongs to

    def read(
        self, pools: Iterable[PoolRecord], pods: Mapping[str, Sequence[PodRecord]], reports: Reports
    ) -> tuple[PoolRecord, ...]:
        """As `regained`, without those over which that stumbles."""
        every = tuple(pools)
        try:
            found = regained(every, pods, reports)
        except Exception:  # noqa: BLE001 - over whom it is, one after the other says
            return self._one_by_one(every, pods, reports)
        self._left_out = {}
        return found

    @property
    def owners(self) -> dict[str, Explanation]:
        """Why, by UID of splits of which a half is left out."""
        return {owner: why for why, owner in self._left_out.values() if owner is not None}

    @property
    def held(self) -> dict[str, Explanation]:
        """Why nobody may decide on these, by UID; with a half goes its split."""
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
