"""Where pods have more than one interface, ranks and KV take the one that the user's annotation names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.render.pools import RELEASE, plan, shape, spec, split
from weft.domain.shape import EngineName, Shape
from weft.domain.spec import EngineSpec, KVSpec, PodSpec, PoolSpec
from weft.domain.workload import Role
from weft.engines import LaunchRequest, adapter_for
from weft.engines.pods.interfaces import NETWORKS, named_interfaces
from weft.render.revision import pair_revision

TWO_PODS = shape(16, "GB200", gpus_per_pod=8)


def attached(text: str) -> PodSpec:
    return PodSpec(annotations=((NETWORKS, text),))


def variables(wanted: PoolSpec, chosen: Shape) -> dict[str, str]:
    launch = adapter_for(chosen.engine).launch(LaunchRequest(wanted, plan(chosen), leader_host="leader"))
    return {each.name: each.value for each in launch.env}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("fast", ()),
        ("fast@net1", ("net1",)),
        (" team/fast@net1 , storage,team/other@net2", ("net1", "net2")),
        ('[{"name": "fast", "interface": "net1"}, {"name": "storage"}]', ("net1",)),
        ('[{"name": "fast", "interface": 1}, "x"]', ()),
        ("[not json", ()),
        ("[" * 4000, ()),
        ("fast@a name that is none", ()),
        ("fast@net1,fast@net1", ("net1",)),
    ],
)
def test_interfaces_are_those_that_the_annotation_names(text: str, names: tuple[str, ...]) -> None:
    assert named_interfaces(attached(text)) == names


@pytest.mark.parametrize("engine", [EngineName.VLLM, EngineName.SGLang])
def test_ranks_of_several_pods_meet_over_them(engine: EngineName) -> None:
    chosen = replace(TWO_PODS, engine=engine)
    plain, named = variables(spec(), chosen), variables(spec(pod=attached("a@net1,b@net2")), chosen)
    assert (plain["GLOO_SOCKET_IFNAME"], plain["NCCL_SOCKET_IFNAME"]) == ("eth0", "eth0")
    assert (named["GLOO_SOCKET_IFNAME"], named["NCCL_SOCKET_IFNAME"]) == ("net1", "=net1,net2")


def test_what_a_user_says_about_a_variable_counts() -> None:
    engine = EngineSpec(env=(("NCCL_SOCKET_IFNAME", "eth0"),))
    named = variables(spec(pod=attached("a@net1"), engine=engine), TWO_PODS)
    assert (named["GLOO_SOCKET_IFNAME"], named["NCCL_SOCKET_IFNAME"]) == ("net1", "eth0")


def test_one_pod_is_told_nothing() -> None:
    assert not any("IFNAME" in name for name in variables(spec(pod=attached("a@net1")), shape(8)))


@pytest.mark.parametrize(
    ("transport", "devices"), [("TCP", "net1,net2"), ("RDMA", None), ("Auto", None)], ids=["tcp", "rdma", "auto"]
)
def test_kv_goes_over_them_where_it_goes_by_tcp(transport: str, devices: str | None) -> None:
    """Devices of RDMA have names of their own, which such a list would shut out."""
    half = spec(Role.Decode, kv=KVSpec(transport=transport), pod=attached("a@net1,b@net2"))
    for engine in EngineName:
        assert variables(half, shape(2, engine=engine)).get("UCX_NET_DEVICES") == devices


def test_halves_on_other_networks_are_another_generation() -> None:
    before = split().spec
    assert before is not None
    kv, pod = KVSpec(transport="TCP"), attached("a@net1")
    over_tcp = replace(before, prefill=replace(before.prefill, kv=kv), decode=replace(before.decode, kv=kv))
    named = replace(over_tcp, prefill=replace(over_tcp.prefill, pod=pod), decode=replace(over_tcp.decode, pod=pod))
    noted = PodSpec(annotations=(("note", "x"),))
    other = replace(over_tcp, prefill=replace(over_tcp.prefill, pod=noted), decode=over_tcp.decode)
    assert pair_revision(over_tcp, RELEASE) != pair_revision(named, RELEASE)
    assert pair_revision(over_tcp, RELEASE) == pair_revision(other, RELEASE)
    attached_only = replace(before, prefill=replace(before.prefill, pod=pod))
    assert pair_revision(before, RELEASE) == pair_revision(attached_only, RELEASE)
