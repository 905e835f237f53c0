"""Decisions and progress -> the status fields of their field manager, as plain JSON. What is None is left out."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from weft.api.fields import MAX_MESSAGE_CHARACTERS
from weft.api.figures import figure, milliseconds
from weft.api.live_figures import observed_figures
from weft.domain.scaling_spec import MOST_REPLICAS
from weft.domain.start_up import PHASES
from weft.domain.status import MOST_AVOIDED
from weft.domain.texts.times import instant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.api.rules import Json
    from weft.domain.calibration import Calibrated, ProvenLoad
    from weft.domain.decision import PoolDecision, SplitDecision
    from weft.domain.forecast import KeptForecast
    from weft.domain.moves import Relocation
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Candidate, EngineRelease, Percentiles, Plan, Prediction, Shape
    from weft.domain.start_up import StartUp
    from weft.domain.status import (
        Assignment,
        Avoided,
        ComputeDomain,
        Condition,
        Failure,
        Handover,
        LeftShape,
        PoolProgress,
        SplitProgress,
    )

MAX_ALTERNATIVES = 10


def pool_status(decision: PoolDecision, live_status: Json, now: float) -> Json:
    """Every status field that `weft-decide` owns on an InferencePool.

    `live_status` is the whole status as read: a condition that stays keeps its time, and live figures stay until they
    are 5 minutes old and 5 % off. `now` is epoch seconds.
    """
    status = decision.status
    return _present(
        desiredReplicas=status.desired_replicas,
        recommendedReplicas=decision.recommended,
        nextReplica=status.next_replica,
        revision=status.revision,
        engine=_engine(status.engine),
        plan=_plan(status.plan) if status.plan else None,
        assignments=[_assignment(assignment) for assignment in status.assignments[:MOST_REPLICAS]] or None,
        failure=_failure(status.failure) if status.failure else None,
        scale=_explained(status.scale) if status.scale else None,
        observed=observed_figures(status.observed, live_status.get("observed"), now),
        calibration=[_calibrated(each) for each in status.calibration] or None,
        proven=_proven(status.proven) if status.proven else None,
        forecast=_forecast(status.forecast) if status.forecast else None,
        startUp=_start_up(status.start_up) if status.start_up else None,
        moves=[_relocation(each) for each in status.moves[:MOST_REPLICAS]] or None,
        opening=list(status.opening) or None,
        placedReplicas=status.placed_replicas,
        leftShape=_left_shape(status.left_shape) if status.left_shape else None,
        avoided=[_avoided(each) for each in status.avoided[:MOST_AVOIDED]] or None,
        conditions=_conditions(decision.conditions, live_status, decision.generation, now),
    )


def converge_status(progress: PoolProgress, live_status: Json, now: float) -> Json:
    """Every status field that `weft-converge` owns on an InferencePool."""
    return _present(
        observedGeneration=progress.generation,
        replicas=progress.replicas,
        readyReplicas=progress.ready_replicas,
        selector=progress.selector,
        url=progress.url,
        conditions=_conditions(progress.conditions, live_status, progress.generation, now),
    )


def split_status(decision: SplitDecision, live_status: Json, now: float) -> Json:
    """Every status field that `weft-decide` owns on a PDSplit."""
    prefill, decode = decision.prefill_desired, decision.decode_desired
    return _present(
        engine=_engine(decision.engine),
        prefill=_present(desired=prefill, recommended=decision.prefill_recommended),
        decode=_present(desired=decode, recommended=decision.decode_recommended),
        ratio=figure(round(prefill / decode, 2)) if decode else None,
        plan=_split_plan(decision.prefill_shape, decision.decode_shape),
        kvLayouts=decision.kv_layouts or None,
        transport=str(decision.transport) if decision.transport else None,
        observed=observed_figures(decision.observed, live_status.get("observed"), now),
        conditions=_conditions(decision.conditions, live_status, decision.generation, now),
    )


def split_converge_status(progress: SplitProgress, live_status: Json, now: float) -> Json:
    """Every status field that `weft-converge` owns on a PDSplit.

    What stalls is of the generation that was decided on: halves that are refused would never follow it.
    """
    stalled = [each for each in progress.conditions if each.kind == "Stalled"]
    others = [each for each in progress.conditions if each.kind != "Stalled"]
    latest = max(progress.generation, progress.decided) if stalled else progress.generation
    return _present(
        observedGeneration=latest,
        generation=progress.serving_generation,
        prefill={"replicas": progress.prefill_replicas, "ready": progress.prefill_ready},
        decode={"replicas": progress.decode_replicas, "ready": progress.decode_ready},
        url=progress.url,
        conditions=[
            *_conditions(others, live_status, progress.generation, now),
            *_conditions(stalled, live_status, latest, now),
        ],
    )


def _present(**fields: Any) -> Json:  # noqa: ANN401 - any JSON
    return {name: value for name, value in fields.items() if value is not None}


def _explained(explanation: Explanation) -> Json:
    return {"reason": explanation.reason.value, "message": _bounded(explanation.message)}


def _bounded(message: str) -> str:
    """A message that the API server takes: last words have any length and any control character."""
    message = "".join(char if char.isprintable() or char == "\n" else "\N{REPLACEMENT CHARACTER}" for char in message)
    return message if len(message) <= MAX_MESSAGE_CHARACTERS else f"{message[: MAX_MESSAGE_CHARACTERS - 1]}…"


def _engine(release: EngineRelease | None) -> Json | None:
    return {"name": release.name.value, "version": release.version, "image": release.image} if release else None


def _plan(plan: Plan) -> Json:
    return {
        **_shape(plan.shape),
        **_explained(plan.verdict),
        "engineRelease": _engine(plan.engine),
        "prediction": _prediction(plan.prediction),
        "alternatives": [_alternative(candidate) for candidate in plan.alternatives[:MAX_ALTERNATIVES]],
    }


def _alternative(candidate: Candidate) -> Json:
    prediction = _prediction(candidate.prediction) if candidate.prediction else None
    return {**_shape(candidate.shape), **_explained(candidate.verdict), **_present(prediction=prediction)}


def sizes_of(shape: Shape) -> dict[str, int]:
    """How many GPUs each way to divide a replica takes, as both spec and status name them."""
    return {
        "tensorParallel": shape.tensor_parallel,
        "pipelineParallel": shape.pipeline_parallel,
        "expertParallel": shape.expert_parallel,
        "dataParallel": shape.data_parallel,
        "decodeContextParallel": shape.decode_context_parallel,
        "prefillContextParallel": shape.prefill_context_parallel,
    }


def _shape(shape: Shape) -> Json:
    return {
        "shape": str(shape),
        "engine": shape.engine.value,
        "accelerator": shape.accelerator,
        "precision": shape.precision.value,
        **sizes_of(shape),
        "gpusPerPod": shape.gpus_per_pod,
        "gpus": shape.gpus,
        "pods": shape.pods,
    }


def _prediction(prediction: Prediction) -> Json:
    return {
        "capacity": figure(prediction.capacity),
        "ttft": _latencies(prediction.ttft),
        "tpot": _latencies(prediction.tpot),
        "ttftDoubt": figure(prediction.ttft_doubt),
        "tpotDoubt": figure(prediction.tpot_doubt),
        "maxBatch": prediction.max_batch,
        "kvTokens": prediction.kv_tokens,
        "weightBytesPerGPU": figure(prediction.weight_bytes_per_gpu),
        "limit": prediction.limit.value,
    }


def _latencies(latency: Percentiles) -> Json:
    return {field.name: milliseconds(getattr(latency, field.name)) for field in fields(latency)}


def _assignment(assignment: Assignment) -> Json:
    return {
        "replica": assignment.replica,
        "revision": assignment.revision,
        "nodes": list(assignment.nodes),
        "gpusPerPod": assignment.gpus_per_pod,
        "since": instant(assignment.since),
        "complete": assignment.complete,
        **_present(
            handover=_handover(assignment.handover) if assignment.handover is not None else None,
            computeDomain=_compute_domain(assignment.compute_domain) if assignment.compute_domain is not None else None,
        ),
    }


def _compute_domain(shared: ComputeDomain) -> Json:
    """One clique where all pods are in it, as they nearly always are."""
    alike = len(set(shared.cliques)) == 1
    cliques = list(shared.cliques[:1] if alike else shared.cliques)
    return {"cliques": cliques, **_present(name=shared.name or None)}


def _handover(handover: Handover) -> Json:
    product = handover.product
    known = {"label": product[0], "values": list(product[1])} if product is not None else None
    return {
        "scheduler": handover.scheduler.value,
        "queue": handover.queue,
        "pods": handover.pods,
        "level": handover.level,
        "group": handover.group,
        **_present(product=known),
    }


def _relocation(move: Relocation) -> Json:
    return {"replica": move.replica, "since": instant(move.since), "makesRoomFor": move.beneficiary}


def _failure(failure: Failure) -> Json:
    facts = {"revision": failure.revision, "count": failure.count, "last": instant(failure.last)}
    return facts | _explained(failure.explanation)


def _left_shape(left: LeftShape) -> Json:
    capacity = figure(left.capacity) if left.capacity > 0 else None
    more = _present(outgrown=left.outgrown or None, revision=left.revision or None, capacity=capacity)
    return {"shape": left.shape, "at": instant(left.at), "wish": left.wish, **more}


def _avoided(avoided: Avoided) -> Json:
    return {"node": avoided.node, "since": instant(avoided.since), "reason": avoided.reason.value}


def _forecast(kept: KeptForecast) -> Json:
    return {"learnt": kept.learnt, "updated": instant(kept.updated)}


def _start_up(start_up: StartUp) -> Json:
    return {
        "message": _bounded(str(start_up)),
        "imageSeconds": start_up.image,
        "weightsSeconds": start_up.weights,
        "engineSeconds": start_up.engine,
        **_present(measuredSeconds=start_up.measured, phases=_phases(start_up.phases)),
    }


def _phases(phases: tuple[int, ...]) -> Json | None:
    return {f"{name}Seconds": took for name, took in zip(PHASES, phases, strict=True)} if phases else None


def _calibrated(calibrated: Calibrated) -> Json:
    subject, factors = calibrated.subject, calibrated.factors
    return {
        "shape": subject.shape,
        "accelerator": subject.accelerator,
        "precision": subject.precision.value,
        "model": subject.model,
        "engine": _engine(subject.release),
        "prefill": figure(factors.prefill),
        "decode": figure(factors.decode),
        "points": factors.points,
        "promptPoints": factors.prompt_points,
        **{
            name: figure(tail)
            for name, tail in (("ttftTail", factors.ttft_tail), ("tpotTail", factors.tpot_tail))
            if tail is not None
        },
        "updated": instant(calibrated.updated),
    }


def _proven(proven: ProvenLoad) -> Json:
    return {
        "subject": proven.subject,
        "targets": proven.targets,
        "requestsPerSecond": figure(proven.rate),
        "replicas": proven.replicas,
        "inputTokens": figure(proven.input_tokens),
        "outputTokens": figure(proven.output_tokens),
    }


def _split_plan(prefill: Shape | None, decode: Shape | None) -> Json | None:
    sides = {name: str(shape) for name, shape in (("prefill", prefill), ("decode", decode)) if shape}
    return {"shape": ", ".join(f"{name} {words}" for name, words in sides.items()), **sides} if sides else None


def _conditions(conditions: Iterable[Condition], live_status: Json, generation: int, now: float) -> list[Json]:
    """Conditions with the time of their last change of status, which only such a change moves."""
    known = {condition.get("type"): condition for condition in live_status.get("conditions") or ()}
    return [_condition(condition, known.get(condition.kind), generation, now) for condition in conditions]


def _condition(condition: Condition, known: Json | None, generation: int, now: float) -> Json:
    stays = known is not None and known.get("status") == condition.status and known.get("lastTransitionTime")
    return {
        "type": condition.kind,
        "status": condition.status,
        **_explained(condition.explanation),
        "lastTransitionTime": known["lastTransitionTime"] if known and stays else instant(int(now)),
        "observedGeneration": generation,
    }
