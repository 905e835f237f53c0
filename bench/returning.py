"""`python -m bench.returning`: pools in bursts at no fixed distance, with and without what is held for them (ADR 0119).

As a fluid: a replica serves one request/s and starts in two minutes; six hours, means of three seeds. A fixed fleet for
these bursts has 40 replicas, which is 240 replica-hours.
"""

from __future__ import annotations

from itertools import product
from statistics import mean
from unittest.mock import patch

import numpy as np

from bench.fluid import STEP_SECONDS, Fluid
from weft.scaling import demand

QUIET, BURST = 1.0, 40.0  # requests/s
HOURS, SEEDS = 6.0, (1, 2, 3)
_MINUTE, _HOUR = 60.0, 3600.0


def bursts(
    hours: float, lasting: float = 2.0, apart: tuple[float, float] = (3.0, 9.0), seed: int = 1, quiet: float = QUIET
) -> list[float]:
    """Rates of steps: bursts of so many minutes, each after a pause of anything between these minutes."""
    random, rates = np.random.default_rng(seed), list[float]()
    while len(rates) * STEP_SECONDS < hours * _HOUR:
        rates += [quiet] * round(random.uniform(*apart) * _MINUTE / STEP_SECONDS)
        rates += [BURST] * round(lasting * _MINUTE / STEP_SECONDS)
    return rates


def counted(rates: list[float]) -> list[float]:
    """The same rates with requests that come by chance."""
    found: list[float] = (np.random.default_rng(2).poisson(np.array(rates) * STEP_SECONDS) / STEP_SECONDS).tolist()
    return found


def held(rates: list[float]) -> Fluid:
    """A pool as it is scaled."""
    return Fluid().run(rates)


def by_forecasts_alone(rates: list[float]) -> Fluid:
    """A pool that holds nothing for bursts that return."""
    with patch.object(demand, "returning", lambda *_: 0.0):
        return Fluid().run(rates)


def main() -> None:
    """Print the table."""
    print("| bursts | forecasts alone | replica-hours | with what is held | replica-hours |\n|---|---|---|---|---|")
    for quiet, lasting, apart in product((0.2, 1.0, 5.0), (1.0, 2.0, 4.0), ((3.0, 9.0), (6.0, 15.0))):
        rates = [counted(bursts(HOURS, lasting, apart, seed, quiet)) for seed in SEEDS]
        told = " | ".join(_told([run(each) for each in rates]) for run in (by_forecasts_alone, held))
        between = f"{apart[0]:g} to {apart[1]:g} min apart"
        print(f"| from {quiet:g} to {BURST:g} requests/s for {lasting:g} min, {between} | {told} |")


def _told(pools: list[Fluid]) -> str:
    hours = mean(pool.replica_seconds for pool in pools) / _HOUR
    return f"{mean(pool.attained for pool in pools):.1%} | {hours:.0f}"


if __name__ == "__main__":
    main()
