"""ResourceSlices, ComputeDomains and Topologies as records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.domain.reports import ComputeDomainReport, DeviceReport, DomainMember, TopologyReport
from weft.observe.objects.reports import read_compute_domain, read_devices, read_topology

Json = dict[str, Any]
GIB = 1 << 30


def gpu(name: str, kind: str = "gpu", *taints: Json, product: str = "NVIDIA GB200", memory: str = "185Gi") -> Json:
    return {
        "name": name,
        "attributes": {
            "type": {"string": kind},
            "productName": {"string": product},
            "uuid": {"string": f"GPU-{name}"},
            "cudaComputeCapability": {"version": "10.0.0"},
        },
        "capacity": {"memory": {"value": memory}},
        "taints": list(taints),
    }


def slice_of(*devices: Json, driver: str = "gpu.nvidia.com", node: str | None = "n1") -> Json:
    pool = {"name": "n1", "generation": 3, "resourceSliceCount": 1}
    spec = {"driver": driver, "pool": pool, "nodeName": node, "devices": list(devices)}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s1"}, "spec": spec}


def test_whole_gpus_are_counted_by_product_and_memory() -> None:
    body = slice_of(gpu("gpu-0"), gpu("gpu-1"), gpu("mig-0", "mig"), gpu("vfio-0", "vfio"))
    expected = DeviceReport("s1", "n1", "gpu.nvidia.com", "n1", 3, (("NVIDIA GB200", 185 * GIB, 2),), parts=1)
    assert expected == read_devices(body)


def test_amds_driver_is_read_by_its_own_words() -> None:
    whole = gpu("gpu-0", "amdgpu", product="AMD Instinct MI300X OAM", memory="196592Mi")
    found = read_devices(slice_of(whole, gpu("p", "amdgpu-partition"), driver="gpu.amd.com"))
    assert found is not None
    assert ((("AMD Instinct MI300X OAM", 196592 << 20, 1),), 1) == (found.gpus, found.parts)


@pytest.mark.parametrize(
    ("key", "effect", "lost"),
    [
        ("gpu.nvidia.com/xid", "NoSchedule", True),
        ("gpu.nvidia.com/gpu-lost", "NoSchedule", True),
        ("gpu.nvidia.com/xid", "None", False),
        ("gpu.nvidia.com/unmonitored", "None", False),
        ("gpu.nvidia.com/unmonitored", "NoSchedule", False),
        ("example.com/reserved", "NoSchedule", False),
    ],
)
def test_only_a_taint_of_the_driver_with_an_effect_is_a_fault(key: str, effect: str, *, lost: bool) -> None:
    """Without an effect an XID is an application's, and nobody looks at an unmonitored device."""
    found = read_devices(slice_of(gpu("gpu-0", "gpu", {"key": key, "value": "79", "effect": effect}), gpu("gpu-1")))
    assert found is not None
    assert (((key, 1),) if lost else ()) == found.lost


@pytest.mark.parametrize(
    "body",
    [slice_of(driver="dra.net"), slice_of(driver="compute-domain.nvidia.com", node=None), slice_of(node=None), {}],
)
def test_what_is_no_gpu_of_a_node_is_left_out(body: Json) -> None:
    assert read_devices(body) is None


def test_a_node_that_can_be_in_a_compute_domain_offers_no_gpus_for_that() -> None:
    """The driver's channels and daemons are devices, too."""
    body = slice_of({"name": "channel-0", "attributes": {"type": {"string": "channel"}, "id": {"int": 0}}})
    body["spec"]["driver"] = "compute-domain.nvidia.com"
    assert DeviceReport("s1", "n1", "compute-domain.nvidia.com", "n1", 3, ()) == read_devices(body)


def test_a_compute_domain_names_its_nodes_as_they_joined() -> None:
    nodes = [
        {"name": "n2", "ipAddress": "10.0.0.2", "cliqueID": "u.1", "index": 1, "status": "NotReady"},
        {"name": "n1", "ipAddress": "10.0.0.1", "cliqueID": "u.1", "index": 0, "status": "Ready"},
    ]
    body = {"metadata": {"namespace": "team", "name": "chat"}, "status": {"status": "NotReady", "nodes": nodes}}
    members = (DomainMember("n1", "u.1", ready=True), DomainMember("n2", "u.1", ready=False))
    assert ComputeDomainReport("team", "chat", members) == read_compute_domain(body)
    assert () == read_compute_domain({"metadata": {"namespace": "team", "name": "new"}}).members


def test_a_compute_domain_of_ours_tells_whose_it_is_and_whether_it_goes() -> None:
    owner = {
        "apiVersion": "weft.dev/v1alpha1",
        "kind": "InferencePool",
        "name": "chat",
        "uid": "p-1",
        "controller": True,
    }
    meta = {"namespace": "team", "name": "chat-0", "uid": "d-1", "ownerReferences": [owner]}
    found = read_compute_domain({"metadata": {**meta, "deletionTimestamp": "2026-08-01T10:00:00Z"}})
    assert ("d-1", "p-1", True) == (found.uid, found.owner_uid, found.terminating)
    others = read_compute_domain({"metadata": {**meta, "ownerReferences": [{**owner, "apiVersion": "batch/v1"}]}})
    assert (None, False) == (others.owner_uid, others.terminating)


def test_a_topology_names_its_levels_in_order() -> None:
    levels = [{"nodeLabel": "ex.com/block"}, {"nodeLabel": "kubernetes.io/hostname"}]
    body = {"metadata": {"name": "default"}, "spec": {"levels": levels}}
    assert TopologyReport("default", ("ex.com/block", "kubernetes.io/hostname")) == read_topology(body)


KEYS = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "nodes",
        "levels",
        "devices",
        "taints",
        "pool",
        "driver",
        "nodeName",
        "name",
        "basic",
    ]
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, ANYTHING, max_size=6))
def test_nothing_that_somebody_else_writes_ends_in_an_exception(body: Json) -> None:
    """The kinds are not ours, and their next version may look different."""
    devices = read_devices({**body, "spec": {"driver": "gpu.nvidia.com", "nodeName": "n1", **_dict(body.get("spec"))}})
    assert devices is None or isinstance(devices, DeviceReport)
    assert isinstance(read_compute_domain(body), ComputeDomainReport)
    assert isinstance(read_topology(body), TopologyReport)


def _dict(value: object) -> Json:
    return value if isinstance(value, dict) else {}
