"""What makes a node unusable, what is about to take it away, and what is amiss with one that is used all the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.fabric.cluster import NVIDIA, board, busy, taint, tray
from tests.yardstick import assert_quick
from weft.catalog import load
from weft.domain.reasons import Reason
from weft.domain.reports import ComputeDomainReport, DeviceReport, DomainMember, Reports
from weft.fabric import build_fabric
from weft.fabric.faults import FAULT_CONDITIONS
from weft.observe.objects.records import read_node

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord, PodRecord, Taint
    from weft.domain.fabric import FabricNode
    from weft.domain.reasons import Explanation

NO_REPORTS = Reports()
STATE = "dgxc.nvidia.com/nvsentinel-state"


def only_node(one: NodeRecord, reports: Reports = NO_REPORTS, *pods: PodRecord) -> FabricNode:
    return build_fabric([one], pods, load(), reports).nodes()[one.name]


def reason(told: Explanation | None) -> Reason | None:
    return told.reason if told else None


def verdict(one: NodeRecord, reports: Reports = NO_REPORTS, *pods: PodRecord) -> tuple[Reason | None, Reason | None]:
    """(why nothing new goes there, why what is there has to leave)."""
    found = only_node(one, reports, *pods)
    return reason(found.unusable), reason(found.leaving)


def test_a_healthy_node_has_nothing_to_tell() -> None:
    found = only_node(board("b"))
    assert (None, None, None) == (found.unusable, found.leaving, found.impaired)


def test_a_cordoned_node_is_left_and_a_silent_one_is_only_avoided() -> None:
    """What ran on a node that does not answer is lost already: it is not drained but placed anew."""
    assert (Reason.NodeCordoned, Reason.NodeCordoned) == verdict(replace(board("b"), cordoned=True))
    assert (Reason.NodeNotReady, None) == verdict(replace(board("b"), ready=False))
    assert (Reason.NodeNotReady, Reason.NodeCordoned) == verdict(replace(board("b"), ready=False, cordoned=True))


@pytest.mark.parametrize("key", load().reclaim_taints)
def test_whoever_reclaims_a_node_is_named(key: str) -> None:
    found = only_node(replace(board("b"), taints=(taint(key),)))
    assert (Reason.NodeReclaimed, True) == (reason(found.leaving), found.leaving == found.unusable)
    assert key in (found.leaving.message if found.leaving else "")


@pytest.mark.parametrize(
    ("key", "labels", "seconds"),
    [
        ("aws-node-termination-handler/spot-itn", {}, 120.0),
        ("aws-node-termination-handler/rebalance-recommendation", {}, None),
        ("cloud.google.com/impending-node-termination", {}, 3600.0),
        ("cloud.google.com/impending-node-termination", {"cloud.google.com/gke-spot": "true"}, 25.0),
        ("remediator.aks.microsoft.com/unschedulable", {}, None),
        ("remediator.aks.microsoft.com/unschedulable", {"kubernetes.azure.com/scalesetpriority": "spot"}, 30.0),
        ("karpenter.sh/disrupted", {}, None),
    ],
)
def test_how_long_a_node_is_still_there_is_known_of_some_notices(
    key: str, labels: dict[str, str], seconds: float | None
) -> None:
    notice = only_node(replace(board("b", labels=labels), taints=(taint(key),))).notice
    assert seconds == (notice.seconds if notice else None)
    assert notice is None or notice.began is None


@pytest.mark.parametrize(("value", "began"), [("1764042921", 1764042921.0), ("", None), ("soon", None), ("-5", None)])
def test_the_cluster_autoscaler_says_when_it_gave_notice(value: str, began: float | None) -> None:
    notice = only_node(replace(board("b"), taints=(taint("ToBeDeletedByClusterAutoscaler", value),))).notice
    assert (600.0, began) == ((notice.seconds, notice.began) if notice else None)


def test_other_notices_count_from_when_the_taints_of_their_node_were_written() -> None:
    def began(*taints: Taint) -> float | None:
        notice = only_node(replace(board("b"), taints=taints, tainted=1764042900.0)).notice
        return notice.began if notice else None

    assert 1764042900.0 == began(taint("aws-node-termination-handler/spot-itn"))
    assert 1764042900.0 == began(taint("ToBeDeletedByClusterAutoscaler", "soon"))
    assert 1764042100.0 == began(taint("ToBeDeletedByClusterAutoscaler", "1764042100"))


def test_a_notice_is_no_trait_of_the_kind_of_its_node() -> None:
    """Else a pool all of whose nodes go would have no plan, and nobody would drain it."""
    team = taint("team", "other")
    found = only_node(replace(board("b"), taints=(team, taint("aws-node-termination-handler/spot-itn"))))
    assert (team,) == found.taints
    assert Reason.NodeReclaimed == reason(found.unusable)


def test_of_two_notices_the_one_that_ends_first_counts() -> None:
    keys = ("ToBeDeletedByClusterAutoscaler", "aws-node-termination-handler/spot-itn", "karpenter.sh/disrupted")
    notice = only_node(replace(board("b"), taints=tuple(map(taint, keys)))).notice
    assert 120.0 == (notice.seconds if notice else None)


@pytest.mark.parametrize(
    ("written", "autoscaler", "counts"),
    [
        (1764042900.0, "1764042400", (600.0, 1764042400.0)),
        (1764042900.0, "1764042800", (120.0, 1764042900.0)),
        (None, "1764042400", (120.0, None)),
    ],
    ids=["nearly over", "has just begun", "beside one that nobody dates"],
)
def test_a_longer_notice_that_is_nearly_over_ends_before_a_shorter_one(
    written: float | None, autoscaler: str, counts: tuple[float, float | None]
) -> None:
    """Ten minutes of the cluster autoscaler, of which eight have passed, beside two minutes of AWS from now on."""
    both = (taint("ToBeDeletedByClusterAutoscaler", autoscaler), taint("aws-node-termination-handler/spot-itn"))
    notice = only_node(replace(board("b"), taints=both, tainted=written)).notice
    assert counts == ((notice.seconds, notice.began) if notice else None)


def test_a_node_that_is_only_a_candidate_for_removal_stays() -> None:
    """The cluster autoscaler takes it only if it stays unneeded; AKS' spot nodes carry their taint all their life."""
    mild = taint("DeletionCandidateOfClusterAutoscaler", effect="PreferNoSchedule")
    spot = taint("kubernetes.azure.com/scalesetpriority", "spot")
    assert (None, None) == verdict(replace(board("b"), taints=(mild, spot)))


def test_a_node_that_is_deleted_or_under_maintenance_is_left() -> None:
    assert Reason.NodeReclaimed == verdict(replace(board("b"), deleting=True))[1]
    assert (
        Reason.NodeReclaimed == verdict(board("b", labels={"cloud.google.com/active-node-maintenance": "ONGOING"}))[1]
    )
    assert (None, None) == verdict(board("b", labels={"cloud.google.com/active-node-maintenance": "NONE"}))
    health = "sagemaker.amazonaws.com/node-health-status"
    assert Reason.NodeReclaimed == verdict(board("b", labels={health: "UnschedulablePendingReboot"}))[1]
    assert (None, None) == verdict(board("b", labels={health: "Schedulable"}))


@pytest.mark.parametrize(
    "state", ["quarantined", "draining", "drain-succeeded", "drain-failed", "remediating", "remediation-failed", "new"]
)
def test_what_nvsentinel_quarantines_is_left(state: str) -> None:
    assert (Reason.GPUUnhealthy, Reason.GPUUnhealthy) == verdict(board("b", labels={STATE: state}))


def test_a_repaired_node_waits_for_its_release() -> None:
    assert (Reason.GPUUnhealthy, None) == verdict(board("b", labels={STATE: "remediation-succeeded"}))


@pytest.mark.parametrize(("kind", "status"), FAULT_CONDITIONS.items())
def test_a_condition_that_tells_of_a_fault_keeps_new_replicas_away(kind: str, status: str) -> None:
    """Whether it is fatal is for whoever set it to say, by a cordon or a taint."""
    opposite = "False" if status == "True" else "True"
    assert (Reason.GPUUnhealthy, None) == verdict(with_condition(kind, status))
    assert (None, None) == verdict(with_condition(kind, opposite))
    assert (None, None) == verdict(with_condition(kind, "Unknown"))


@pytest.mark.parametrize(
    "kind",
    [
        "GpuInforomWatch",
        "UnhealthyNvidiaDevicePlugin",
        "KubeletUnhealthy",
        "GpuRowRemap",
        "RdmaLink",
        "DrainInProgress",
    ],
    ids=["NVSentinel", "AKS", "node problem detector", "Oracle's GPUs", "Oracle's network", "Kubernetes"],
)
def test_each_of_these_is_known_as_a_fault(kind: str) -> None:
    told = only_node(with_condition(kind, "True")).unusable
    assert f"node b has the condition {kind}=True" == (told.message if told else "")


@pytest.mark.parametrize(
    "kind", ["GPUClockThrottling", "UnhealthyNvidiaDCGMServices", "NodeHasPcieErrors", "MaintenancePlanned"]
)
def test_gpus_that_serve_on_are_used(kind: str) -> None:
    """Slow ones, those that nobody monitors, those whose errors were corrected, and those of a node with a plan."""
    assert (None, None) == verdict(with_condition(kind, "True"))


def with_condition(kind: str, status: str) -> NodeRecord:
    body = {
        "metadata": {"name": "b", "labels": {"nvidia.com/gpu.product": "NVIDIA-H200"}},
        "status": {
            "capacity": {NVIDIA: "8"},
            "allocatable": {NVIDIA: "8"},
            "conditions": [{"type": "Ready", "status": "True"}, {"type": kind, "status": status}],
        },
    }
    return read_node(body)


def test_only_the_conditions_that_matter_are_kept() -> None:
    """40,000 GPUs are 10,000 nodes with a dozen conditions each."""
    assert () == with_condition("MemoryPressure", "True").faults
    assert ("NVSwitchDown",) == with_condition("NVSwitchDown", "True").faults


def test_a_node_that_lost_a_gpu_says_so_and_keeps_serving_with_the_others() -> None:
    found = only_node(replace(board("b"), allocatable=((NVIDIA, 7),)))
    assert (7, None, None) == (found.total, found.unusable, found.leaving)
    assert found.impaired is not None
    assert "node b: 7 of 8 GPUs are allocatable" == found.impaired.message
    assert Reason.GPUUnhealthy == found.impaired.reason


@pytest.mark.parametrize("key", ["nvidia.com/gpu-xid-error", "amd-gpu-unhealthy"])
def test_a_taint_of_a_broken_gpu_empties_the_node(key: str) -> None:
    """Of NVSentinel, and of AMD's GPU operator, which drains the node as its next step."""
    tainted = replace(board("b"), taints=(taint(key, "true"),))
    assert (Reason.GPUUnhealthy, Reason.GPUUnhealthy) == verdict(tainted)


def test_nothing_goes_to_a_node_that_stands_for_several_machines() -> None:
    """Labels of a virtual node may count all GPUs behind it, and a group of 32 would have its place there (S9)."""
    count = {"nvidia.com/gpu.count": "64"}
    assert (Reason.LabelsContradict, None) == verdict(board("b", gpus=64, labels=count))
    assert (None, None) == verdict(board("b", gpus=16, labels={"nvidia.com/gpu.count": "16"}))
    cards = {"nvidia.com/gpu.product": "NVIDIA-L40S", "nvidia.com/gpu.memory": "46068", "nvidia.com/gpu.count": "20"}
    assert (None, None) == verdict(board("b", gpus=20, labels=cards))
    assert (None, None) == verdict(board("b", gpus=64))  # nobody counts GPUs: these are parts of eight


def test_devices_that_the_dra_driver_taints_empty_the_node() -> None:
    lost = DeviceReport("s", "b", "gpu.nvidia.com", "b", 1, (("NVIDIA H200", 0, 8),), lost=(("gpu.nvidia.com/xid", 1),))
    found = only_node(board("b"), Reports(devices=(lost,)))
    assert (Reason.GPUUnhealthy, Reason.GPUUnhealthy) == (reason(found.unusable), reason(found.leaving))
    assert "1 with gpu.nvidia.com/xid" in (found.leaving.message if found.leaving else "")


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    """Between two generations both are there, and the old one may still tell of a fault that is gone."""
    old = DeviceReport("s1", "b", "gpu.nvidia.com", "b", 1, (("NVIDIA H200", 0, 8),), lost=(("gpu.nvidia.com/xid", 1),))
    new = DeviceReport("s2", "b", "gpu.nvidia.com", "b", 2, (("NVIDIA H200", 0, 8),))
    assert (None, None) == verdict(board("b"), Reports(devices=(old, new)))


def compute_domain(**members: bool) -> Reports:
    found = tuple(DomainMember(name, "c.1", ready) for name, ready in members.items())
    return Reports(compute_domains=(ComputeDomainReport("team", "chat", found),))


def test_a_node_that_fell_out_of_its_compute_domain_is_left() -> None:
    """Its pod started, so it was up; others still are, so the fault is not the domain's."""
    serving = replace(busy("chat", "t", 4), ready=True)
    fault = (Reason.ComputeDomainNotReady, Reason.ComputeDomainNotReady)
    assert fault == verdict(tray("t", "c.1"), compute_domain(t=False, other=True), serving)


def test_a_compute_domain_that_starts_takes_nobody_away() -> None:
    """Its nodes become ready one after the other; leaving them would end every replica that has just been placed."""
    starting, waits = busy("chat", "t", 4), (Reason.ComputeDomainNotReady, None)
    assert waits == verdict(tray("t", "c.1"), compute_domain(t=False, other=False), starting)
    assert waits == verdict(tray("t", "c.1"), compute_domain(t=False, other=True), starting)
    assert (None, None) == verdict(tray("t", "c.1"), compute_domain(t=True, other=True), starting)


def test_a_node_with_ten_thousand_taints_takes_linear_time() -> None:
    one = replace(board("b"), taints=tuple(taint(f"t{index}") for index in range(10_000)))
    assert 10_000 == len(only_node(one).taints)
    assert_quick(lambda: only_node(one), yards=20_000)
