"""What a quota pays for bounds a pool as places do: while it gets less than it wants it goes to no other shape."""

from __future__ import annotations

import pytest

from tests.decide.kinds import Growing, boards, open_spec
from tests.decide.limited import GPUS, Limited
from tests.decide.world import pool
from weft.domain.quotas import QuotaRecord

PATIENCE = 600.0
FASTER = [*boards("l40s", 1), *boards("h100", 2)]  # 6 and 24 requests/s for each


@pytest.mark.parametrize(("gpus", "kind"), [(16, "L40S"), (80, "H100")])
def test_where_places_and_a_quota_are_both_short_a_pool_stays(gpus: int, kind: str) -> None:
    """Eight L40S have a place, sixteen are paid for and more are wanted, all of which seven H100 would serve."""
    world = Limited.of(FASTER, pool("chat", open_spec(5.0)))
    world.quotas = (QuotaRecord("team", "gpus", ((GPUS, gpus),)),)
    growing = Growing(world, {"chat": 5.0})
    growing.turn(200.0)
    growing.turn(PATIENCE + 600.0, 150.0)
    assert kind == growing.kind()
    assert ("NoSlot" if kind == "L40S" else "AllPlaced") == world.condition("chat", "Placed")[1]
