"""Every reason that Weft gives, once. Conditions, events, metric labels and `weft explain` all use these words.

`docs/reasons.md` explains each one and what to do; a test keeps the two in step.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why something is as it is. CamelCase because Kubernetes shows it as a condition reason."""

    # shape: condition Planned
    ShapeChosen = "ShapeChosen"
    ShapeKept = "ShapeKept"
    HolesTooSmall = "HolesTooSmall"
    BestEffort = "BestEffort"
    SpecInvalid = "SpecInvalid"
    ModelUnknown = "ModelUnknown"
    ModelConfigMissing = "ModelConfigMissing"
    ArchitectureUnsupported = "ArchitectureUnsupported"
    ContextExceeded = "ContextExceeded"
    NoAccelerator = "NoAccelerator"
    ModelDoesNotFit = "ModelDoesNotFit"
    ShapeInvalid = "ShapeInvalid"
    EngineUnsupported = "EngineUnsupported"
    ArgumentConflict = "ArgumentConflict"
    ArgumentUnknown = "ArgumentUnknown"
    FeatureUnsupported = "FeatureUnsupported"
    RelaxationAllowed = "RelaxationAllowed"
    RelaxationNotAllowed = "RelaxationNotAllowed"
    PairIncompatible = "PairIncompatible"
    # why a candidate shape lost: status.plan.alternatives
    HeadsNotDivisible = "HeadsNotDivisible"
    ExpertsNotDivisible = "ExpertsNotDivisible"
    LayersNotDivisible = "LayersNotDivisible"
    OutOfMemory = "OutOfMemory"
    NoRoomForKV = "NoRoomForKV"
    LeavesDomain = "LeavesDomain"
    SharedDevice = "SharedDevice"
    ContextNotShared = "ContextNotShared"
    PromptNotShared = "PromptNotShared"
    PrecisionUnsupported = "PrecisionUnsupported"
    MissesTTFT = "MissesTTFT"
    MissesTPOT = "MissesTPOT"
    CostsMore = "CostsMore"
    SimplerWins = "SimplerWins"
    # place: condition Placed
    AllPlaced = "AllPlaced"
    NoSlot = "NoSlot"
    MovesUnderWay = "MovesUnderWay"
    MakesRoom = "MakesRoom"
    Preempting = "Preempting"
    Preempted = "Preempted"
    NothingToPlace = "NothingToPlace"
    # where another scheduler picks the nodes: condition Placed
    SchedulerMissing = "SchedulerMissing"
    QueueMissing = "QueueMissing"
    NoTopologyLevel = "NoTopologyLevel"
    WaitingForQuota = "WaitingForQuota"
    # why one node or domain was passed over
    DomainTooSmall = "DomainTooSmall"
    DomainFragmented = "DomainFragmented"
    OtherPreferred = "OtherPreferred"
    NodeNotReady = "NodeNotReady"
    NodeCordoned = "NodeCordoned"
    NodeTainted = "NodeTainted"
    NodeNotSelected = "NodeNotSelected"
    NodeLacksResource = "NodeLacksResource"
    WrongAccelerator = "WrongAccelerator"
    GPUUnhealthy = "GPUUnhealthy"
    NodeReclaimed = "NodeReclaimed"
    ComputeDomainNotReady = "ComputeDomainNotReady"
    NodeInComputeDomain = "NodeInComputeDomain"
    OutsideNvlinkDomain = "OutsideNvlinkDomain"
    DynamicResourcesOnly = "DynamicResourcesOnly"
    # what looked odd while reading the nodes: fabric notes
    DomainChanged = "DomainChanged"
    AcceleratorUnknown = "AcceleratorUnknown"
    LabelsContradict = "LabelsContradict"
    DevicePluginMissing = "DevicePluginMissing"
    # replicas
    SlotTaken = "SlotTaken"
    SchedulingTimedOut = "SchedulingTimedOut"
    NodeLost = "NodeLost"
    PodDeleted = "PodDeleted"
    ComputeDomainDeleted = "ComputeDomainDeleted"
    EvictedByScheduler = "EvictedByScheduler"
    EngineFailed = "EngineFailed"
    EngineCoreDied = "EngineCoreDied"
    EngineFailedSilently = "EngineFailedSilently"
    ImageUnavailable = "ImageUnavailable"
    PodRefused = "PodRefused"
    BackingOff = "BackingOff"
    Outdated = "Outdated"
    RolloutWaits = "RolloutWaits"
    RolloutBelowDemand = "RolloutBelowDemand"
    LastOneLeaves = "LastOneLeaves"
    SlowerThanSiblings = "SlowerThanSiblings"
    CutOffFromPrefill = "CutOffFromPrefill"
    TransfersFail = "TransfersFail"
    CalibrationPhased = "CalibrationPhased"
    # scaling, in status
    Steady = "Steady"
    ScaleUp = "ScaleUp"
    ScaleDown = "ScaleDown"
    AtMinimum = "AtMinimum"
    AtMaximum = "AtMaximum"
    BudgetExhausted = "BudgetExhausted"
    StepLimited = "StepLimited"
    HoldMetricsMissing = "HoldMetricsMissing"
    HoldStabilizing = "HoldStabilizing"
    HoldAfterStart = "HoldAfterStart"
    HoldNotPlanned = "HoldNotPlanned"
    Frozen = "Frozen"
    OwnedExternally = "OwnedExternally"
    # serve: conditions Ready, Reconciling, Stalled
    Serving = "Serving"
    ReplicasStarting = "ReplicasStarting"
    NoReplicaReady = "NoReplicaReady"
    FrontStarting = "FrontStarting"
    FrontNotAuthorized = "FrontNotAuthorized"
    GatewayAPIMissing = "GatewayAPIMissing"
    RouteRefused = "RouteRefused"
    HalfPair = "HalfPair"
    RollingOut = "RollingOut"
    Scaling = "Scaling"
    Draining = "Draining"
    Paused = "Paused"
    ChildReverted = "ChildReverted"
    NameTaken = "NameTaken"
    # write: why the API server did not take something
    NotPermitted = "NotPermitted"
    NamespaceTerminating = "NamespaceTerminating"
    ApiUnavailable = "ApiUnavailable"
    StatusConflict = "StatusConflict"
    # SLO: conditions SLOMet, NetworkBound
    WithinSLO = "WithinSLO"
    AboveSLO = "AboveSLO"
    NoTraffic = "NoTraffic"
    NoSLO = "NoSLO"
    MetricsMissing = "MetricsMissing"
    TransferDominates = "TransferDominates"
    NotNetworkBound = "NotNetworkBound"


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason and the sentence that goes with it. The message names the numbers and what would change the answer."""

    reason: Reason
    message: str
