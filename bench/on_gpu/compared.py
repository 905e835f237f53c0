"""What was measured on a GPU beside what Weft's performance model and its twin expect, which have not seen it."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.on_gpu.programs import PROGRAMS
from bench.truth_bench.beside import poisson
from bench.truth_bench.clients import Client
from bench.truth_bench.fitting import fit
from bench.truth_bench.series import Point, Replica, Series
from weft.catalog import load
from weft.domain.workload import Role, Workload
from weft.perf.benchmarks.expected import expected
from weft.perf.benchmarks.measured import measurement
from weft.perf.memory import kv_tokens, sequence_bytes_per_gpu
from weft.perf.predict import at_rate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from weft.perf.benchmarks.expected import Estimate
    from weft.perf.benchmarks.measured import Measurement
    from weft.perf.replica import ReplicaModel

_MILLI = 1e3
_SPREAD = "InferenceX"  # a table's name for lengths that are drawn evenly from 0.8 of the nominal ones to all of them
_MEAN, _P95 = 0.9, 0.99  # of the nominal length
_SIZES = {
    "vllm": ("--max-num-seqs", "--max-num-batched-tokens"),
    "sglang": ("--max-running-requests", "--chunked-prefill-size"),
}
Measured = dict[str, Any]
Both = dict[str, tuple[float, float]]  # by percentile: measured, by the model


@dataclass(frozen=True, slots=True)
class Beside:
    """Milliseconds that were measured, that are expected, and between which four of five measurements should lie."""

    measured: float
    expected: float
    low: float
    high: float

    @property
    def off(self) -> float:
        """Expected over measured, less one."""
        return self.expected / self.measured - 1.0


@dataclass(frozen=True, slots=True)
class Loop:
    """A closed loop: its users, nominal lengths, and both latencies' medians."""

    users: int
    input: int
    output: int
    ttft: Beside
    tpot: Beside


@dataclass(frozen=True, slots=True)
class Open:
    """Arrivals at random: requests a second, milliseconds of both latencies, and medians of both in the twin."""

    rate: float
    ttft: Both
    tpot: Both
    twin: tuple[float, float]


def loops(told: Measured) -> list[Loop]:
    """Every closed loop."""
    return [_loop(told, each) for each in told["closed"]]


def _loop(told: Measured, loop: Mapping[str, Any]) -> Loop:
    found = expected(_asked(told, loop, concurrency=loop["users"]), load())
    both = [_beside(loop[f"{name}_ms"]["p50"], getattr(found, name)) for name in ("ttft", "tpot")]
    return Loop(loop["users"], loop["input"], loop["output"], *both)


def _beside(measured: float, estimate: Estimate) -> Beside:
    return Beside(measured, *(_MILLI * each for each in (estimate.value, estimate.low, estimate.high)))


def engine_of(told: Measured) -> str:
    """Its name in tables."""
    return next(name for name in PROGRAMS if name in told)


def _asked(told: Measured, lengths: Mapping[str, Any], **load_: float) -> Measurement:
    engine = engine_of(told)
    row = {
        "model": told.get("model", told["name"]),
        "precision": told.get("precision", "BF16"),
        "gpu": told["gpu"]["name"],
        "kv_precision": "BF16",  # Weft asks for no other, where readers of tables take FP8 for that of FP8 weights
        "engine": engine,
        "engine_version": told[engine],
        "isl": str(lengths["input"]),
        "osl": str(lengths["output"]),
        "source": _SPREAD,
        **{name: str(value) for name, value in load_.items()},
    }
    return measurement(row, load())


def off_after(one: Loop, all_loops: Sequence[Loop], name: str) -> float:
    """Median error of the other loops once what is off at one is divided out, as the operator learns it."""
    factor = 1.0 + getattr(one, name).off
    others = (1.0 + getattr(each, name).off for each in all_loops if each is not one)
    return float(median(abs(other / factor - 1.0) for other in others))


def arrivals(told: Measured) -> list[Open]:
    """Every open loop, beside the model's closed forms and the twin with steps fitted to the closed loops."""
    return [_open(told, each) for each in told["open"]]


def _open(told: Measured, loop: Mapping[str, Any]) -> Open:
    at = _asked(told, loop, request_rate=loop["rate"])
    lengths = [loop[side] * part for part in (_MEAN, _P95) for side in ("input", "output")]
    found = at_rate(at.replica, Workload(loop["rate"], *lengths), Role.Aggregated)
    sides = found or (None, None)
    ttft, tpot = (
        {each: (loop[name][each], _MILLI * getattr(side, each) if side else 0.0) for each in ("p50", "p95")}
        for name, side in zip(("ttft_ms", "tpot_ms"), sides, strict=True)
    )
    return Open(loop["rate"], ttft, tpot, _by_the_twin(told, loop))


def _by_the_twin(told: Measured, loop: Mapping[str, Any]) -> tuple[float, float]:
    """Medians of TTFT and TPOT of as many arrivals at that rate."""
    same = [each for each in told["closed"] if each["input"] == loop["input"]]
    points = tuple(
        Point(each["users"], each["users"], *(each[name]["p50"] / _MILLI for name in ("ttft_ms", "tpot_ms")))
        for each in same
    )
    engine, options = engine_of(told), told["options"]
    seats, tokens = (int(options[options.index(name) + 1]) for name in _SIZES[engine])
    client = Client(loop["input"], loop["output"], spread=True)
    series = Series(told["name"], engine, Replica(told["kv_tokens"], seats, tokens), client, points)
    windows = [poisson(loop["rate"], loop["requests"], seed) for seed in range(4)]
    said = _in_the_twin(client, series, windows)
    return _MILLI * said[0], _MILLI * said[1]


def _in_the_twin(client: Client, series: Series, windows: Sequence[Sequence[float]]) -> tuple[float, float]:
    steps = fit(series, series.points)
    speed = steps.speed(series)
    answered = [each for sent in windows for each in client.replay(speed, sent, steps.outside)]
    said = client.middle(answered)
    return said.ttft, said.tpot


def room(told: Measured) -> tuple[int, int]:
    """Tokens of KV that the engine had room for, and that the memory model expects."""
    at = _asked(told, told["closed"][0], concurrency=1)
    return told["kv_tokens"], kv_tokens(at.replica, at.input_tokens + at.output_tokens)


def replica_of(told: Measured, loop: Mapping[str, Any]) -> ReplicaModel:
    """The replica that was asked so, as the performance model knows it."""
    return _asked(told, loop, concurrency=1).replica


def kv_bytes(told: Measured, loop: Mapping[str, Any]) -> float:
    """Of the KV of a prompt of mean length."""
    return sequence_bytes_per_gpu(replica_of(told, loop), loop["input"] * _MEAN)


def start(told: Measured) -> float:
    """Seconds that a start is expected to take from a container's beginning, without weights."""
    replica = replica_of(told, told["closed"][0])
    known, layers = load().starting.engines[replica.shape.engine], replica.architecture.layers
    return known.seconds + known.layer_seconds * layers
