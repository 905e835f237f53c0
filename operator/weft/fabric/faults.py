"""What keeps replicas off a node, and what has to take them away from it: ordered claims, the first one tells why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from weft.domain.cluster import NodeRecord, Taint
    from weft.fabric.devices import Devices, Labels
    from weft.fabric.reported import Reported

# Node conditions that tell of a broken GPU, with the status that does: of NVSentinel, of EKS' node monitoring agent and
# of AKS' node problem detector. They keep new replicas away; whoever finds one fatal cordons the node or taints it.
FAULT_CONDITIONS = {
    "GpuMemWatch": "True",
    "GpuThermalWatch": "True",
    "GpuPcieWatch": "True",
    "GpuNvlinkWatch": "True",
    "SysLogsXIDError": "True",
    "SysLogsSXIDError": "True",
    "SysLogsGPUFallenOff": "True",
    "NVSwitchFatalError": "True",
    "NVSwitchDown": "True",
    "CSPMaintenance": "True",
    "AcceleratedHardwareReady": "False",
    "GPUMissing": "True",
    "NVLinkStatusInactive": "True",
    "XIDErrors": "True",
}
XID_TAINT = "nvidia.com/gpu-xid-error"
NVSENTINEL_STATE = "dgxc.nvidia.com/nvsentinel-state"
# After a repair that worked, the node waits for the next good report; in every other state it is on its way out.
REPAIRED = "remediation-succeeded"
# Whose taint says that a node goes away soon. AWS' termination handler, Karpenter (two generations), the cluster
# autoscaler, GKE and AKS (two generations).
RECLAIM_TAINTS = {
    "aws-node-termination-handler/spot-itn": "a spot interruption of AWS",
    "aws-node-termination-handler/scheduled-maintenance": "a maintenance of AWS",
    "aws-node-termination-handler/asg-lifecycle-termination": "its Auto Scaling group",
    "aws-node-termination-handler/rebalance-recommendation": "a rebalance recommendation of AWS",
    "karpenter.sh/disrupted": "Karpenter",
    "karpenter.sh/disruption": "Karpenter",
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler",
    "cloud.google.com/impending-node-termination": "GKE",
    "remediator.kubernetes.azure.com/unschedulable": "AKS",
    "remediator.aks.microsoft.com/unschedulable": "AKS",
}
GKE_MAINTENANCE = ("cloud.google.com/active-node-maintenance", "ONGOING")
NAMED = 4  # how many of a kind a message names


@dataclass(frozen=True, slots=True)
class State:
    """What is amiss with a node; fields as in `FabricNode`."""

    unusable: Explanation | None
    leaving: Explanation | None
    impaired: Explanation | None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the claims look at: the node, and what others report about it."""

    node: NodeRecord
    labels: Labels
    taints: Mapping[str, Taint]
    devices: Devices
    reported: Reported


def state_of(evidence: Evidence) -> State:
    """Whether a node may be used, whether what it has must go, and what else is wrong with it."""
    leaving = _first(_LEAVING, evidence)
    never = only_claims_reach_its_devices(evidence)
    unusable = never or it_does_not_answer(evidence) or leaving or _first(_UNUSABLE, evidence)
    return State(unusable, leaving, some_of_its_devices_are_not_there(evidence))


def _first(claims: Iterable[Callable[[Evidence], Explanation | None]], evidence: Evidence) -> Explanation | None:
    return next((told for claim in claims if (told := claim(evidence)) is not None), None)


def it_does_not_answer(each: Evidence) -> Explanation | None:
    """The kubelet is silent or says itself that it is not ready."""
    if each.node.ready:
        return None
    return Explanation(Reason.NodeNotReady, f"node {each.node.name} is not ready")


def it_is_cordoned(each: Evidence) -> Explanation | None:
    """Somebody means to empty it."""
    if not each.node.cordoned:
        return None
    return Explanation(Reason.NodeCordoned, f"node {each.node.name} is cordoned")


def it_is_being_deleted(each: Evidence) -> Explanation | None:
    """Its object is held by a finalizer only."""
    if not each.node.deleting:
        return None
    return Explanation(Reason.NodeReclaimed, f"node {each.node.name} is being deleted")


def somebody_takes_it_back(each: Evidence) -> Explanation | None:
    """A cloud or an autoscaler has given notice."""
    key = next((key for key in RECLAIM_TAINTS if key in each.taints), None)
    if key is not None:
        return Explanation(
            Reason.NodeReclaimed, f"node {each.node.name} goes away soon: {RECLAIM_TAINTS[key]} tainted it {key}"
        )
    label, ongoing = GKE_MAINTENANCE
    if each.labels.get(label) != ongoing:
        return None
    return Explanation(Reason.NodeReclaimed, f"node {each.node.name} is under maintenance by GKE")


def it_is_quarantined(each: Evidence) -> Explanation | None:
    """NVSentinel found a fatal fault."""
    state = each.labels.get(NVSENTINEL_STATE, "")
    if state in {"", REPAIRED}:
        return None
    return Explanation(Reason.GPUUnhealthy, f"node {each.node.name} is {state} by NVSentinel")


def an_xid_taints_it(each: Evidence) -> Explanation | None:
    """The driver logged a fatal error."""
    if XID_TAINT not in each.taints:
        return None
    return Explanation(Reason.GPUUnhealthy, f"node {each.node.name} has the taint {XID_TAINT}")


def its_driver_lost_devices(each: Evidence) -> Explanation | None:
    """The DRA driver taints devices with a fatal error."""
    if not each.reported.lost:
        return None
    named = ", ".join(f"{count} with {key}" for key, count in each.reported.lost[:NAMED])
    return Explanation(Reason.GPUUnhealthy, f"node {each.node.name} has GPUs tainted by the DRA driver: {named}")


def it_fell_out_of_its_compute_domain(each: Evidence) -> Explanation | None:
    """It is not ready in a ComputeDomain of which another node is: the fault is its own."""
    if not each.reported.fell_out_of:
        return None
    return Explanation(
        Reason.ComputeDomainNotReady,
        f"node {each.node.name} is not ready in ComputeDomain {each.reported.fell_out_of[0]}, and others of it are",
    )


def it_waits_for_its_release(each: Evidence) -> Explanation | None:
    """NVSentinel has repaired it and not let it go yet."""
    if each.labels.get(NVSENTINEL_STATE, "") != REPAIRED:
        return None
    return Explanation(Reason.GPUUnhealthy, f"node {each.node.name} is {REPAIRED} by NVSentinel and not released yet")


def its_conditions_tell_of_a_fault(each: Evidence) -> Explanation | None:
    """A health monitor sees a fault that may or may not be fatal."""
    if not each.node.faults:
        return None
    told = ", ".join(f"{kind}={FAULT_CONDITIONS.get(kind, 'True')}" for kind in each.node.faults)
    return Explanation(Reason.GPUUnhealthy, f"node {each.node.name} has the condition {told}")


def its_compute_domain_is_not_ready(each: Evidence) -> Explanation | None:
    """It is in a ComputeDomain that has not come up (yet) on any node."""
    if not each.reported.waits_in:
        return None
    return Explanation(
        Reason.ComputeDomainNotReady,
        f"node {each.node.name} is not ready in ComputeDomain {each.reported.waits_in[0]}",
    )


def only_claims_reach_its_devices(each: Evidence) -> Explanation | None:
    """Its GPUs are offered through DRA, which Weft's pods do not use."""
    if not each.devices.claimable:
        return None
    return Explanation(
        Reason.DynamicResourcesOnly,
        f"node {each.node.name} offers {each.devices.claimable} GPUs through DRA ({each.reported.driver}) only; Weft's "
        f"pods ask for {each.devices.resource}: run the device plugin there too",
    )


def some_of_its_devices_are_not_there(each: Evidence) -> Explanation | None:
    """The device plugin counts fewer healthy devices than there are, or none that Weft asks for."""
    name, resource = each.node.name, each.devices.resource
    capacity, allocatable = _count(each.node.capacity, resource), _count(each.node.allocatable, resource)
    if each.devices.claimable:
        return None
    if capacity < 1:
        return each.devices.elsewhere or Explanation(
            Reason.DevicePluginMissing, f"node {name} offers 0 {resource}: is the device plugin running?"
        )
    if allocatable < capacity:
        what = "devices" if each.devices.shared else "GPUs"
        return Explanation(Reason.GPUUnhealthy, f"node {name}: {allocatable} of {capacity} {what} are allocatable")
    return each.devices.elsewhere


def _count(devices: tuple[tuple[str, int], ...], resource: str) -> int:
    return max(0, dict(devices).get(resource, 0))


_LEAVING = (
    it_is_cordoned,
    it_is_being_deleted,
    somebody_takes_it_back,
    it_is_quarantined,
    an_xid_taints_it,
    its_driver_lost_devices,
    it_fell_out_of_its_compute_domain,
)
_UNUSABLE = (
    it_waits_for_its_release,
    its_conditions_tell_of_a_fault,
    its_compute_domain_is_not_ready,
)
