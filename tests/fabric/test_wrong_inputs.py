"""Nodes as nobody should write them: a reason, never an exception, and never a wrong count."""

from __future__ import annotations

from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fabric.cluster import AMD, NVIDIA, tray
from tests.yardstick import assert_no_steeper
from weft.catalog import load
from weft.domain.cluster import NodeRecord, PodPhase, PodRecord, Taint
from weft.domain.fabric import Fabric
from weft.domain.reasons import Reason
from weft.domain.reports import ComputeDomainReport, DeviceReport, DomainMember, Reports, TopologyReport
from weft.fabric import build_fabric
from weft.observe.objects.records import read_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json = dict[str, Any]
H200 = {"nvidia.com/gpu.product": "NVIDIA-H200"}


def node(name: str, gpus: object = "8", labels: dict[str, str] | None = None, uid: str = "u") -> NodeRecord:
    devices = {} if gpus is None else {NVIDIA: gpus}
    status: Json = {"capacity": devices, "allocatable": devices, "conditions": [{"type": "Ready", "status": "True"}]}
    return read_node({"metadata": {"name": name, "uid": uid, "labels": {**H200, **(labels or {})}}, "status": status})


def fabric_of(*nodes: NodeRecord) -> Fabric:
    return build_fabric(nodes, (), load())


@pytest.mark.parametrize("gpus", ["0", 0, "-1", -1], ids=repr)
def test_no_gpu_or_less_than_none_is_none_and_said(gpus: object) -> None:
    """A device plugin that stops leaves a zero; the node stays visible with the reason."""
    (only,) = fabric_of(node("b", gpus)).nodes().values()
    assert (0, 0) == (only.total, only.free)
    assert only.impaired is not None
    assert Reason.DevicePluginMissing == only.impaired.reason


@pytest.mark.parametrize("gpus", ["eight", "", "8 GPUs", "NaN", "Inf", "1e400", None], ids=repr)
def test_a_quantity_that_is_no_number_is_none_at_all(gpus: object) -> None:
    found = fabric_of(node("b", gpus))
    assert ((), [Reason.DevicePluginMissing]) == (found.domains, [note.reason for note in found.notes])


def test_a_node_without_labels_and_one_without_anything_are_read() -> None:
    bare = read_node({"metadata": {"name": "bare"}})
    unlabelled = read_node({"metadata": {"name": "n"}, "status": {"capacity": {NVIDIA: "8"}}})
    assert ((), [Reason.AcceleratorUnknown]) == (
        fabric_of(bare, unlabelled).domains,
        [note.reason for note in fabric_of(bare, unlabelled).notes],
    )


def test_a_cluster_without_any_gpu_is_an_empty_fabric() -> None:
    assert Fabric(()) == fabric_of()
    assert Fabric(()) == fabric_of(read_node({"metadata": {"name": "cpu"}, "status": {"capacity": {"cpu": "8"}}}))


def test_two_nodes_with_one_hostname_are_two_nodes_and_noted() -> None:
    same = {"kubernetes.io/hostname": "same"}
    found = fabric_of(node("a", labels=same), node("b", labels=same), node("c", labels={"kubernetes.io/hostname": "c"}))
    assert ({"a", "b", "c"}, [Reason.LabelsContradict]) == (set(found.nodes()), [note.reason for note in found.notes])
    assert "a, b" in found.notes[0].message


def test_two_nodes_with_one_name_are_one() -> None:
    """Only an edited file has them, or one that joins the dumps of two clusters."""
    twice = [node("a", "8", uid="1"), node("a", "4", uid="2")]
    assert [8, 8] == [sum(domain.total for domain in fabric_of(*each).domains) for each in (twice, twice[::-1])]
    noted = "there are several nodes named a: the first of each by UID is read; keep clusters apart"
    assert [noted] == [note.message for note in fabric_of(*twice).notes]


LABELS = st.dictionaries(
    st.sampled_from(
        [
            "nvidia.com/gpu.product",
            "nvidia.com/gpu.clique",
            "nvidia.com/gpu.replicas",
            "nvidia.com/gpu.memory",
            "amd.com/gpu.product-name",
            "amd.com/compute-memory-partition",
            "accelerator.topograph.run/domain",
            "ds.coreweave.com/nvlink.domain",
            "fabric.topograph.run/tier-0",
            "topology.k8s.aws/network-node-layer-1",
            "topology.kubernetes.io/zone",
            "kubernetes.io/hostname",
            "dgxc.nvidia.com/nvsentinel-state",
            "node.kubernetes.io/instance-type",
            "ex.com/rack",
        ]
    ),
    st.sampled_from(
        ["NVIDIA-H200", "NVIDIA-GB200", "NVIDIA-GB200-SHARED", "AMD_Instinct_MI300X_OAM", "a", "b", "1", "n0", "n1", ""]
    ),
    max_size=6,
)
DEVICES = st.dictionaries(
    st.sampled_from([NVIDIA, AMD, "nvidia.com/gpu.shared", "nvidia.com/mig-1g.18gb", "rdma/ib"]), st.integers(-2, 9)
).map(lambda found: tuple(sorted(found.items())))
NAMES = [f"n{index}" for index in range(6)]
TAINTS = st.lists(st.sampled_from([Taint("x", "", "NoSchedule"), Taint("karpenter.sh/disrupted", "", "NoSchedule")]))
NODES = st.lists(
    st.builds(
        NodeRecord,
        name=st.sampled_from(NAMES),
        uid=st.text("ab", max_size=2),
        labels=LABELS.map(lambda labels: tuple(sorted(labels.items()))),
        capacity=DEVICES,
        allocatable=DEVICES,
        taints=TAINTS.map(tuple),
        cordoned=st.booleans(),
        ready=st.booleans(),
    ),
    max_size=6,
    unique_by=lambda one: one.name,
)
PODS = st.lists(
    st.builds(
        PodRecord,
        namespace=st.just("team"),
        name=st.text("pq", min_size=1, max_size=3),
        uid=st.text("uv", max_size=3),
        phase=st.sampled_from(PodPhase),
        node=st.none() | st.sampled_from(NAMES),
        requests=DEVICES,
        terminating=st.booleans(),
    ),
    max_size=6,
)
PRODUCTS = st.lists(st.tuples(st.sampled_from(["NVIDIA GB200", "odd"]), st.just(0), st.integers(1, 8)), max_size=2)
REPORTS = st.builds(
    Reports,
    devices=st.lists(
        st.builds(
            DeviceReport,
            name=st.text("st", max_size=2),
            node=st.sampled_from(NAMES),
            driver=st.just("gpu.nvidia.com"),
            pool=st.sampled_from(NAMES),
            generation=st.integers(0, 2),
            gpus=PRODUCTS.map(tuple),
            lost=st.sampled_from([(), (("gpu.nvidia.com/xid", 1),)]),
        ),
        max_size=3,
    ).map(tuple),
    compute_domains=st.lists(
        st.builds(
            ComputeDomainReport,
            namespace=st.just("team"),
            name=st.text("cd", max_size=2),
            members=st.lists(
                st.builds(DomainMember, st.sampled_from(NAMES), st.sampled_from(["", "a", "b"]), st.booleans()),
                max_size=3,
            ).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    topologies=st.sampled_from([(), (TopologyReport("t", ("topology.kubernetes.io/zone", "ex.com/rack")),)]),
)


@given(NODES, PODS, REPORTS, st.randoms())
def test_the_order_in_which_things_are_listed_does_not_matter(
    nodes: list[NodeRecord],
    pods: list[PodRecord],
    reports: Reports,
    random: Any,  # noqa: ANN401 - hypothesis' own
) -> None:
    shuffled_nodes, shuffled_pods = random.sample(nodes, len(nodes)), random.sample(pods, len(pods))
    devices = tuple(random.sample(reports.devices, len(reports.devices)))
    domains = tuple(random.sample(reports.compute_domains, len(reports.compute_domains)))
    other = Reports(devices, domains, reports.topologies)
    expected = build_fabric(nodes, pods, load(), reports)
    assert expected == build_fabric(shuffled_nodes, shuffled_pods, load(), other)


@given(NODES, PODS, REPORTS)
def test_every_accelerator_node_is_in_exactly_one_domain_or_noted(
    nodes: list[NodeRecord], pods: list[PodRecord], reports: Reports
) -> None:
    """And nothing else is in any; a domain's name is its own."""
    found = build_fabric(nodes, pods, load(), reports)
    placed = [one.name for domain in found.domains for one in domain.nodes]
    assert sorted(set(placed)) == sorted(placed)
    assert set(placed) <= {one.name for one in nodes}
    assert len({domain.name for domain in found.domains}) == len(found.domains)
    told = " ".join(note.message for note in found.notes)
    for one in nodes:
        offers = {NVIDIA, AMD} & {name for name, _ in one.capacity}
        assert not offers or one.name in placed or one.name in told


@given(NODES, PODS, REPORTS)
def test_no_domain_is_larger_than_nvlink_reaches(
    nodes: list[NodeRecord], pods: list[PodRecord], reports: Reports
) -> None:
    """Whatever labels say; parts of GPUs, and nodes that are not up, do not count."""
    ready = {one.name: one.ready for one in nodes}
    for domain in build_fabric(nodes, pods, load(), reports).domains:
        if len(domain.nodes) > 1 and not any(one.shared for one in domain.nodes):
            whole = sum(max(0, one.capacity) for one in domain.nodes if ready[one.name])
            assert whole <= load().accelerator(domain.accelerator).domain_gpus


@given(NODES, PODS, REPORTS)
def test_counts_are_never_negative_and_what_leaves_is_never_free(
    nodes: list[NodeRecord], pods: list[PodRecord], reports: Reports
) -> None:
    found = build_fabric(nodes, pods, load(), reports)
    for domain in found.domains:
        assert domain.free <= domain.total
        for one in domain.nodes:
            assert min(one.total, one.used, one.free) >= 0
            assert one.free <= one.total
            assert one.leaving is None or one.unusable is not None
            assert len(one.tiers) == len(domain.tiers) == len(found.domains[0].tiers)


def in_one_clique(count: int, *, zoned: bool) -> list[NodeRecord]:
    """Trays that a label joins, each in a zone of its own or all in none."""
    zones = ({"topology.kubernetes.io/zone": f"z{index}"} if zoned else {} for index in range(count))
    return [tray(f"t{index}", "c.1", zone) for index, zone in enumerate(zones)]


def in_one_compute_domain(nodes: list[NodeRecord]) -> Reports:
    """Of which none is ready."""
    members = tuple(DomainMember(each.name, "c.1", ready=False) for each in nodes)
    return Reports(compute_domains=(ComputeDomainReport("team", "chat", members),))


@pytest.mark.parametrize("what", ["a zone for each", "one ComputeDomain"])
def test_what_joins_all_nodes_is_read_in_linear_time(what: str) -> None:
    def readings(count: int) -> Iterator[Callable[[], Fabric]]:
        nodes = in_one_clique(count, zoned=what == "a zone for each")
        reports = in_one_compute_domain(nodes) if what == "one ComputeDomain" else Reports()
        return repeat(partial(build_fabric, nodes, (), load(), reports))

    assert_no_steeper(readings(500), readings(4000), times=16)
