"""What a fixed ratio between the pools of a split costs beside one that follows demand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fixed_ratio import fixed_ratio
from weft.twin.hindsight.oracle import PoolNeed

HOUR = 3600.0


def pool(*needed: float, gpus: int = 1) -> PoolNeed:
    return PoolNeed("pool", gpus, np.array(needed, dtype=np.float64))


def test_a_mix_that_never_moves_wastes_nothing() -> None:
    found = fixed_ratio(pool(1.0, 2.0, 3.0, gpus=2), pool(2.0, 4.0, 6.0, gpus=4), HOUR)
    assert found.ratio == pytest.approx(0.5)
    assert found.following_hours == pytest.approx(60.0)
    assert found.waste_percent == pytest.approx(0.0)


def test_a_mix_that_turns_around_wastes_a_third() -> None:
    """At ratio 1 two replicas of each run in both bins, of which one of each pool is too many: 8 for 6 GPU-hours."""
    found = fixed_ratio(pool(2.0, 1.0), pool(1.0, 2.0), HOUR)
    assert found.ratio == pytest.approx(1.0)
    assert found.waste_percent == pytest.approx(100.0 / 3.0)


NEEDS = st.lists(st.tuples(st.floats(0.1, 9.0), st.floats(0.1, 9.0)), min_size=1, max_size=8)


@given(needs=NEEDS, gpus=st.tuples(st.integers(1, 8), st.integers(1, 8)))
def test_no_other_ratio_costs_less(needs: list[tuple[float, float]], gpus: tuple[int, int]) -> None:
    prompts, answers = zip(*needs, strict=True)
    found = fixed_ratio(pool(*prompts, gpus=gpus[0]), pool(*answers, gpus=gpus[1]), HOUR)
    assert found.waste_percent >= -1e-6
    for ratio in np.geomspace(0.005, 200.0, 300).tolist():
        decoding = np.maximum(answers, np.array(prompts) / ratio)
        assert found.fixed_hours <= decoding.sum() * (gpus[1] + ratio * gpus[0]) + 1e-6


def test_one_half_alone_has_no_ratio() -> None:
    with pytest.raises(ValueError, match="prompts and answers"):
        fixed_ratio(pool(0.0, 0.0), pool(1.0, 2.0), HOUR)
