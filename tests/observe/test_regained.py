"""Which replicas are read back from pods where a status does not know them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.render.pools import changed, over_nvlink, plan, pool, spec
from weft.domain.cluster import ContainerFailure, PodIdentity, PodPhase, PodRecord
from weft.domain.reports import ComputeDomainReport, Reports
from weft.domain.status import Assignment, ComputeDomain, PoolStatus
from weft.domain.workload import Role
from weft.observe.custom_resources.regained import regained
from weft.render import compute_domain_name, pod_name

GPUS = ("nvidia.com/gpu", 4)
POOL = changed(pool(spec(), plan(), ("node-a",)), assignments=(), next_replica=0)
REVISION = "abc"
Place = tuple[int, int, str]  # replica, rank, node


def engine(replica: int, rank: int, node: str, pair: str = "") -> PodRecord:
    asked = (GPUS, ("rdma/hca", 8))
    identity = PodIdentity(POOL.key.uid, replica, rank, REVISION)
    name = pod_name(POOL.key, replica, rank)
    return PodRecord(
        "team", name, name, PodPhase.Running, node, asked, identity, ready=True, routed=True, created=9.0, pair=pair
    )


def read_back(*pods: PodRecord, status: PoolStatus = POOL.status, reports: Reports = Reports()) -> PoolStatus:  # noqa: B008 - frozen
    (found,) = regained([replace(POOL, status=status)], {POOL.key.uid: pods}, reports)
    return found.status


def test_a_status_that_knows_all_ids_is_left_as_it_is() -> None:
    """Who has an id that was used and no assignment was given up."""
    known = replace(POOL.status, next_replica=4)
    assert read_back(engine(3, 0, "node-a"), status=known) is known


def test_devices_of_the_network_are_no_gpus_and_the_oldest_pod_tells_since_when() -> None:
    later = replace(engine(3, 1, "node-b"), created=12.0)
    found = read_back(later, engine(3, 0, "node-a"))
    assert (Assignment(3, REVISION, ("node-a", "node-b"), 4, 9.0, complete=True),) == found.assignments
    assert (4, 1) == (found.next_replica, found.desired_replicas)


@pytest.mark.parametrize(
    "change",
    [
        {"node": None},
        {"terminating": True},
        {"phase": PodPhase.Failed},
        {"failure": ContainerFailure("OOMKilled", "")},
        {"gated": True},
        {"queued": True},
        {"unrouted": 5.0},
        {"requests": (("rdma/hca", 8),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_has_yet_to_start_or_is_over_is_not_taken_back_and_keeps_its_id(change: dict[str, object]) -> None:
    found = read_back(replace(engine(3, 0, "node-a"), **change))  # type: ignore[arg-type]
    assert ((), 4) == (found.assignments, found.next_replica)


def test_a_replica_that_lacks_a_pod_is_not_taken_back() -> None:
    """Replicas of one revision have as many pods each."""
    found = read_back(engine(1, 0, "node-a"), engine(2, 0, "node-b"), engine(2, 1, "node-c"), engine(3, 1, "node-d"))
    assert [2] == [each.replica for each in found.assignments]


def test_those_that_an_old_status_knows_tell_how_many_pods_a_replica_has() -> None:
    known = Assignment(0, REVISION, ("node-a", "node-b"), 4, 1.0, complete=True)
    old = replace(POOL.status, assignments=(known,), next_replica=1)
    assert (known,) == read_back(engine(3, 0, "node-c"), status=old).assignments


def test_a_name_counts_and_no_label() -> None:
    pod = engine(1, 0, "node-a")
    edited = replace(pod, identity=PodIdentity(POOL.key.uid, 10**18, 0, REVISION))
    assert read_back(edited, engine(0, 0, "node-b")).next_replica == 1


def test_a_name_that_a_stranger_chose_takes_no_ids() -> None:
    """A next id that the status has no room for would be refused, and with it every decision on the pool."""
    assert read_back(engine(10**19, 0, "node-a"), engine(0, 0, "node-b")).next_replica == 1


def test_more_than_an_old_status_wants_are_kept_and_none_of_those_that_are_gone() -> None:
    gone = Assignment(1, REVISION, ("node-a",), 4, 1.0, complete=True)
    old = replace(POOL.status, assignments=(gone,), next_replica=2, desired_replicas=1)
    found = read_back(engine(4, 0, "node-a"), engine(5, 0, "node-b"), status=old)
    assert ([1, 4, 5], 2) == ([each.replica for each in found.assignments], found.desired_replicas)


def test_a_pool_that_goes_is_left_alone() -> None:
    going = replace(POOL, deleting=True)
    assert (going,) == regained([going], {POOL.key.uid: (engine(1, 0, "node-a"),)}, Reports())


def domains(*of: tuple[str, str | None], terminating: bool = False) -> Reports:
    found = (ComputeDomainReport("team", name, (), owner_uid=owner, terminating=terminating) for name, owner in of)
    return Reports(compute_domains=tuple(found), knows_compute_domains=True)


def test_the_compute_domain_of_a_replica_is_its_own_again() -> None:
    """Else it would be deleted beneath its pods, as nobody has it any more."""
    own, pods = compute_domain_name(POOL.key, 3), (engine(3, 0, "node-a"), engine(3, 1, "node-b"))
    (found,) = read_back(*pods, reports=domains((own, POOL.key.uid))).assignments
    assert ComputeDomain(("", "")) == found.compute_domain
    for others in (domains((own, "somebody")), domains((own, POOL.key.uid), terminating=True)):
        (found,) = read_back(*pods, reports=others).assignments
        assert found.compute_domain is None


def test_the_compute_domain_of_a_generation_is_shared_again() -> None:
    half = over_nvlink(pool(spec(Role.Decode), plan(), ("node-a",)), "a.1")
    shared = half.status.assignments[0].shared_domain
    pod = replace(engine(3, 0, "node-a", pair="0a1b2c3d4e"), name=pod_name(half.key, 3, 0))
    lost = changed(half, assignments=(), next_replica=0)
    (found,) = regained([lost], {half.key.uid: (pod,)}, domains((shared, half.split_uid)))
    assert ComputeDomain(("",), shared) == found.status.assignments[0].compute_domain
