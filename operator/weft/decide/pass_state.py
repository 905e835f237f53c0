"""What one pass has looked up of everybody before anybody has a turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.decide.counting.accounts import Accounts
from weft.decide.counting.budgets import PROMISED_SECONDS, replaces_in_its_room

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from weft.decide.counting.budgets import Claim, Share
    from weft.decide.counting.counts import Prospect
    from weft.decide.order import Unit
    from weft.decide.plans.planning import Planned
    from weft.decide.replicas.roll import Roll
    from weft.decide.replicas.survivors import Survivors
    from weft.domain.snapshot import Snapshot, SplitRecord
    from weft.placement import FreeMap
    from weft.scaling import ScaleAnswer


@dataclass(frozen=True, slots=True)
class PassState:
    """What one pass has looked up so far; `counted` are answers without any budget, by UID of the unit's first pool.

    `rest` is what quotas leave after `claims`, by UID of the pool.
    """

    snapshot: Snapshot
    roll: Roll
    free: FreeMap
    prospects: dict[str, Prospect]
    survivors: dict[str, Survivors]
    splits: Mapping[str, SplitRecord]
    accounts: Accounts = field(default_factory=Accounts)
    rest: Accounts = field(default_factory=Accounts)
    claims: Mapping[str, Claim] = field(default_factory=dict)
    shares: Mapping[str, Share] = field(default_factory=dict)
    counted: Mapping[str, tuple[ScaleAnswer, ...]] = field(default_factory=dict)

    def by_plan(self, units: Iterable[Unit]) -> tuple[list[Unit], list[Unit]]:
        """Units all of whose pools have a valid plan, and the others: half a pair is not worth placing."""
        found: tuple[list[Unit], list[Unit]] = ([], [])
        for unit in units:  # written out, as it is looked at in every pass
            missing = False
            for pool in unit:
                missing = missing or self.prospects[pool.key.uid].planned is None
            found[1 if missing else 0].append(unit)
        return found

    def split_of(self, unit: Unit) -> SplitRecord | None:
        """The split whose halves a unit is."""
        return self.splits.get(unit[0].split_uid or "")

    def replaces(self, planned: Planned) -> bool:
        """Whether a pool under a quota gives room in it for a successor of what it gives up."""
        if not self.accounts.limit(planned.pool.key.namespace):
            return False
        seen, troubled = self.survivors[planned.pool.key.uid], self.free.fabric.troubled()
        return replaces_in_its_room(planned, seen, self.roll, troubled)

    def held(self, planned: Planned) -> int:
        """Below how many replicas its count does not go while room comes for successors that no quota shows yet.

        If it fell, the next one would leave at once, before anybody knows whether there is room for the first.
        """
        known, desired = self.snapshot.memory.get(planned.pool.key.uid), planned.pool.status.desired_replicas
        gave_up = known.gave_up_room if known is not None else None
        lately = gave_up is not None and 0 <= self.snapshot.now - gave_up < PROMISED_SECONDS
        return desired if lately or self.replaces(planned) else 0
