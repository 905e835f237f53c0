"""The persisted part of a status, read back exactly as it was decided.

Each part is read alone: one that is unreadable (an older or a newer Weft wrote it) is as if it had never been written,
and is decided anew. Fields that this Weft does not know, as a newer one may write, are left out: without the rest of it
an assignment would be given up, and its replica drained.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from weft.api import plan_status, status_fields
from weft.api import status as shown
from weft.api.figures import read_figure, read_milliseconds
from weft.domain.calibration import MOST_FACTOR, Calibrated, CalibrationSubject, ProvenLoad
from weft.domain.forecast import KeptForecast
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
from weft.domain.spec import SchedulerName
from weft.domain.start_up import StartUp
from weft.domain.status import (
    Assignment,
    Avoided,
    ComputeDomain,
    Condition,
    Failure,
    Handover,
    LeftShape,
    Observed,
    PoolStatus,
    SplitStatus,
)
from weft.domain.texts.times import read_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from weft.api.rules import ApiModel, Json

Shown = TypeVar("Shown", bound="ApiModel")
Value = TypeVar("Value")


def read_pool_status(status: Json) -> PoolStatus:
    """What was decided for a pool. Ids of replicas are never handed out twice, whatever `nextReplica` says."""
    assignments = tuple(_items(status, "assignments", shown.AssignmentStatus, _assignment))
    following = max((assignment.replica + 1 for assignment in assignments), default=0)
    return PoolStatus(
        desired_replicas=_count(status.get("desiredReplicas")),
        next_replica=max(_count(status.get("nextReplica")), following),
        revision=status["revision"] if isinstance(status.get("revision"), str) else "",
        engine=_part(status, "engine", plan_status.EngineStatus, _release),
        plan=_part(status, "plan", plan_status.PlanStatus, _plan),
        assignments=assignments,
        failure=_part(status, "failure", shown.FailureStatus, _failure),
        scale=_part(status, "scale", status_fields.Explained, _explanation),
        observed=_part(status, "observed", shown.PoolObservedStatus, _observed),
        calibration=tuple(_items(status, "calibration", shown.CalibrationStatus, _calibrated)),
        proven=_part(status, "proven", shown.ProvenStatus, _proven),
        moves=tuple(_items(status, "moves", shown.RelocationStatus, _relocation)),
        opening=_words(status.get("opening")),
        avoided=tuple(_items(status, "avoided", shown.AvoidedStatus, _avoided)),
        forecast=_part(status, "forecast", shown.ForecastStatus, _forecast),
        start_up=_part(status, "startUp", shown.StartUpStatus, _start_up),
        placed_replicas=_count(status["placedReplicas"]) if "placedReplicas" in status else None,
        left_shape=_part(status, "leftShape", shown.LeftShapeStatus, _left_shape),
    )


def read_split_status(status: Json) -> SplitStatus:
    """What was decided for a split."""
    layouts = _count(status["kvLayouts"]) if "kvLayouts" in status else 0
    return SplitStatus(_part(status, "engine", plan_status.EngineStatus, _release), layouts or 0)


def read_conditions(status: Json) -> tuple[Condition, ...]:
    """All conditions whose reason this version knows."""
    return tuple(_items(status, "conditions", status_fields.ConditionStatus, _condition))


def _part(status: Json, name: str, model: type[Shown], read: Callable[[Shown], Value]) -> Value | None:
    return _read(status.get(name), model, read)


def _items(status: Json, name: str, model: type[Shown], read: Callable[[Shown], Value]) -> list[Value]:
    listed = status.get(name)
    values = (_read(item, model, read) for item in (listed if isinstance(listed, list) else ()))
    return [value for value in values if value is not None]


def _read(body: object, model: type[Shown], read: Callable[[Shown], Value]) -> Value | None:
    if not isinstance(body, dict):
        return None
    try:
        return read(model.model_validate(body, extra="ignore"))
    except (ValidationError, LookupError, ValueError, OverflowError):
        return None


def _words(value: object) -> tuple[str, ...]:
    words = value if isinstance(value, list) else []
    return tuple(words) if all(isinstance(word, str) for word in words) else ()


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _release(read: plan_status.EngineStatus) -> EngineRelease:
    return EngineRelease(EngineName(read.name), read.version, read.image)


def _explanation(read: Any) -> Explanation:  # noqa: ANN401 - anything with a reason and a message
    return Explanation(Reason(read.reason), read.message)


def _shape(read: plan_status.ShapeFields) -> Shape:
    """Raises `ValueError` for sizes that nothing has: the schema says only that they are no less than 0."""
    shape = Shape(
        engine=EngineName(read.engine),
        accelerator=read.accelerator,
        precision=read.precision,
        tensor_parallel=read.tensor_parallel,
        pipeline_parallel=read.pipeline_parallel,
        expert_parallel=read.expert_parallel,
        data_parallel=read.data_parallel,
        gpus_per_pod=read.gpus_per_pod,
        decode_context_parallel=read.decode_context_parallel,
        prefill_context_parallel=read.prefill_context_parallel,
    )
    if min(shape.gpus, shape.expert_parallel, shape.decode_context_parallel, shape.gpus_per_pod) < 1:
        raise ValueError("a shape has GPUs, and so have its pods")
    return shape


def _prediction(read: plan_status.PredictionStatus) -> Prediction:
    return Prediction(
        capacity=read_figure(read.capacity),
        ttft=_latencies(read.ttft),
        tpot=_latencies(read.tpot),
        max_batch=read.max_batch,
        kv_tokens=read.kv_tokens,
        weight_bytes_per_gpu=read_figure(read.weight_bytes_per_gpu),
        limit=Limit(read.limit),
        ttft_doubt=read_figure(read.ttft_doubt),
        tpot_doubt=read_figure(read.tpot_doubt),
    )


def _latencies(read: dict[str, str]) -> Percentiles:
    return Percentiles(**{field.name: read_milliseconds(read[field.name]) for field in fields(Percentiles)})


def _plan(read: plan_status.PlanStatus) -> Plan:
    return Plan(
        shape=_shape(read),
        prediction=_prediction(read.prediction),
        engine=_release(read.engine_release),
        verdict=_explanation(read),
        alternatives=tuple(_candidate(alternative) for alternative in read.alternatives),
    )


def _candidate(read: plan_status.AlternativeStatus) -> Candidate:
    return Candidate(_shape(read), _explanation(read), _prediction(read.prediction) if read.prediction else None)


def _assignment(read: shown.AssignmentStatus) -> Assignment:
    """Raises `ValueError` for a replica without pods or GPUs, which would count as one that serves."""
    if read.gpus_per_pod < 1 or (not read.nodes and read.handover is None):
        raise ValueError("a replica has pods, and each of them has GPUs")
    nodes, since = tuple(read.nodes), read_instant(read.since)
    handover = _handover(read.handover) if read.handover is not None else None
    shared = _compute_domain(read.compute_domain, len(nodes)) if read.compute_domain is not None else None
    return Assignment(read.replica, read.revision, nodes, read.gpus_per_pod, since, read.complete, handover, shared)


def _compute_domain(read: shown.ComputeDomainStatus, pods: int) -> ComputeDomain:
    """Raises `ValueError` for cliques that are not those of the pods."""
    every = tuple(read.cliques) * (pods if len(read.cliques) == 1 else 1)
    if len(every) != pods:
        raise ValueError("every pod has its clique, or all of them have one")
    return ComputeDomain(every, read.name or "")


def _handover(read: shown.HandoverStatus) -> Handover:
    product = None if read.product is None else (read.product.label, tuple(read.product.values))
    return Handover(SchedulerName(read.scheduler), read.queue, read.pods, read.level, read.group, product)


def _relocation(read: shown.RelocationStatus) -> Relocation:
    return Relocation(read.replica, read_instant(read.since), read.makes_room_for)


def _avoided(read: shown.AvoidedStatus) -> Avoided:
    return Avoided(read.node, read_instant(read.since), Reason(read.reason))


def _left_shape(read: shown.LeftShapeStatus) -> LeftShape:
    capacity = read_figure(read.capacity) if read.capacity is not None else 0.0
    return LeftShape(read.shape, read_instant(read.at), read.wish, bool(read.outgrown), read.revision or "", capacity)


def _failure(read: shown.FailureStatus) -> Failure:
    return Failure(read.revision, read.count, read_instant(read.last), _explanation(read))


def _condition(read: status_fields.ConditionStatus) -> Condition:
    return Condition(read.type, read.status, _explanation(read))


def _forecast(read: shown.ForecastStatus) -> KeptForecast:
    """Only scaling knows what the text says, and whether it can be believed."""
    return KeptForecast(read.learnt, read_instant(read.updated))


def _start_up(read: shown.StartUpStatus) -> StartUp:
    estimated = (read.image_seconds, read.weights_seconds, read.engine_seconds)
    return StartUp(*estimated, read.measured_seconds, _phases(read.phases) if read.phases is not None else ())


def _phases(read: shown.PhasesStatus) -> tuple[int, ...]:
    """In the order of `PHASES`."""
    return (
        read.setup_seconds,
        read.image_seconds,
        read.download_seconds,
        read.weights_seconds,
        read.engine_seconds,
    )


def _calibrated(read: shown.CalibrationStatus) -> Calibrated:
    """Raises `ValueError` for factors that no measurement gives."""
    subject = CalibrationSubject(read.model, _release(read.engine), read.accelerator, read.precision, read.shape)
    prefill, decode = read_figure(read.prefill), read_figure(read.decode)
    if not all(1.0 / MOST_FACTOR <= factor <= MOST_FACTOR for factor in (prefill, decode)):
        raise ValueError("no measurement gives such a factor")
    tails = _optional(read.ttft_tail), _optional(read.tpot_tail)
    if not all(tail is None or 1.0 / MOST_FACTOR <= tail <= MOST_FACTOR for tail in tails):
        raise ValueError("no measurement gives such a tail")
    factors = Calibration(prefill, decode, read.points, read.prompt_points, *tails)
    return Calibrated(subject, factors, read_instant(read.updated))


def _proven(read: shown.ProvenStatus) -> ProvenLoad:
    """Raises `ValueError` for a load or lengths of nothing."""
    rate, *tokens = map(read_figure, (read.requests_per_second, read.input_tokens, read.output_tokens))
    if min(rate, *tokens) <= 0.0:
        raise ValueError("no replica is proven by nothing")
    return ProvenLoad(read.subject, read.targets, rate, read.replicas, *tokens)


def _observed(read: shown.PoolObservedStatus) -> Observed:
    return Observed(
        requests_per_second=_optional(read.requests_per_second),
        input_tokens=_optional(read.input_tokens),
        output_tokens=_optional(read.output_tokens),
        prefix_hit=_fraction(read.prefix_hit_percent),
        ttft=_percentiles(read.ttft),
        tpot=_percentiles(read.tpot),
        attainment=_fraction(read.attainment_percent),
        live=tuple(read.live),
        caveats=tuple(read.caveats),
        transfer=_seconds(read.transfer),
        transfer_expected=_seconds(read.transfer_expected),
    )


def _optional(text: str | None) -> float | None:
    return None if text is None else read_figure(text)


def _seconds(text: str | None) -> float | None:
    return None if text is None else read_milliseconds(text)


def _fraction(percent: str | None) -> float | None:
    return None if percent is None else read_figure(percent) / 100


def _percentiles(read: Mapping[str, str] | None) -> tuple[tuple[int, float], ...]:
    return tuple(sorted((int(key[1:]), read_milliseconds(value)) for key, value in (read or {}).items()))
