"""The benchmark of fronts before pools: no token is promised sooner than simulated behind a front that goes by load."""

from __future__ import annotations

import numpy as np
import pytest

from bench import fronts_of_pools
from bench.fronts_of_pools import POOLS, SHOWN, measured, predicted, rows

LONG, MIDDLE = POOLS[0], POOLS[3]


@pytest.mark.parametrize("front", ["least loaded", "two fronts", "30 % astray"])
@pytest.mark.parametrize("pool", [LONG, MIDDLE])
@pytest.mark.parametrize("replicas", [2, 4])
def test_behind_a_front_that_goes_by_load_tokens_come_as_soon_as_counted_on(
    pool: fronts_of_pools.Pool, replicas: int, front: str
) -> None:
    found = float(np.percentile(measured(pool, replicas, front), 95))
    assert found <= 1.03 * predicted(pool, replicas, 95)
    assert found < predicted(pool, 1, 95)


def test_with_a_random_share_they_do_not() -> None:
    assert float(np.percentile(measured(LONG, 4, "at random"), 95)) > 1.1 * predicted(LONG, 4, 95)


def test_the_table_has_a_column_for_each_front(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fronts_of_pools, "POOLS", (LONG,))
    monkeypatch.setattr(fronts_of_pools, "REPLICAS", (2,))
    head, _, line = rows()
    assert head.count("|") == line.count("|") == 5 + len(SHOWN)
    assert line.startswith("| Llama-3.1-8B-Instruct, 1 L40S, 4579 in, 59 out | 0.41 | 2 | 46.7 |")
