"""Random decisions, as far as their values are ones that deciding can come to."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from weft.domain.calibration import Calibrated, CalibrationSubject, ProvenLoad
from weft.domain.decision import PoolDecision
from weft.domain.forecast import KeptForecast
from weft.domain.hardware import Precision
from weft.domain.moves import Relocation
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import (
    Calibration,
    Candidate,
    EngineName,
    EngineRelease,
    Limit,
    Percentiles,
    Plan,
    Prediction,
    Shape,
)
from weft.domain.snapshot import ResourceKey
from weft.domain.spec import SchedulerName
from weft.domain.start_up import StartUp
from weft.domain.status import Assignment, Avoided, ComputeDomain, Condition, Failure, Handover, LeftShape, PoolStatus

TEXT = st.text(st.characters(categories=("L", "N", "P", "S")) | st.sampled_from(" \n"), max_size=40)
WORDS = st.from_regex(r"[A-Za-z0-9.-]{1,20}", fullmatch=True)
VALUES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,20}[A-Za-z0-9])?", fullmatch=True)
SIZES = st.sampled_from([1, 2, 4, 8, 16])
COUNTS = st.integers(0, 2**40)
FIGURES = st.floats(0, 1e12, allow_subnormal=False)
SECONDS = st.floats(0, 1e6, allow_subnormal=False)
INSTANTS = st.floats(1e9, 4e9)

EXPLANATIONS = st.builds(Explanation, st.sampled_from(Reason), TEXT)
SHAPES = st.builds(
    Shape,
    st.sampled_from(EngineName),
    WORDS,
    st.sampled_from(Precision),
    tensor_parallel=SIZES,
    pipeline_parallel=SIZES,
    expert_parallel=SIZES,
    data_parallel=SIZES,
    gpus_per_pod=st.just(1),
    decode_context_parallel=SIZES,
    prefill_context_parallel=SIZES,
)
LATENCIES = st.builds(Percentiles, SECONDS, SECONDS, SECONDS, SECONDS, SECONDS)
PREDICTIONS = st.builds(
    Prediction, FIGURES, LATENCIES, LATENCIES, COUNTS, COUNTS, FIGURES, st.sampled_from(Limit), FIGURES, FIGURES
)
RELEASES = st.builds(EngineRelease, st.sampled_from(EngineName), WORDS, WORDS)
CANDIDATES = st.builds(Candidate, SHAPES, EXPLANATIONS, st.none() | PREDICTIONS)
PLANS = st.builds(Plan, SHAPES, PREDICTIONS, RELEASES, EXPLANATIONS, st.lists(CANDIDATES, max_size=3).map(tuple))
HANDOVERS = st.builds(
    Handover,
    st.just(SchedulerName.Kueue),
    WORDS,
    SIZES,
    WORDS,
    SIZES,
    st.none()
    | st.tuples(st.just("nvidia.com/gpu.product"), st.lists(VALUES, unique=True, min_size=1, max_size=3).map(tuple)),
)


def sharing(assignment: Assignment, cliques: list[str], name: str) -> Assignment:
    """The same with a ComputeDomain, of its own or its split's, where it has nodes that Weft picked."""
    shared = ComputeDomain(tuple(cliques[rank % len(cliques)] for rank in range(len(assignment.nodes))), name)
    return replace(assignment, compute_domain=shared if assignment.nodes else None)


def _has_pods(each: Assignment) -> bool:
    """A function with a name: Hypothesis parses the source of a lambda where a draw is tried again, deep in its stack.

    Python 3.11 miscounts the depth there and ends with a SystemError.
    """
    return each.pods > 0


PLACED = st.builds(
    Assignment,
    st.integers(0, 99),
    WORDS,
    st.lists(WORDS, max_size=3).map(tuple),
    SIZES,
    INSTANTS,
    complete=st.booleans(),
    handover=st.none() | HANDOVERS,
).filter(_has_pods)
ASSIGNMENTS = st.lists(
    PLACED | st.builds(sharing, PLACED, st.lists(VALUES, min_size=1, max_size=2), st.just("") | VALUES),
    max_size=4,
    unique_by=lambda assignment: assignment.replica,
).map(tuple)
AVOIDED = st.lists(st.builds(Avoided, WORDS, INSTANTS, st.sampled_from(Reason)), max_size=3).map(tuple)
PROVEN = st.builds(
    ProvenLoad, WORDS, WORDS, st.floats(1e-3, 1e6), st.integers(1, 1000), st.floats(0.1, 1e7), st.floats(0.1, 1e7)
)
STATUSES = st.builds(
    PoolStatus,
    st.integers(0, 1000),
    st.integers(100, 10**6),
    WORDS,
    st.none() | RELEASES,
    st.none() | PLANS,
    ASSIGNMENTS,
    st.none() | st.builds(Failure, WORDS, st.integers(1, 99), INSTANTS, EXPLANATIONS),
    st.none() | EXPLANATIONS,
    avoided=AVOIDED,
    proven=st.none() | PROVEN,
    left_shape=st.none()
    | st.builds(LeftShape, WORDS, INSTANTS, WORDS)
    | st.builds(LeftShape, WORDS, INSTANTS, WORDS, st.booleans(), WORDS, st.floats(1e-3, 1e6)),
)
FACTORS = st.floats(0.25, 4.0)
CALIBRATIONS = st.lists(
    st.builds(
        Calibrated,
        st.builds(CalibrationSubject, WORDS, RELEASES, WORDS, st.sampled_from(Precision), WORDS),
        st.builds(Calibration, FACTORS, FACTORS, st.integers(0, 1000), st.integers(0, 1000)),
        INSTANTS,
    ),
    max_size=4,
).map(tuple)
FORECASTS = st.builds(KeptForecast, st.text("AZaz09+/", min_size=1, max_size=1500).map("1.".__add__), INSTANTS)
SECONDS = st.integers(0, 100_000)
STARTS = st.builds(
    StartUp, SECONDS, SECONDS, SECONDS, st.none() | SECONDS, st.just(()) | st.tuples(*(SECONDS for _ in range(5)))
)
MOVES = st.lists(st.builds(Relocation, st.integers(0, 99), INSTANTS, WORDS), max_size=3).map(tuple)
CONDITIONS = st.tuples(
    *(
        st.builds(Condition, st.just(kind), st.sampled_from(["True", "False", "Unknown"]), EXPLANATIONS)
        for kind in ("Planned", "Placed", "SLOMet", "NetworkBound")
    )
)


def _with_records(
    status: PoolStatus,
    known: tuple[Calibrated, ...],
    moves: tuple[Relocation, ...],
    kept: KeptForecast | None,
    start_up: StartUp | None,
    *,
    placed: int | None,
) -> PoolStatus:
    status = replace(status, forecast=kept, start_up=start_up, placed_replicas=placed)
    return replace(status, calibration=known, moves=moves, opening=tuple(each.beneficiary for each in moves))


DECISIONS = st.builds(
    PoolDecision,
    st.just(ResourceKey("InferencePool", "team", "chat", "u-1")),
    st.integers(1, 100),
    st.builds(
        _with_records,
        *(STATUSES, CALIBRATIONS, MOVES, st.none() | FORECASTS, st.none() | STARTS),
        placed=st.none() | st.integers(0, 1000),
    ),
    st.integers(0, 1000),
    CONDITIONS,
)
