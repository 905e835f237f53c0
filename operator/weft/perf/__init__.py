"""The performance model: memory, steps, collectives and queueing of one replica. Plain floats in SI units."""

from weft.perf.memory import Footprint, footprint, kv_bytes_per_token, kv_tokens, sequence_bytes_per_gpu
from weft.perf.predict import Assessment, Miss, assess, predict
from weft.perf.replica import ReplicaModel, stored_kv

__all__ = [
    "Assessment",
    "Footprint",
    "Miss",
    "ReplicaModel",
    "assess",
    "footprint",
    "kv_bytes_per_token",
    "kv_tokens",
    "predict",
    "sequence_bytes_per_gpu",
    "stored_kv",
]
