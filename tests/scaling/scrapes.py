"""What engines show over a minute: counters that grow and restart, values that are no numbers, series that are gone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from weft.domain.shape import EngineName
from weft.engines import series_for
from weft.observe.samples.history import History
from weft.observe.samples.scrape_target import EngineTarget
from weft.observe.signals.observation import observe_pool

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolObservation

SERIES = series_for(EngineName.VLLM, "0.20.0")
SCRAPES, APART_SECONDS = 6, 10.0
GAUGES = (str(SERIES.running), str(SERIES.waiting), str(SERIES.kv_usage))
COUNTERS = (SERIES.finished, f"{SERIES.request_input_tokens}_sum", f"{SERIES.request_input_tokens}_count")
ODD = {"nan": math.nan, "negative": -7.0, "infinite": math.inf}

scrapes = st.one_of(st.floats(0, 1000), st.sampled_from(["restarts", "absent", *ODD]))
lines = st.lists(scrapes, min_size=SCRAPES, max_size=SCRAPES)
engines = st.fixed_dictionaries(dict.fromkeys((*GAUGES, *COUNTERS), st.one_of(st.none(), lines)))

Line = list[float | str]


def samples(name: str, line: Line) -> tuple[tuple[float, float], ...]:
    """The samples of one series; a counter grows by each number and starts at zero after a restart."""
    found, total = [], 0.0
    for scrape, event in enumerate(line):
        if isinstance(event, float):
            total = event if name in GAUGES else total + event
        elif event == "restarts":
            total = 0.0
        if event != "absent":
            found.append((scrape * APART_SECONDS, ODD.get(str(event), total)))
    return tuple(found)


def observed(pods: list[dict[str, Line | None]]) -> PoolObservation:
    """A pool of these engines, through the same arithmetic as production."""
    names = [f"pod-{index}" for index in range(len(pods))]
    targets = [EngineTarget(name, "team", name, "10.0.0.1", 8000, "/metrics", (), series=SERIES) for name in names]
    now = (SCRAPES - 1) * APART_SECONDS
    histories = {
        name: History(now, {(key, ()): samples(key, line) for key, line in pod.items() if line is not None})
        for name, pod in zip(names, pods, strict=True)
    }
    return observe_pool(targets, histories)


scraped = st.lists(engines, min_size=1, max_size=2).map(observed)
