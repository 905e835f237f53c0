"""A real engine and the twin under the same arrivals, after one calibration of the twin's step times."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.truth_bench.asking import closed_loop, open_loop
from bench.truth_bench.clients import Client
from bench.truth_bench.fitting import fit
from bench.truth_bench.real_engine import OPTIONS, SEATS, real_engine
from bench.truth_bench.series import Point, Series

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.truth_bench.asking import Timed
    from bench.truth_bench.clients import Latencies
    from bench.truth_bench.fitting import Fit
    from bench.truth_bench.real_engine import RealEngine

CLIENT = Client(input_tokens=512, output_tokens=64, spread=True)
CALIBRATED_AT = (1, 4, SEATS)  # users of a closed loop
LOADS = (0.2, 0.5, 0.8)  # of what as many users as it has seats are answered
WITHIN = 0.25
_CALIBRATION_REQUESTS, _LOAD_REQUESTS, _LEAST_ROUNDS = 24, 80, 4
_ORDER_SEED = 7


@dataclass(frozen=True, slots=True)
class Calibration:
    """What users of a closed loop saw, and the steps that make the twin show the same."""

    series: Series
    steps: Fit

    @property
    def request_rate(self) -> float:
        """Requests per second that as many users as there are seats are answered: Little's law."""
        last = self.series.points[-1]
        return last.users / (last.ttft + (CLIENT.mean_output_tokens - 1.0) * last.tpot)


def measured() -> dict[str, Any]:
    """Start the engine, calibrate, and load it three times; the engine is ended whatever happens."""
    before = os.getloadavg()[0]
    with real_engine() as engine:
        calibration = calibrated(engine)
        found = [_loaded(engine, calibration, load) for load in LOADS]
    return {
        "version": engine.version,
        "options": " ".join(OPTIONS),
        "lengths": [CLIENT.input_tokens, CLIENT.output_tokens],
        "load_average_before": round(before, 2),
        "load_average_after": round(os.getloadavg()[0], 2),
        "calibration": [asdict(point) for point in calibration.series.points],
        "prompt_seconds": calibration.steps.prompt_token * CLIENT.input_tokens,
        "outside_seconds": calibration.steps.outside,
        "step_seconds": {str(size): seconds for size, seconds in calibration.steps.decode.items()},
        "loads": found,
    }


def calibrated(engine: RealEngine) -> Calibration:
    """A short closed loop at a few concurrencies; the first request of each user warms up and does not count."""
    points = []
    for users in CALIBRATED_AT:
        rounds = max(_LEAST_ROUNDS, _CALIBRATION_REQUESTS // users)
        seen = _middle(closed_loop(engine.url, CLIENT.lengths(users * rounds), users))
        points.append(Point(users, users, seen.ttft, seen.tpot))
        _say(f"{users} users: TTFT {seen.ttft:.3f} s, TPOT {seen.tpot:.4f} s")
    series = Series(f"vLLM {engine.version} on the CPU", "vllm", engine.replica, CLIENT, tuple(points))
    return Calibration(series, fit(series, points))


def _loaded(engine: RealEngine, calibration: Calibration, load: float) -> dict[str, Any]:
    rate = load * calibration.request_rate
    arrivals = poisson(rate, _LOAD_REQUESTS)
    real = open_loop(engine.url, CLIENT.lengths(len(arrivals)), arrivals)
    seen = _middle(real)
    twin = beside(calibration, [each.sent for each in real])
    _say(
        f"{load:.0%} load: TTFT {seen.ttft:.3f} s and in the twin {twin.ttft:.3f} s, TPOT {seen.tpot:.4f} s and "
        f"{twin.tpot:.4f} s"
    )
    return {
        "load": load,
        "requests_per_second": rate,
        "requests": len(real),
        "load_average": round(os.getloadavg()[0], 2),
        "measured": asdict(seen),
        "twin": asdict(twin),
    }


def beside(calibration: Calibration, sent: Sequence[float]) -> Latencies:
    """What the twin makes of requests that were sent at these times."""
    begin, steps = min(sent), calibration.steps
    return CLIENT.replay(steps.speed(calibration.series), [at - begin for at in sent], steps.outside)


def poisson(rate: float, count: int) -> list[float]:
    """Arrivals in seconds, the same for every rate but for their pace."""
    gaps = np.random.default_rng(_ORDER_SEED).exponential(1.0 / rate, count)
    return [float(at) for at in np.cumsum(gaps)]


def _middle(seen: Sequence[Timed]) -> Latencies:
    return CLIENT.middle([each.ttft for each in seen], [each.tpot for each in seen])


def _say(line: str) -> None:
    print(f"engine: {line}", file=sys.stderr, flush=True)
