"""What a pass decides upon: places, quotas and the time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.decide.counting.accounts import Accounts
    from weft.placement import FreeMap


@dataclass(frozen=True, slots=True)
class Availability:
    """What a pass gives out: free places (`free`) and what quotas leave (`accounts`); `now` is in epoch seconds.

    What ends with taking something away is waited for until `heard`, as in `Snapshot`.
    """

    free: FreeMap
    accounts: Accounts
    now: float
    heard: float
