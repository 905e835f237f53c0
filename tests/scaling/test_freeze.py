"""`scaling.freezeUntil`: the count stays, and says until when."""

from __future__ import annotations

from tests.scaling.cases import Pool, reason, seen
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingMode


def test_a_freeze_for_ever_in_any_zone_is_told() -> None:
    """F9: 9999-12-31T23:59:59-12:00 is in a year that UTC has no name for, and stopped decisions for all pools."""
    pool = Pool()
    pool.current = 2
    pool.configured(freeze_until=253_402_343_999.0)
    told = pool.step(seen(15.0, 2)).explanation.message
    assert told == "held at 2 replicas until 9999-12-31T23:59:59Z, as spec.scaling.freezeUntil says"


def test_a_freeze_holds_until_it_ends() -> None:
    pool = Pool()
    pool.current = 2
    pool.configured(freeze_until=pool.now + 100)
    answer = pool.step(seen(15.0, 2))
    assert (pool.current, reason(pool)) == (2, Reason.Frozen)
    assert answer.wake_after_seconds == 90
    assert (
        "held at 2 replicas until 1970-01-12T13:48:20Z, as spec.scaling.freezeUntil says" == answer.explanation.message
    )
    pool.run(seen(15.0, 2), 100)
    assert pool.current == 9


def test_a_count_that_others_own_is_followed_through_a_freeze() -> None:
    pool = Pool()
    pool.configured(freeze_until=pool.now + 100, mode=ScalingMode.External, replicas=5)
    pool.step(seen(15.0, 2))
    assert (pool.current, reason(pool)) == (5, Reason.OwnedExternally)
