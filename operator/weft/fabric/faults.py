"""What keeps replicas off a node, and what moves them away: ordered claims, the first that holds is the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.fabric import Notice
from weft.domain.reasons import Explanation, Reason
from weft.domain.texts.figures import counted
from weft.domain.texts.units import MIB
from weft.fabric.parts import MEMORY_MIB, MOST_GPUS, counted_gpus, has_absurd_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from weft.catalog.notices import ReclaimTaint
    from weft.domain.cluster import NodeRecord, Taint
    from weft.fabric.devices import Devices
    from weft.fabric.parts import Labels
    from weft.fabric.reported import Reported

# Node conditions that report a broken GPU or node, with the status that means so: of NVSentinel (INTEGRATIONS.md), EKS'
# node monitoring agent ("Detect node health issues", which has it replaced after 10 to 30 minutes), AKS' node problem
# detector, Oracle's (oci-hpc-oke) and the upstream one with its health checker ("permanent problems"), and Kubernetes'
# own of a node's life (1.37). They keep new replicas away; a tool that finds one fatal cordons or taints the node. A
# scheduled event of an Azure VM may be a freeze of seconds, or the end of the VM. Not here, as the GPUs serve on: GPUs
# that are throttled, monitors that are down, PCIe errors that were corrected, maintenance that is only planned.
FAULT_CONDITIONS = {
    "GpuMemWatch": "True",
    "GpuThermalWatch": "True",
    "GpuPcieWatch": "True",
    "GpuNvlinkWatch": "True",
    "GpuPowerWatch": "True",
    "GpuInforomWatch": "True",
    "GpuSmWatch": "True",
    "GpuMcuWatch": "True",
    "GpuPmuWatch": "True",
    "GpuDriverWatch": "True",
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
    "XIDError": "True",
    "UnhealthyNvidiaDevicePlugin": "True",
    "IBLinkFlapping": "True",
    "NetworkingReady": "False",
    "StorageReady": "False",
    "KernelReady": "False",
    "ContainerRuntimeReady": "False",
    "FilesystemCorruptionProblem": "True",
    "KubeletProblem": "True",
    "ContainerRuntimeProblem": "True",
    "VMEventScheduled": "True",
    "KernelDeadlock": "True",
    "ReadonlyFilesystem": "True",
    "KubeletUnhealthy": "True",
    "ContainerRuntimeUnhealthy": "True",
    "XfsShutdown": "True",
    "CperHardwareErrorFatal": "True",
    "GpuEcc": "True",
    "GpuRowRemap": "True",
    "GpuBus": "True",
    "GpuCount": "True",
    "GpuPcie": "True",
    "GpuFabricMgr": "True",
    "GpuBadPages": "True",
    "RdmaLink": "True",
    "RdmaLinkFlapping": "True",
    "RdmaWpaAuth": "True",
    "DrainInProgress": "True",
    "Drained": "True",
    "MaintenanceInProgress": "True",
    "GracefulNodeShutdownInProgress": "True",
}
# Taints of broken GPUs: NVSentinel's, where its rules set one, and of AMD's GPU operator, which drains the node next.
XID_TAINT = "nvidia.com/gpu-xid-error"
FAULT_TAINTS = (XID_TAINT, "amd-gpu-unhealthy")
NVSENTINEL_STATE = "dgxc.nvidia.com/nvsentinel-state"
# In this state a repaired node waits for a healthy report; in every other state replicas have to leave it.
REPAIRED = "remediation-succeeded"
# (label, value) that says a node goes away soon, with who sets it; taints of this kind are in `catalog/notices.yaml`.
RECLAIM_LABELS = {
    ("cloud.google.com/active-node-maintenance", "ONGOING"): "GKE",
    ("sagemaker.amazonaws.com/node-health-status", "UnschedulablePendingReplacement"): "SageMaker HyperPod",
    ("sagemaker.amazonaws.com/node-health-status", "UnschedulablePendingReboot"): "SageMaker HyperPod",
}
NAMED = 4  # most taint keys that a message lists


@dataclass(frozen=True, slots=True)
class State:
    """What is wrong with a node; fields as in `FabricNode`."""

    unusable: Explanation | None
    leaving: Explanation | None
    impaired: Explanation | None
    notice: Notice | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the claims look at: a node, reports about it, and whether a ready pod holds its devices (`serves`).

    `reclaims` are those of the node's taints which say that it goes away, by key.
    """

    node: NodeRecord
    labels: Labels
    taints: Mapping[str, Taint]
    devices: Devices
    reported: Reported
    serves: bool
    reclaims: Mapping[str, ReclaimTaint]


def state_of(evidence: Evidence) -> State:
    """Judge a node: whether it may be used, whether its replicas must leave, and what else is wrong with it."""
    leaving = _first(_LEAVING, evidence)
    never = only_claims_reach_its_devices(evidence)
    unusable = never or it_does_not_answer(evidence) or leaving or _first(_UNUSABLE, evidence)
    return State(unusable, leaving, some_of_its_devices_are_not_there(evidence), _notice(evidence))


def _notice(each: Evidence) -> Notice | None:
    """Return how long a node that is being reclaimed is still there: the notice that ends first; None without one.

    A notice without a start time has an unknown end: it wins if it is no longer than the dated notice that ends first.
    """
    found = []
    for key, known in each.reclaims.items():
        if (seconds := known.seconds_on(each.labels)) is not None:
            told = _time_of(each.taints[key]) if known.value_is_its_time else None
            found.append(Notice(seconds, each.node.tainted if told is None else told))
    ends = {notice: notice.began + notice.seconds for notice in found if notice.began is not None}
    undated = [notice for notice in found if notice.began is None]
    first = [min(ends, key=ends.__getitem__)] if ends else []
    return min((*undated, *first), key=lambda notice: notice.seconds, default=None)


def _time_of(taint: Taint) -> float | None:
    return float(taint.value) if taint.value.isascii() and taint.value.isdigit() else None


def _first(claims: Iterable[Callable[[Evidence], Explanation | None]], evidence: Evidence) -> Explanation | None:
    for claim in claims:
        if (told := claim(evidence)) is not None:
            return told
    return None


def it_does_not_answer(each: Evidence) -> Explanation | None:
    """Holds where the kubelet is silent or reports that the node is not ready."""
    if each.node.ready:
        return None
    return Explanation(Reason.NodeNotReady, f"node {each.node.name} is not ready")


def it_is_cordoned(each: Evidence) -> Explanation | None:
    """Holds where somebody has cordoned the node, to drain it."""
    if not each.node.cordoned:
        return None
    return Explanation(Reason.NodeCordoned, f"node {each.node.name} is cordoned")


def it_is_being_deleted(each: Evidence) -> Explanation | None:
    """Holds where the Node object is deleted and only a finalizer keeps it."""
    if not each.node.deleting:
        return None
    return Explanation(Reason.NodeReclaimed, f"node {each.node.name} is being deleted")


def somebody_takes_it_back(each: Evidence) -> Explanation | None:
    """Holds where a cloud or an autoscaler has given notice, by a taint or a label, that the node goes away."""
    key = min(each.reclaims, default=None)
    if key is not None:
        what = f"{each.reclaims[key].who} tainted it {key}"
        return Explanation(Reason.NodeReclaimed, f"node {each.node.name} goes away soon: {what}")
    for (label, value), who in RECLAIM_LABELS.items():
        if each.labels.get(label) == value:
            what = f"{who} labelled it {label}={value}"
            return Explanation(Reason.NodeReclaimed, f"node {each.node.name} goes away soon: {what}")
    return None


def it_is_quarantined(each: Evidence) -> Explanation | None:
    """Holds where NVSentinel found a fatal fault."""
    state = each.labels.get(NVSENTINEL_STATE, "")
    if state in {"", REPAIRED}:
        return None
    return Explanation(Reason.GPUUnhealthy, f"NVSentinel has node {each.node.name} in the state {state}")


def a_taint_tells_of_a_fault(each: Evidence) -> Explanation | None:
    """Holds where a tool that found a fatal fault of a GPU has tainted the node."""
    key = next((key for key in FAULT_TAINTS if key in each.taints), None)
    if key is None:
        return None
    return Explanation(Reason.GPUUnhealthy, f"node {each.node.name} has the taint {key}")


def its_driver_lost_devices(each: Evidence) -> Explanation | None:
    """Holds where the DRA driver taints devices, as it does after a fatal error."""
    if not each.reported.lost:
        return None
    named = ", ".join(f"{count} with {key}" for key, count in each.reported.lost[:NAMED])
    return Explanation(Reason.GPUUnhealthy, f"node {each.node.name} has GPUs tainted by the DRA driver: {named}")


def it_fell_out_of_its_compute_domain(each: Evidence) -> Explanation | None:
    """Holds where pods run on the node, but it is not ready in its ComputeDomain and another node is: its own fault.

    A container starts only once its node was ready there, so a domain that is still coming up has no ready pod on it.
    """
    if not each.reported.fell_out_of or not each.serves:
        return None
    return Explanation(
        Reason.ComputeDomainNotReady,
        f"node {each.node.name} is not ready in ComputeDomain {each.reported.fell_out_of[0]}, and others of it are",
    )


def it_waits_for_its_release(each: Evidence) -> Explanation | None:
    """Holds where NVSentinel has repaired the node and not released it yet."""
    if each.labels.get(NVSENTINEL_STATE, "") != REPAIRED:
        return None
    message = f"NVSentinel has repaired node {each.node.name} and not released it yet"
    return Explanation(Reason.GPUUnhealthy, message)


def its_conditions_tell_of_a_fault(each: Evidence) -> Explanation | None:
    """Holds where a node condition reports a fault that may or may not be fatal."""
    if not each.node.faults:
        return None
    told = ", ".join(f"{kind}={FAULT_CONDITIONS.get(kind, 'True')}" for kind in each.node.faults)
    return Explanation(Reason.GPUUnhealthy, f"node {each.node.name} has the condition {told}")


def its_compute_domain_is_not_ready(each: Evidence) -> Explanation | None:
    """Holds where the node is not ready in a ComputeDomain: a new pod could not start there."""
    waits = (*each.reported.waits_in, *each.reported.fell_out_of)
    if not waits:
        return None
    return Explanation(Reason.ComputeDomainNotReady, f"node {each.node.name} is not ready in ComputeDomain {waits[0]}")


def its_memory_cannot_be_true(each: Evidence) -> Explanation | None:
    """Holds where a label gives a GPU a memory that its product does not have: one of both labels is wrong.

    Plans go by the smallest memory of a kind, so that the label of one node would be that of all. Our own product
    label may name a stand-in for a GPU that the catalog does not know.
    """
    devices, known = each.devices, each.devices.accelerator
    if devices.shared or devices.claimable or not has_absurd_memory(each.labels, known):
        return None
    return Explanation(
        Reason.LabelsContradict,
        f"node {each.node.name} has {MEMORY_MIB}={each.labels[MEMORY_MIB]} and is labelled as {known.name}, which has "
        f"{known.memory_bytes // MIB}: nothing new goes there until one of them is corrected",
    )


def it_stands_for_several_machines(each: Evidence) -> Explanation | None:
    """Holds where one node offers more GPUs than a board joins and a machine has, as virtual nodes do.

    A group on it would end up in another machine than its NVLink, if it ran at all. Cards without NVLink may be more.
    """
    devices, known = each.devices, each.devices.accelerator
    offered = _count(each.node.capacity, devices.resource)
    if devices.shared or devices.claimable or known.domain_gpus == 1 or offered <= MOST_GPUS:
        return None
    return Explanation(
        Reason.LabelsContradict,
        f"node {each.node.name} offers {offered} {devices.resource} of {known.name}, more than a machine has: is it a "
        "virtual node? NVLink joins nothing there, and nothing new goes to it",
    )


def only_claims_reach_its_devices(each: Evidence) -> Explanation | None:
    """Holds where GPUs are offered through DRA only, which Weft's pods do not use."""
    if not each.devices.claimable:
        return None
    return Explanation(
        Reason.DynamicResourcesOnly,
        f"node {each.node.name} offers {counted(each.devices.claimable, 'GPU')} through DRA ({each.reported.driver}) "
        f"only; Weft's pods ask for {each.devices.resource}: run the device plugin there too",
    )


def some_of_its_devices_are_not_there(each: Evidence) -> Explanation | None:
    """Holds where the device plugin reports fewer allocatable devices than exist, or none that Weft requests."""
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
    return each.devices.elsewhere or _some_are_not_offered(each, capacity)


def _some_are_not_offered(each: Evidence, capacity: int) -> Explanation | None:
    """Hold where a label counts more GPUs than the device plugin offers: it started without the others.

    One that failed before that is in neither number of the kubelet, and serves nobody.
    """
    label, told = counted_gpus(each.labels)
    if each.devices.shared or told <= capacity:
        return None
    return Explanation(
        Reason.LabelsContradict,
        f"node {each.node.name} offers {capacity} {each.devices.resource} and has {label}={told}: what it "
        "offers counts; were the others broken or hidden when its device plugin started?",
    )


def _count(devices: tuple[tuple[str, int], ...], resource: str) -> int:
    return max(0, dict(devices).get(resource, 0))


_LEAVING = (
    it_is_being_deleted,
    somebody_takes_it_back,
    it_is_quarantined,
    a_taint_tells_of_a_fault,
    its_driver_lost_devices,
    it_fell_out_of_its_compute_domain,
    it_is_cordoned,  # last, as the least specific: tools that find a fault cordon the node too
)
_UNUSABLE = (
    it_waits_for_its_release,
    its_conditions_tell_of_a_fault,
    its_compute_domain_is_not_ready,
    its_memory_cannot_be_true,
    it_stands_for_several_machines,
)
