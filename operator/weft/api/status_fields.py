"""Field types of a status: what Weft writes, with limits that keep an object far under what etcd takes."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from pydantic.config import JsonDict

from weft.api.fields import LIST_TYPE, MAX_MESSAGE_CHARACTERS, Instant
from weft.api.rules import ApiModel

# Exact decimals of our own writing, so that what is read back is what was decided.
Figure = Annotated[str, Field(max_length=32, pattern=r"^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$")]
Milliseconds = Annotated[str, Field(max_length=40, pattern=r"^[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?ms$")]
Latencies = Annotated[dict[Annotated[str, Field(max_length=4)], Milliseconds], Field(max_length=5)]
BY_TYPE: JsonDict = {LIST_TYPE: "map", "x-kubernetes-list-map-keys": ["type"]}
BY_REPLICA: JsonDict = {LIST_TYPE: "map", "x-kubernetes-list-map-keys": ["replica"]}

Count = Annotated[int, Field(ge=0)]
ReasonWord = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
Message = Annotated[str, Field(max_length=MAX_MESSAGE_CHARACTERS)]
Word = Annotated[str, Field(max_length=128)]
LONGEST_SENTENCE, MOST_CAVEATS, LONGEST_FORECAST = 256, 16, 2048
Sentence = Annotated[str, Field(max_length=LONGEST_SENTENCE)]
Node = Annotated[str, Field(max_length=253)]


class Explained(ApiModel):
    """A reason and its sentence."""

    reason: ReasonWord = Field(description="One word; docs/reasons.md explains each.")
    message: Message = Field(default="", description="The sentence for people.")


class ConditionStatus(ApiModel):
    """A Kubernetes condition."""

    type: ReasonWord = Field(
        description="Ready, Planned, ArgumentsUnknown, ImageMismatched, Relaxed, Placed, CapacityRequested, SLOMet, "
        "NetworkBound, TransfersFailing, Reconciling, Stalled."
    )
    status: Literal["True", "False", "Unknown"] = Field(description="Whether it holds.")
    reason: ReasonWord = Field(description="One word; docs/reasons.md explains each.")
    message: Message = Field(default="", description="The sentence for people.")
    last_transition_time: Instant = Field(description="When status changed last.")
    observed_generation: Count = Field(default=0, description="metadata.generation it is about.")
