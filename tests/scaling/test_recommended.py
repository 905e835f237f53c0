"""An `External` pool is recommended what `Auto` would run, and its owner is not held at far too many."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from bench.fluid import STEP_SECONDS, Fluid
from tests.scaling.cases import Pool, seen
from weft.domain.scaling_spec import ScalingMode


class Followed(Fluid):
    """A pool whose owner sets what is recommended at once, as KEDA does where it is told not to wait."""

    def desired(self) -> int:
        """What is recommended, for what runs."""
        self.spec = replace(self.spec, mode=ScalingMode.External, replicas=max(1, self.held))
        super().desired()
        assert self.answer is not None
        return self.answer.recommended


def bursts_apart(seconds: float, hours: float, seed: int) -> list[float]:
    """Two minutes of four times the rate, so far apart on average, and at least four minutes."""
    random = np.random.default_rng(seed)
    found: list[float] = []
    while len(found) * STEP_SECONDS < hours * 3600.0:
        quiet = round((240.0 + random.exponential(seconds - 240.0)) / STEP_SECONDS)
        found += [10.0] * quiet + [40.0] * 12
    rates: list[float] = (random.poisson(np.array(found) * STEP_SECONDS) / STEP_SECONDS).tolist()
    return rates


@pytest.mark.parametrize("seed", range(3))
def test_bursts_find_what_they_would_find_in_auto(seed: int) -> None:
    rates = bursts_apart(420.0, 4.0, seed)
    auto, followed = (kind(declared_rate=10.0).run(rates) for kind in (Fluid, Followed))
    differing = sum(one != other for one, other in zip(auto.counts, followed.counts, strict=True))
    assert differing < len(rates) / 50
    assert followed.attained == pytest.approx(auto.attained, abs=0.01)


@dataclass(slots=True)
class Owned(Fluid):
    """A pool whose owner runs 60 replicas, whatever is recommended."""

    recommended: list[int] = field(default_factory=list)

    def desired(self) -> int:
        """As many as ever."""
        self.spec = replace(self.spec, mode=ScalingMode.External, replicas=60)
        super(Owned, self).desired()
        assert self.answer is not None
        self.recommended.append(self.answer.recommended)
        return 60


def test_rises_again_and_again_hold_no_owner_at_far_too_many() -> None:
    """An HPA keeps the highest of the last five minutes: one look in each that says 60 would keep them for ever."""
    pool = Owned(declared_rate=10.0).run(bursts_apart(260.0, 2.0, 1))
    assert max(pool.recommended[-360:]) < 55


def test_nothing_less_is_recommended_before_a_whole_window_was_seen() -> None:
    """As after a restart, in which the bursts of the last minutes are forgotten."""
    pool = Pool().configured(mode=ScalingMode.External, replicas=8)
    assert pool.run(seen(1.0, 8), 300.0).recommended == 8
    assert pool.run(seen(1.0, 8), 320.0).recommended == 1


def test_while_some_replicas_do_not_answer_nothing_less_is_recommended() -> None:
    pool = Pool().configured(mode=ScalingMode.External, replicas=8)
    assert pool.run(seen(1.0, 8, answered=7), 1200.0).recommended == 8
