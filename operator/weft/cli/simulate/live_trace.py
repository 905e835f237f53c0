"""`--from-prometheus`: a trace drawn from what a resource's engines counted, reproducible by its seed.

Known are a rate and mean lengths of each step; the time and the lengths of single requests are drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from weft.cli.ends.failure import CLUSTER_REFUSES, CommandFailure
from weft.twin.traffic.open_loop import LogNormalLengths, whole_tokens
from weft.twin.traffic.trace import MOST_REQUESTS, Trace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from weft.engines import EngineSeries

    Column = NDArray[np.float64]

STEP_SECONDS, MOST_STEPS = 60.0, 1440
_TIMEOUT_SECONDS = 30
_LONGEST = 160  # most characters that a message quotes of an unexpected answer
_NO_ANSWER = (ValueError, KeyError, TypeError, RecursionError)  # raised by reading an answer that holds no rates


@dataclass(frozen=True, slots=True)
class Recorded:
    """Where requests were counted: a Prometheus, its last `hours`, and a pool whose engines answered.

    `series` are the names of their metrics.
    """

    url: str
    hours: float
    namespace: str
    pool: str
    series: EngineSeries

    @property
    def counters(self) -> tuple[str, str, str]:
        """The counters of requests, prompt tokens and answer tokens; raises `CommandFailure` without them."""
        series = self.series
        if series.input_tokens is not None and series.output_tokens is not None:
            return series.finished, series.input_tokens, series.output_tokens
        prompts, answers = series.request_input_tokens, series.request_output_tokens
        if prompts is None or answers is None:
            raise CommandFailure(f"engines of pool {self.pool} do not count tokens in this version: give a --trace")
        return f"{prompts}_count", f"{prompts}_sum", f"{answers}_sum"

    @property
    def step_seconds(self) -> float:
        """Seconds from one value to the next."""
        return max(STEP_SECONDS, math.ceil(self.hours * 3600.0 / MOST_STEPS))

    @property
    def words(self) -> str:
        """`last 24 h in prometheus`, without credentials in the address."""
        return f"last {self.hours:g} h in {urlsplit(self.url).hostname}"


def live_trace(recorded: Recorded, seed: int) -> Trace:
    """Draw Poisson arrivals at the rate of each step, with lengths around its means; one seed draws the same trace.

    Raises `CommandFailure` where Prometheus does not answer, or knows no request.
    """
    names = recorded.counters
    begin, rates = _rates(recorded, names)
    counted, inputs, outputs = (_column(recorded, begin, found) for found in rates)
    requests = recorded.step_seconds * float(counted.sum())
    if requests > MOST_REQUESTS:
        raise CommandFailure(f"{recorded.words} there are {requests:.3g} requests: take fewer --hours, or a --trace")
    trace = _drawn((counted, inputs, outputs), recorded.step_seconds, np.random.default_rng(seed))
    if not len(trace):
        raise CommandFailure(
            f"{recorded.words} there is no request of pool {recorded.pool} in namespace {recorded.namespace}: "
            f"does it scrape {names[0]} with labels namespace and pod?"
        )
    return trace


def _rates(recorded: Recorded, names: tuple[str, ...]) -> tuple[float, list[Mapping[float, float]]]:
    """Return when the period begins, and for each counter its rate by time."""
    import requests
    from prometheus_api_client import PrometheusConnect
    from prometheus_api_client.exceptions import PrometheusApiClientException
    from urllib3.util.retry import Retry

    from weft.observe.sources.prometheus import rate_of_all

    client = PrometheusConnect(url=recorded.url, retry=Retry(total=0), timeout=_TIMEOUT_SECONDS)
    end = datetime.now(tz=UTC).replace(microsecond=0)  # whole seconds, as the client rounds times
    begin = end - timedelta(hours=recorded.hours)
    step = f"{recorded.step_seconds:.0f}"
    span = 2.0 * recorded.step_seconds
    queries = [rate_of_all(recorded.namespace, recorded.pool, (name,), span) for name in names]
    try:
        found = [client.custom_query_range(query, begin, end, step) for query in queries]
        return begin.timestamp(), [_by_time(result) for result in found]
    except PrometheusApiClientException as error:  # an answer other than 200
        why = f"Prometheus at {urlsplit(recorded.url).hostname} refuses: {' '.join(str(error).split())[:_LONGEST]}"
        asked = "is --from-prometheus its address, with NAME:PASSWORD@ where it asks for them?"
        raise CommandFailure(f"{why}; {asked}", CLUSTER_REFUSES) from error
    except (requests.RequestException, *_NO_ANSWER) as error:
        why = f"Prometheus at {urlsplit(recorded.url).hostname} does not answer: {type(error).__name__}"
        raise CommandFailure(f"{why}; is --from-prometheus its address?", CLUSTER_REFUSES) from error


def _by_time(result: Any) -> dict[float, float]:  # noqa: ANN401 - the JSON of the answer
    found = {float(at): float(value) for series in result for at, value in series["values"]}
    return {at: value for at, value in found.items() if math.isfinite(at)}


def _column(recorded: Recorded, begin: float, found: Mapping[float, float]) -> Column:
    """Return the values of all steps; missing or invalid ones are 0."""
    steps = max(1, math.ceil(recorded.hours * 3600.0 / recorded.step_seconds))
    column = np.zeros(steps)
    for at, value in found.items():
        place = round((at - begin) / recorded.step_seconds)
        if 0 <= place < steps and math.isfinite(value) and value > 0.0:
            column[place] = value
    return column


def _drawn(columns: tuple[Column, Column, Column], step_seconds: float, random: np.random.Generator) -> Trace:
    counted, inputs, outputs = columns
    known = (inputs > 0.0) & (outputs > 0.0)
    counts = random.poisson(np.where(known, counted, 0.0) * step_seconds)
    steps = np.repeat(np.arange(len(counts)), counts)
    arrivals = np.sort((steps + random.random(len(steps))) * step_seconds)
    where = (arrivals // step_seconds).astype(np.intp)
    drawn = [_lengths(total, counted, where, random) for total in (inputs, outputs)]
    return Trace(arrivals, drawn[0], drawn[1])


def _lengths(total: Column, counted: Column, where: NDArray[np.intp], random: np.random.Generator) -> NDArray[np.int32]:
    """Draw log-normal lengths around the mean of each step, at least one token."""
    means = np.maximum(1.0, total[where] / counted[where])
    spread = LogNormalLengths(1.0).sigma
    return whole_tokens(random.lognormal(np.log(means) - spread**2 / 2.0, spread))
