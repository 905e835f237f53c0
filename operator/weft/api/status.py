"""The status of an InferencePool as the API shows it. `weft-decide` and `weft-converge` each own their fields."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from weft.api.fields import ATOMIC, SET, Instant, LabelKey, LabelValue, Precision, described
from weft.api.plan_status import EngineStatus, PlanStatus
from weft.api.rules import ApiModel
from weft.api.status_fields import (
    BY_REPLICA,
    BY_TYPE,
    LONGEST_FORECAST,
    MOST_CAVEATS,
    ConditionStatus,
    Count,
    Explained,
    Figure,
    Message,
    Milliseconds,
    Node,
    ReasonWord,
    Sentence,
    Word,
)
from weft.domain.scaling_spec import MOST_NODES, MOST_REPLICAS
from weft.domain.status import MOST_AVOIDED


class ProductStatus(ApiModel):
    """How nodes with an accelerator are known."""

    label: LabelKey = Field(description="Node label.")
    values: list[LabelValue] = Field(min_length=1, max_length=32, description="Its values.", json_schema_extra=SET)


class HandoverStatus(ApiModel):
    """What one replica asks of a scheduler that picks its nodes."""

    scheduler: Literal["Kueue"] = Field(description="Who picks the nodes.")
    queue: Node = Field(description="Name of the LocalQueue, in this namespace.")
    pods: Annotated[int, Field(ge=1, le=MOST_NODES)] = Field(description="Pods of the replica.")
    level: Annotated[str, Field(max_length=317)] = Field(
        default="", description="Node label of the topology level that each group of its pods shares; empty: none."
    )
    group: Annotated[int, Field(ge=0, le=MOST_NODES)] = Field(
        default=0, description="Pods that have to be in one domain of that level."
    )
    product: ProductStatus | None = described("How nodes with the planned accelerator are known.")


class ComputeDomainStatus(ApiModel):
    """The replica has a ComputeDomain, by which its pods share memory over NVLink."""

    cliques: list[LabelValue] = Field(
        max_length=MOST_NODES,
        description="NVLink clique of each pod, by rank, or the one of all; empty: not known.",
        json_schema_extra=ATOMIC,
    )
    name: Node | None = described("Of the one that all replicas of the split share; unset: its own.")


class AssignmentStatus(ApiModel):
    """The nodes of one replica, decided before any of its pods exists."""

    replica: Count = Field(description="Id of the replica; never used again.")
    revision: Word = Field(description="Hash of what its pods are rendered from.")
    nodes: list[Node] = Field(
        max_length=MOST_NODES,
        description="Node of each pod, by rank; none where another scheduler picks them.",
        json_schema_extra=ATOMIC,
    )
    gpus_per_pod: Count = Field(alias="gpusPerPod", description="GPUs of each pod.")
    since: Instant = Field(description="When it was decided.")
    complete: bool = Field(default=False, description="Whether all its pods were seen; a missing one then ends it.")
    handover: HandoverStatus | None = described("What is asked of the scheduler that picks the nodes, if not Weft.")
    compute_domain: ComputeDomainStatus | None = described("That it has a ComputeDomain.")


class FailureStatus(Explained):
    """The last failure of a replica of the current revision."""

    revision: Word = Field(description="Revision that failed.")
    count: Count = Field(description="Failures in a row.")
    last: Instant = Field(description="When the last one happened.")


Figures = Annotated[dict[Annotated[str, Field(max_length=3)], Milliseconds], Field(max_length=4)]


class ObservedStatus(ApiModel):
    """Live figures, rounded, rewritten after a change of 5 %, at most every 5 minutes; /metrics has the exact ones."""

    requests_per_second: Figure | None = described("Requests per second.")
    input_tokens: Figure | None = described("Mean tokens of a prompt.")
    output_tokens: Figure | None = described("Mean tokens of an answer.")
    prefix_hit_percent: Figure | None = described("Percent of prompt tokens found in the prefix cache.")
    ttft: Figures | None = described("Time to the first token, by percentile.")
    tpot: Figures | None = described("Time per further token, by percentile.")
    attainment_percent: Figure | None = described(
        "Percent of requests within the target of the highest percentile; of TTFT and TPOT the lower."
    )
    transfer: Word | None = described("Mean time of a KV transfer.")
    transfer_expected: Word | None = described("Predicted.")
    live: list[Word] = Field(
        default_factory=list,
        max_length=8,
        description="Values of spec.workload that live metrics replace at present.",
        json_schema_extra=SET,
    )
    updated: Instant | None = described("When these figures were written.")


class PoolObservedStatus(ObservedStatus):
    """Live figures of one pool, and what to know before they are believed."""

    caveats: list[Sentence] = Field(
        default_factory=list,
        max_length=MOST_CAVEATS,
        description="What is not as the engine's version should show it.",
        json_schema_extra=SET,
    )


class CalibrationStatus(ApiModel):
    """Factors learnt from live metrics, and what they were measured on."""

    shape: Word = Field(description="The shape in words, such as H200 FP8 TP4.")
    accelerator: Word = Field(description="Accelerator, by catalog name.")
    precision: Precision = Field(description="Precision of the weights.")
    model: Annotated[str, Field(max_length=256)] = Field(description="spec.model.id.")
    engine: EngineStatus = Field(description="The engine as it ran.")
    prefill: Figure = Field(description="Measured over predicted time of prompts.")
    decode: Figure = Field(description="Measured over predicted time of decode steps.")
    points: Count = Field(description="Measurements that went into the factors.")
    prompt_points: Count = Field(description="Those of them that told something of prompts.")
    ttft_tail: Figure | None = described("Measured over predicted percentile of TTFT.")
    tpot_tail: Figure | None = described("Measured over predicted percentile of TPOT.")
    updated: Instant = Field(description="When these figures were written.")


class ProvenStatus(ApiModel):
    """The load at which replicas were seen to meet the targets, whatever is predicted."""

    subject: Annotated[str, Field(max_length=512)] = Field(description="Model, shape and engine.")
    targets: Annotated[str, Field(max_length=512)] = Field(description="The targets that were met.")
    requests_per_second: Figure = Field(description="Of each replica.")
    replicas: Annotated[int, Field(ge=1)] = Field(description="How many shared the traffic.")
    input_tokens: Figure = Field(description="Mean tokens of a prompt without those from the prefix cache.")
    output_tokens: Figure = Field(description="Mean tokens of an answer.")


class ForecastStatus(ApiModel):
    """What was learnt of the traffic, for the next process of the operator."""

    learnt: Annotated[str, Field(max_length=LONGEST_FORECAST, pattern=r"^[0-9]+\.[A-Za-z0-9+/]+=*$")] = Field(
        description="Version and numbers in base64, for Weft alone."
    )
    updated: Instant = Field(description="When it was written.")


Seconds = Annotated[int, Field(ge=0, le=10_000_000)]


class PhasesStatus(ApiModel):
    """Upper median of each phase of the last starts."""

    setup_seconds: Seconds = Field(description="Volumes, devices and network of the pod.")
    image_seconds: Seconds = Field(description="Pulls, those of volumes that are images among them.")
    download_seconds: Seconds = Field(description="Init containers.")
    weights_seconds: Seconds = Field(description="Loading weights, where the engine tells it.")
    engine_seconds: Seconds = Field(description="The rest, until it answers.")


class StartUpStatus(ApiModel):
    """What a start of a replica takes, from its node to its first answer; measured seconds are in use at once."""

    message: Message = Field(default="", description="The time in use, where it is from and what it is made of.")
    image_seconds: Seconds = Field(description="Estimated for pulling the engine's image.")
    weights_seconds: Seconds = Field(description="Estimated for getting the weights to the GPUs.")
    engine_seconds: Seconds = Field(description="Estimated for the engine's own start: compilation, captured graphs.")
    measured_seconds: Seconds | None = described("What starts of this pool took; rewritten with forecast.")
    # Not the list `phaseSeconds` that there was once: under one name, no apply could merge a list into an object.
    phases: PhasesStatus | None = described("What measuredSeconds is made of.")


class AvoidedStatus(ApiModel):
    """A node that comes last."""

    node: Node = Field(description="Its name.")
    since: Instant = Field(description="When a replica was given up there.")
    reason: ReasonWord = Field(description="One word; docs/reasons.md explains each.")


class LeftShapeStatus(ApiModel):
    """The shape that the pool left last: it takes no other for an hour unless its spec or SLO asks for that."""

    shape: Word = Field(description="In words, as in plan.shape.")
    at: Instant = Field(description="When it was left.")
    wish: Word = Field(description="A hash of what the spec wished for by then.")
    outgrown: bool | None = described("Whether it was too small for what came.")
    revision: Word | None = described("Of its replicas.")
    capacity: Figure | None = described("Requests per second of one of those, as predicted.")


class RelocationStatus(ApiModel):
    """A replica that moves, once it is replaced, so that a pool that has no place gets one."""

    replica: Count = Field(description="Id of the replica.")
    since: Instant = Field(description="When it was decided.")
    makes_room_for: Annotated[str, Field(max_length=317)] = Field(description="The pool, as namespace/name.")


class InferencePoolStatus(ApiModel):
    """What Weft decided and what runs."""

    observed_generation: Count | None = described(
        "The last metadata.generation that was decided on: all of this is of it."
    )
    replicas: Count | None = described("Replicas that exist, ready or not.")
    ready_replicas: Count | None = described("Replicas that answer requests.")
    desired_replicas: Count | None = described("Replicas that should run.")
    recommended_replicas: Count | None = described("Replicas that Weft would run; in External mode a hint.")
    placed_replicas: Count | None = described(
        "Replicas that had a place at once within the last hour, at most, where that is less than desiredReplicas."
    )
    selector: Annotated[str, Field(max_length=1024)] | None = described(
        "Label selector of the first pod of each replica, for /scale."
    )
    url: Annotated[str, Field(max_length=1024)] | None = described("Where requests go, inside the cluster.")
    next_replica: Count | None = described("Next unused replica id.")
    revision: Word | None = described("Hash of what new pods are rendered from.")
    engine: EngineStatus | None = described("The engine as resolved once and then kept.")
    plan: PlanStatus | None = described("The chosen shape and why.")
    assignments: list[AssignmentStatus] | None = Field(
        default=None,
        max_length=MOST_REPLICAS,
        description="Nodes of each replica.",
        json_schema_extra=BY_REPLICA,
    )
    failure: FailureStatus | None = described("The last failure of a replica of the current revision.")
    scale: Explained | None = described("Why desiredReplicas is what it is.")
    observed: PoolObservedStatus | None = described("Live figures, rounded.")
    calibration: list[CalibrationStatus] | None = Field(
        default=None,
        max_length=8,
        description="Factors by which the pool differs from its prediction, by shape, the latest first; rewritten "
        "after a change of 5 %, at most every 5 minutes.",
        json_schema_extra=ATOMIC,
    )
    proven: ProvenStatus | None = described(
        "The load at which targets were met: no prediction counts on replicas for less of it."
    )
    forecast: ForecastStatus | None = described(
        "What was learnt of the traffic; rewritten after a change of 5 %, at most every 15 minutes."
    )
    start_up: StartUpStatus | None = described("What a start of a replica takes.")
    moves: list[RelocationStatus] | None = Field(
        default=None,
        max_length=MOST_REPLICAS,
        description="Replicas that make room for other pools, and those that did so in the last hour.",
        json_schema_extra=ATOMIC,
    )
    opening: list[Node] | None = Field(
        default=None,
        max_length=MOST_NODES,
        description="Nodes that replicas of other pools leave for the next one of this pool.",
        json_schema_extra=ATOMIC,
    )
    left_shape: LeftShapeStatus | None = described("The shape that the pool left last.")
    avoided: list[AvoidedStatus] | None = Field(
        default=None,
        max_length=MOST_AVOIDED,
        description="Nodes that did not take or start a replica in the last hour, the latest first: others come first.",
        json_schema_extra=ATOMIC,
    )
    conditions: list[ConditionStatus] | None = Field(
        default=None, max_length=16, description="Conditions by type.", json_schema_extra=BY_TYPE
    )


class SideStatus(ApiModel):
    """Counts of one side of a split."""

    replicas: Count | None = described("Replicas that exist, ready or not.")
    ready: Count | None = described("Replicas that answer requests.")
    desired: Count | None = described("Replicas that should run.")
    recommended: Count | None = described("Replicas that Weft would run; in External mode a hint.")


class SplitPlanStatus(ApiModel):
    """The shapes of both sides, in words."""

    shape: Annotated[str, Field(max_length=300)] = Field(description="Both shapes in one line.")
    prefill: Word | None = described("Shape of a prefill replica.")
    decode: Word | None = described("Shape of a decode replica.")


class PDSplitStatus(ApiModel):
    """What Weft decided and what runs."""

    observed_generation: Count | None = described(
        "The last metadata.generation that was decided on and the children follow, or that stalls."
    )
    generation: Count | None = described("metadata.generation of the pair that serves, the latest one that does.")
    prefill: SideStatus | None = described("Counts of the prefill side.")
    decode: SideStatus | None = described("Counts of the decode side.")
    ratio: Figure | None = described("Desired prefill replicas per decode replica.")
    url: Annotated[str, Field(max_length=1024)] | None = described("Where requests go, inside the cluster.")
    engine: EngineStatus | None = described("The engine of both sides, as resolved once and then kept.")
    plan: SplitPlanStatus | None = described("The shapes of both sides.")
    kv_layouts: Count | None = described("How often plans changed so that engines exchange no KV with those before.")
    transport: Sentence | None = described("How KV travels.")
    observed: ObservedStatus | None = described("Live figures of the whole split, rounded.")
    conditions: list[ConditionStatus] | None = Field(
        default=None, max_length=16, description="Conditions by type.", json_schema_extra=BY_TYPE
    )
