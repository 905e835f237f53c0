"""While nothing happens most passes are left out, and the outcome is that of all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.counting import counted
from tests.twin.simulated import INPUT, OUTPUT, chat, duo, setting
from weft.twin.cluster.start_up import Fault, FaultKind, StartPhases
from weft.twin.policies import default
from weft.twin.simulation import simulate
from weft.twin.traffic.trace import Trace

if TYPE_CHECKING:
    from weft.twin.outcome import SimulationOutcome
    from weft.twin.policies.policy import Policy
    from weft.twin.simulation import SimulationSetting

QUICK = StartPhases(image_seconds=30.0, weights_seconds=70.0, compile_seconds=5.0, capture_seconds=5.0)
HOUR = 3600.0


def with_pauses(*busy: tuple[float, float], seed: int = 5) -> Trace:
    """Three minutes of requests from each of these seconds on, at a rate each."""
    random = np.random.default_rng(seed)
    found = [np.sort(random.uniform(begin, begin + 180.0, random.poisson(180.0 * rate))) for begin, rate in busy]
    arrivals = np.concatenate(found)
    alike = np.ones(len(arrivals), dtype=np.int32)
    return Trace(arrivals, alike * INPUT, alike * OUTPUT)


PAUSES = with_pauses((0.0, 3.0), (1.5 * HOUR, 4.0), (2.3 * HOUR, 1.0))


def told(outcome: SimulationOutcome) -> dict[str, Any]:
    """All of an outcome but the time that it took."""
    answers = outcome.answers
    return {
        "timeline": outcome.timeline,
        "told": outcome.told,
        "pools": outcome.pools,
        "shortages": outcome.shortages,
        "answers": (answers.arrived.tolist(), answers.ttft.tolist(), answers.tpot.tolist()),
    }


@pytest.mark.parametrize(
    "case",
    [
        setting(PAUSES, chat(), start_up=QUICK),
        setting(PAUSES, chat(scale_down_delay_seconds=2500.0), start_up=QUICK),
        setting(PAUSES, chat(), start_up=QUICK, faults=(Fault("b-0", 0.9 * HOUR, FaultKind.Fails),)),
        duo(PAUSES, start_up=QUICK),
    ],
    ids=["a pool", "a pool that shrinks in the pause", "a node that fails in the pause", "a split"],
)
def test_the_outcome_is_that_of_all_passes(case: SimulationSetting) -> None:
    assert told(simulate(replace(case, leaps=False))) == told(simulate(case))


def test_so_it_is_where_a_policy_counts() -> None:
    case = setting(PAUSES, chat(), start_up=QUICK)
    every = simulate(replace(case, leaps=False), default("hpa").policy())
    assert told(every) == told(simulate(case, default("hpa").policy()))


@pytest.mark.parametrize("name", [None, "hpa"])
def test_far_fewer_passes_are_made(name: str | None) -> None:
    case = setting(with_pauses((0.0, 0.5), (2 * HOUR, 0.1)), chat(), start_up=QUICK)
    policies = [None if name is None else default(name).policy() for _ in range(2)]
    runs = zip((False, True), policies, strict=True)
    every, some = (passes(replace(case, leaps=leaps), policy) for leaps, policy in runs)
    assert some < 0.7 * every


def passes(case: SimulationSetting, policy: Policy | None) -> int:
    return counted(lambda: simulate(case, policy), "operation.py:_decisions")[1]
