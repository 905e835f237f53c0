"""The performance model: memory, steps, collectives and queueing of one replica. Plain floats in SI units.

What it answers. `predict`: how many requests a second a replica serves within an SLO, and how fast. `misses`: by how
    much it misses one. `handover`: how long KV takes to another replica. `starting`: how long a start takes.
Requests together. `service`: latencies at a rate. `loads`: the rate that keeps a batch. `prompts`: what they cost over
    their lengths. `sharing`: which go into one step. `backlog`: which queue. `answers`: time per output token.
    `wandering`: where a batch grows at no higher rate. `regular`: requests that come less at random. `queueing`,
    `balance`: waits in closed form, and Little's law. `lengths`, `latency`: distributions.
One step. `steps`: its time. `work`: its bytes, FLOP and messages. `attention`: of the KV cache. `collectives`: to
    experts. `context`: between GPUs that share a context. `crossing`: beyond a link. `stages`: of a pipeline.
    `speculation`: with a draft. `outgrown`: larger than a captured graph.
One replica. `replica`: the input of all this. `memory`: what its GPUs hold.
Measurements. `benchmarks`: the same model for rows of published tables.
"""

from weft.perf.handover import (
    SEVERAL_THROUGH_THE_HOST,
    handed_over_seconds,
    sent_bytes_per_second,
    several_at_once,
)
from weft.perf.memory import (
    Footprint,
    footprint,
    kv_bytes_per_token,
    kv_tokens,
    most_kv_bytes,
    sequence_bytes,
    sequence_bytes_per_gpu,
)
from weft.perf.misses import Miss
from weft.perf.predict import (
    ASTRAY,
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
from weft.perf.regular import AT_RANDOM, Coming, dispersion
from weft.perf.replica import ReplicaModel, stored_kv
from weft.perf.starting import estimated_start

__all__ = [
    "ASTRAY",
    "AT_RANDOM",
    "SEVERAL_THROUGH_THE_HOST",
    "Assessment",
    "Coming",
    "ErrorBar",
    "Footprint",
    "Miss",
    "Question",
    "ReplicaModel",
    "assess",
    "at_engine",
    "at_engine_after_handover",
    "at_rate",
    "dispersion",
    "estimated_start",
    "footprint",
    "half_as_likely",
    "handed_over_seconds",
    "knee",
    "kv_bytes_per_token",
    "kv_tokens",
    "most_kv_bytes",
    "predict",
    "sent_bytes_per_second",
    "sequence_bytes",
    "sequence_bytes_per_gpu",
    "several_at_once",
    "stored_kv",
    "worthwhile",
]
