"""What Kueue's objects say, in words; and names that Kueue takes."""

from __future__ import annotations

import re

import pytest

from weft.domain.cluster import PodPhase, PodRecord
from weft.domain.queueing import AdmissionRecord, Stated
from weft.domain.snapshot import ResourceKey
from weft.domain.spec import SchedulerName
from weft.domain.status import Handover
from weft.render import replica_name
from weft.schedulers import ReplicaPod, scheduler_for

KUEUE = scheduler_for(SchedulerName.Kueue)
ASKED = Handover(SchedulerName.Kueue, "llm", 2, "rack", 2)
DNS_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"


def stated(kind: str, message: str = "", *, holds: bool = False) -> Stated:
    return Stated(kind, holds, "Pending", message)


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        (None, "LocalQueue llm has not taken it up yet"),
        ((), "LocalQueue llm has no quota for it yet"),
        ((stated("QuotaReserved", "8 more needed"),), "8 more needed"),
        ((stated("QuotaReserved"),), "Pending"),
        ((stated("QuotaReserved", holds=True),), "quota is reserved, admission checks are not over"),
        (
            (stated("QuotaReserved", holds=True), stated("Admitted", "prov: waiting for nodes")),
            "prov: waiting for nodes",
        ),
        ((stated("QuotaReserved", holds=True), stated("Admitted", holds=True)), "admitted, Kueue lets its pods go"),
    ],
)
def test_what_a_replica_waits_for_is_the_first_condition_that_does_not_hold(
    conditions: tuple[Stated, ...] | None, words: str
) -> None:
    admission = None if conditions is None else AdmissionRecord("team", "chat-1", conditions)
    assert words == KUEUE.waits_for(ASKED, admission)


def pod(*, terminating: bool, stopped: tuple[str, str] | None) -> PodRecord:
    return PodRecord("team", "chat-0", "uid", PodPhase.Running, "node", (), terminating=terminating, stopped=stopped)


@pytest.mark.parametrize(
    ("reason", "fault"),
    [
        ("WorkloadEvictedDueToPreempted", False),
        ("WorkloadEvictedDueToClusterQueueStopped", False),
        ("WorkloadEvictedDueToNodeFailures", False),
        ("WorkloadEvictedDueToPodsReadyTimeout", True),
        ("WorkloadDeleted", True),
    ],
)
def test_an_eviction_is_told_by_the_pod_that_kueue_takes_away(reason: str, *, fault: bool) -> None:
    taken = KUEUE.taken((pod(terminating=True, stopped=(reason, "why")),), None)
    assert taken is not None
    assert fault is taken.fault
    assert taken.message.endswith(": why")
    assert "DueTo" not in taken.message


def test_a_workload_that_waits_again_took_nothing_away() -> None:
    """Evicted before its pods were let go, a replica keeps its pods and its place."""
    waits = AdmissionRecord("team", "chat-1", (stated("Evicted", holds=True), stated("QuotaReserved")))
    assert KUEUE.taken((pod(terminating=False, stopped=None),), waits) is None
    assert KUEUE.taken((pod(terminating=False, stopped=("WorkloadEvictedDueToPreempted", "why")),), None) is None


def test_pods_that_went_before_anybody_looked_are_told_by_the_workload() -> None:
    evicted = Stated("Evicted", holds=True, reason="Preempted", message="for another")
    taken = KUEUE.taken((), AdmissionRecord("team", "chat-1", (evicted,)))
    assert taken is not None
    assert "Kueue took it away: Preempted: for another" == taken.message
    assert not taken.fault


@pytest.mark.parametrize("name", ["c", "c" * 45])
def test_the_name_of_a_group_is_a_label_and_a_name_for_a_workload(name: str) -> None:
    """The longest name of a pool and ids beyond any that a pool will reach."""
    group = replica_name(ResourceKey("InferencePool", "team", name, "6f1c7a52"), 9_999_999_999)
    assert len(group) <= 63
    assert re.fullmatch(DNS_SUBDOMAIN, group)


def test_groups_of_replicas_and_of_recreated_pools_differ() -> None:
    keys = [ResourceKey("InferencePool", "team", "chat", uid) for uid in ("one", "two")]
    assert 4 == len({replica_name(key, replica) for key in keys for replica in (1, 11)})


def test_pods_of_one_replica_differ_in_their_index_only() -> None:
    """Kueue makes one pod set of what has one role, and keeps only that inside one topology domain."""
    first, second = (KUEUE.marks(ReplicaPod("chat-1", rank, None, ASKED, ())) for rank in (0, 1))
    assert {("kueue.x-k8s.io/pod-group-pod-index", "0")} == set(first.labels) - set(second.labels)
    assert first.annotations == second.annotations
    assert (first.gates, first.expressions) == (second.gates, second.expressions)
