"""Prompts beside which all others are alike come into force by what minutes tell, and go with them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.scaling.cases import seen
from weft.domain.workload import Workload
from weft.scaling import lengths_after, live_workload

if TYPE_CHECKING:
    from weft.domain.pool_memory import LengthSample

DECLARED = Workload(10.0, input_tokens=2000, output_tokens=100, input_tokens_p95=4000, output_tokens_p95=200)

Rare = tuple[float, float] | None


def after(*minutes: Rare, mean: float = 2000.0, rate: float = 10.0, before: Rare = None) -> Rare:
    """What is in force after looks a minute apart that told this."""
    known: tuple[LengthSample, ...] = ()
    workload = replace(DECLARED, rare_prompts=before)
    for minute, rare in enumerate(minutes):
        look = replace(seen(rate, 1), input_tokens=mean, output_tokens=100.0, rare_prompts=rare)
        known = lengths_after(known, look, 60.0 * minute)
        workload = live_workload(DECLARED, look, workload, known)
    return workload.rare_prompts


def test_what_a_minute_tells_comes_into_force() -> None:
    assert after((0.02, 48.0)) == (0.02, 48.0)


def test_minutes_without_any_count_as_none() -> None:
    """Twice in three minutes 0.6 % are as long: that is 0.4 % of all."""
    found = after(None, (0.006, 100.0), (0.006, 100.0))
    assert found is not None
    assert found == pytest.approx((0.004, 100.0))


def test_what_chance_explains_changes_nothing() -> None:
    assert after((0.02, 48.0), (0.022, 48.0), (0.018, 49.0)) == (0.02, 48.0)


def test_another_length_is_followed() -> None:
    assert after(*[(0.02, 24.0)] * 3, before=(0.02, 48.0)) == (0.02, 24.0)


def test_a_minute_without_any_does_not_bring_them_into_force() -> None:
    assert after(None, None, None, (0.02, 48.0)) is None


def test_they_stay_while_some_requests_tell_of_them() -> None:
    """Five of a thousand in a minute are none by chance now and then."""
    assert after((0.02, 48.0), None, None, None) is not None


def test_they_go_once_hardly_any_request_tells_of_them() -> None:
    assert after((0.02, 48.0), *[None] * 6) is None


def test_a_pool_of_few_requests_never_tells() -> None:
    assert after((0.02, 48.0), rate=0.2) is None
