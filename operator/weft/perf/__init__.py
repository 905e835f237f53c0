"""The performance model: memory, steps, collectives and queueing of one replica. Plain floats in SI units."""

from weft.perf.handover import (
    SEVERAL_THROUGH_THE_HOST,
    handed_over_seconds,
    sent_bytes_per_second,
    several_at_once,
)
from weft.perf.memory import Footprint, footprint, kv_bytes_per_token, kv_tokens, sequence_bytes_per_gpu
from weft.perf.misses import Miss
from weft.perf.predict import (
    Assessment,
    ErrorBar,
    Question,
    assess,
    at_engine,
    at_engine_after_handover,
    at_rate,
    half_as_likely,
    knee,
    predict,
    worthwhile,
)
from weft.perf.replica import ReplicaModel, stored_kv
from weft.perf.starting import estimated_start

__all__ = [
    "SEVERAL_THROUGH_THE_HOST",
    "Assessment",
    "ErrorBar",
    "Footprint",
    "Miss",
    "Question",
    "ReplicaModel",
    "assess",
    "at_engine",
    "at_engine_after_handover",
    "at_rate",
    "estimated_start",
    "footprint",
    "half_as_likely",
    "handed_over_seconds",
    "knee",
    "kv_bytes_per_token",
    "kv_tokens",
    "predict",
    "sent_bytes_per_second",
    "sequence_bytes_per_gpu",
    "several_at_once",
    "stored_kv",
    "worthwhile",
]
