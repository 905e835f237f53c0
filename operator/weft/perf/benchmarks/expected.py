"""What the model predicts for a measurement: latencies and throughput, with intervals that hold about 80 % of the time.

How far predictions are off (`efficiency.yaml`): narrowest where the architecture was measured on this generation of GPU
with this engine and precision; else as for architectures left out of the fit; and wider where nobody measured the
combination at all. For releases newer than all measured ones of their engine, the fast ends reach further.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.catalog.uncertainty import CROWDED
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.texts.units import GIB
from weft.perf.benchmarks.alone import MeasuredHalf, decode_alone, prompts_alone
from weft.perf.benchmarks.closed_loop import ClosedLoop, Latencies, closed_loop_latencies, closed_loop_work
from weft.perf.benchmarks.disaggregated import Half, disaggregated_latencies
from weft.perf.benchmarks.measured import Kind
from weft.perf.benchmarks.offline import offline_throughput
from weft.perf.benchmarks.open_loop import Served, open_loop
from weft.perf.memory import footprint

if TYPE_CHECKING:
    from weft.catalog import Catalog
    from weft.catalog.uncertainty import Spread
    from weft.perf.benchmarks.measured import Measurement


_MOST_USERS, _HALVINGS = 16_384.0, 24  # of a search for a concurrency, in logarithms


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its interval, in the value's unit."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Expected:
    """Latencies in seconds, and output tokens per second of all replicas; None where this kind of measurement has none.

    TPOT is also None for answers of one token.
    """

    ttft: Estimate | None
    tpot: Estimate | None
    output_rate: Estimate | None


def expected(at: Measurement, catalog: Catalog) -> Expected:
    """What a measurement is predicted to show. Raises `Invalid` (OutOfMemory) if the weights exceed device memory."""
    _check_that_weights_fit(at)
    if at.copies > 1:
        return _of_all(_expected_of_one(_shared_out(at), catalog), at.copies)
    return _expected_of_one(at, catalog)


def _shared_out(at: Measurement) -> Measurement:
    """The measurement of one replica, with its share of the load."""
    return replace(at, users=max(1.0, at.users / at.copies) if at.users else 0.0, rate=at.rate / at.copies, copies=1)


def _of_all(one: Expected, copies: int) -> Expected:
    """The prediction for all replicas: latencies of one, and the output rates added up."""
    rate = one.output_rate
    together = Estimate(rate.value * copies, rate.low * copies, rate.high * copies) if rate is not None else None
    return replace(one, output_rate=together)


def _expected_of_one(at: Measurement, catalog: Catalog) -> Expected:
    off_by = catalog.offline_spread if at.kind is Kind.Offline else catalog.spread
    spread = off_by(at.replica.architecture, at.replica.shape, at.replica.accelerator, at.release)
    if at.alone is MeasuredHalf.Decode:
        return _decode_alone(at, spread)
    if at.kind is Kind.Offline and at.prefill is not None:
        full_rate = _closed(replace(at, users=at.users or _MOST_USERS)).requests_per_second * at.output_tokens
        return Expected(None, None, _around(full_rate, spread.output_rate_below, spread.output_rate))
    if at.kind is Kind.Offline:
        full = offline_throughput(at.replica, at.input_tokens, at.output_tokens, at.users or None)
        return Expected(
            ttft=None,
            tpot=_around(full.tpot_seconds, spread.tpot_below, spread.tpot) if at.output_tokens > 1 else None,
            output_rate=_around(full.output_tokens_per_second, spread.output_rate_below, spread.output_rate),
        )
    found = _served(at)
    output_rate = _around(found.requests_per_second * at.output_tokens, spread.output_rate_below, spread.output_rate)
    return Expected(
        ttft=_first_token(found.latencies.ttft, at, spread),
        tpot=_around(found.latencies.tpot, spread.tpot_below, spread.tpot) if at.output_tokens > 1 else None,
        output_rate=_offered(output_rate, at) if at.kind is Kind.OpenLoop else output_rate,
    )


def _decode_alone(at: Measurement, spread: Spread) -> Expected:
    found = decode_alone(at.replica, at.users, at.rate, at.input_tokens, at.output_tokens)
    output_rate = _around(found.requests_per_second * at.output_tokens, spread.output_rate_below, spread.output_rate)
    return Expected(
        ttft=None,
        tpot=_around(found.latencies.tpot, spread.tpot_below, spread.tpot),
        output_rate=_offered(output_rate, at) if at.kind is Kind.OpenLoop else output_rate,
    )


def _first_token(seconds: float, at: Measurement, spread: Spread) -> Estimate:
    """TTFT with its interval, which is a different one where queueing of prompts dominates."""
    alone = _closed_loop_latencies(replace(at, users=1.0)).ttft
    if seconds >= CROWDED * alone:
        return _around(seconds, spread.crowded_ttft_below, spread.crowded_ttft)
    return _around(seconds, spread.ttft_below, spread.ttft)


def _offered(estimate: Estimate, at: Measurement) -> Estimate:
    """The output rate of an open loop, whose upper end is bounded by the offered rate."""
    return replace(estimate, high=min(estimate.high, max(estimate.value, at.rate * at.output_tokens)))


def _served(at: Measurement) -> Served:
    """What one replica serves; with both a rate and `max-concurrency` (`vllm bench serve`), whichever binds first.

    The concurrency binds where, by Little's law, more requests would be in flight without it.
    """
    if at.kind is not Kind.OpenLoop:
        return _closed(at)
    free = _apart_at_a_rate(at) if at.prefill is not None else _together_at_a_rate(at)
    under_way = at.rate * (free.latencies.ttft + at.output_tokens * free.latencies.tpot)
    if not at.users or (free.requests_per_second >= at.rate and under_way <= at.users):
        return free
    bound = _closed(at)
    return replace(bound, requests_per_second=min(bound.requests_per_second, at.rate))


def _together_at_a_rate(at: Measurement) -> Served:
    return open_loop(at.replica, at.rate, at.input_tokens, at.output_tokens)


def _apart_at_a_rate(at: Measurement) -> Served:
    """Halves of a split at the lowest concurrency that serves the rate; a higher one would only add waiting."""
    low, high = 1.0, _MOST_USERS
    if _closed(replace(at, users=high)).requests_per_second < at.rate:
        return _closed(replace(at, users=high))
    for _ in range(_HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (
            (low, middle) if _closed(replace(at, users=middle)).requests_per_second >= at.rate else (middle, high)
        )
    return replace(_closed(replace(at, users=high)), requests_per_second=at.rate)


def _closed(at: Measurement) -> Served:
    if at.alone is MeasuredHalf.Prefill:
        return prompts_alone(at.replica, at.users, at.input_tokens, overlapped=at.overlapped)
    found = _closed_loop_latencies(at)
    return Served(found, at.users / (found.ttft + max(0.0, at.output_tokens - 1.0) * found.tpot))


def _closed_loop_latencies(at: Measurement) -> Latencies:
    if at.prefill is not None:
        decode = Half(at.replica, at.decoders)
        return disaggregated_latencies(at.prefill, decode, at.users, at.input_tokens, at.output_tokens)
    lengths = (at.input_tokens, at.output_tokens)
    load = ClosedLoop(at.users, *lengths, at.equal_lengths, at.looks_every, at.rounds)
    return closed_loop_latencies(closed_loop_work(at.replica, load), at.replica.efficiency)


def _check_that_weights_fit(at: Measurement) -> None:
    for replica in (at.replica, *([at.prefill.replica] if at.prefill else [])):
        weights, device = footprint(replica).weight_bytes, replica.memory_bytes
        if weights > device:
            raise Invalid(
                Reason.OutOfMemory,
                f"weights take {weights / GIB:.1f} GiB of each GPU, which has {device / GIB:.1f} GiB",
            )


def _around(value: float, below: float, above: float) -> Estimate:
    return Estimate(value, value / below, value * above)
