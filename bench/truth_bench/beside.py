"""A real engine and the twin under the same arrivals, after one calibration of the twin's step times."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.truth_bench.asking import closed_loop, open_loop
from bench.truth_bench.clients import Client
from bench.truth_bench.fitting import fit
from bench.truth_bench.real_engine import OPTIONS, SEATS, real_engine
from bench.truth_bench.series import Point, Series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.truth_bench.asking import Timed
    from bench.truth_bench.clients import Latencies
    from bench.truth_bench.fitting import Fit
    from bench.truth_bench.series import Replica

CLIENT = Client(input_tokens=512, output_tokens=64, spread=True, rounds=4)
CALIBRATED_AT = (1, 4, SEATS)  # users of a closed loop
LOADS = (0.2, 0.5, 0.8)  # of what as many users as it has seats are answered
TURNS = 6  # calibration and loads take turns, so that all meet the same neighbours on the machine
WITHIN = 0.25
_LOAD_REQUESTS = 30  # in a turn
_WARM_UP_USERS = 4


@dataclass(frozen=True, slots=True)
class Seen:
    """Requests to a real engine: of closed loops by users, and of open ones by load, window by window."""

    rate: float  # requests per second that all seats were answered in the first turn
    closed: Mapping[int, list[Timed]]
    windows: Mapping[float, list[list[Timed]]]


def measured() -> dict[str, Any]:
    """Start the engine, calibrate and load it in turns, and end it; then the twin, which knows the calibration only."""
    before = os.getloadavg()[0]
    with real_engine() as engine:
        seen = asked(engine.url)
    series = calibrated(seen, engine.replica)
    steps = fit(series, series.points)
    return {
        "version": engine.version,
        "options": " ".join(OPTIONS),
        "lengths": [CLIENT.input_tokens, CLIENT.output_tokens],
        "turns": TURNS,
        "rounds": CLIENT.rounds,
        "load_average": [round(before, 1), round(os.getloadavg()[0], 1)],
        "calibration": [_calibration(point, seen, series, steps) for point in series.points],
        "prompt_seconds": steps.prompt_token * CLIENT.input_tokens,
        "outside_seconds": steps.outside,
        "step_seconds": {str(size): seconds for size, seconds in steps.decode.items()},
        "loads": [_load(load, seen, series, steps) for load in LOADS],
    }


def asked(url: str) -> Seen:
    """Everything the real engine is asked; tells its way on stderr."""
    closed: dict[int, list[Timed]] = {users: [] for users in CALIBRATED_AT}
    windows: dict[float, list[list[Timed]]] = {load: [] for load in LOADS}
    rate = 0.0
    closed_loop(url, CLIENT.lengths(_WARM_UP_USERS * CLIENT.rounds), _WARM_UP_USERS)
    for turn in range(TURNS):
        for users, found in closed.items():
            found.extend(closed_loop(url, CLIENT.lengths(users * CLIENT.rounds), users))
        rate = rate or SEATS / seconds_of_a_request(CLIENT.middle(closed[SEATS]))
        for load, several in windows.items():
            arrivals = poisson(load * rate, _LOAD_REQUESTS, seed=turn)
            several.append(open_loop(url, CLIENT.lengths(len(arrivals)), arrivals))
        print(f"engine: turn {turn + 1} of {TURNS}", file=sys.stderr, flush=True)
    return Seen(rate, closed, windows)


def seconds_of_a_request(said: Latencies) -> float:
    """From when it is sent to its last token, with an answer of the mean length."""
    return said.ttft + (CLIENT.mean_output_tokens - 1.0) * said.tpot


def calibrated(seen: Seen, replica: Replica) -> Series:
    """The closed loops alone, as one series of measured rows."""
    said = {users: CLIENT.middle(found) for users, found in seen.closed.items()}
    points = tuple(Point(users, users, each.ttft, each.tpot) for users, each in said.items())
    return Series("vLLM on the CPU", "vllm", replica, CLIENT, points)


def _calibration(point: Point, seen: Seen, series: Series, steps: Fit) -> dict[str, Any]:
    """One of the closed loops, and what the steps that were fitted to all of them make of it."""
    count = len(seen.closed[point.users])
    return {**asdict(point), "requests": count, "twin": asdict(steps.latencies(series, point.users))}


def _load(load: float, seen: Seen, series: Series, steps: Fit) -> dict[str, Any]:
    windows = seen.windows[load]
    real = CLIENT.middle(chain.from_iterable(windows))
    return {
        "load": load,
        "requests_per_second": load * seen.rate,
        "requests": sum(map(len, windows)),
        "measured": asdict(real),
        "by_turn": [asdict(CLIENT.middle(window)) for window in windows],
        "twin": asdict(beside(series, steps, [[each.sent for each in window] for window in windows])),
    }


def beside(series: Series, steps: Fit, windows: Sequence[Sequence[float]]) -> Latencies:
    """What the twin makes of requests that were sent at these times, each window on an idle engine."""
    speed = steps.speed(series)
    times = [[at - min(sent) for at in sent] for sent in windows]
    return CLIENT.middle(chain.from_iterable(CLIENT.replay(speed, sent, steps.outside) for sent in times))


def poisson(rate: float, count: int, seed: int) -> list[float]:
    """Arrivals in seconds, the same for every rate but for their pace."""
    gaps = np.random.default_rng(seed).exponential(1.0 / rate, count)
    return [float(at) for at in np.cumsum(gaps)]
