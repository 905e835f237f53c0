"""What cannot be served is refused by name, and what runs keeps its plan."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.catalog.configs import SHORT_LLAMA
from tests.decide.world import World, pool, pool_spec
from tests.fabric.cluster import board, taint
from weft.catalog import load
from weft.decide.plans.facts import Facts
from weft.decide.plans.planning import Planned, plan_pool
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineName
from weft.domain.spec import (
    Balancing,
    DomainRule,
    EngineSpec,
    ModelSpec,
    PoolSpec,
    RouterKind,
    RouterSpec,
    SchedulerName,
    ShapePins,
)
from weft.domain.workload import Role
from weft.fabric import build_fabric
from weft.fabric.membership import CLIQUE
from weft.render import render_pods

SPEC = pool_spec()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (
            replace(SPEC, role=Role.Prefill, router=RouterSpec(RouterKind.Gateway)),
            "spec.router.type Gateway for a pool of role Prefill",
        ),
        (replace(SPEC, router=RouterSpec(RouterKind.Managed, api_key_secret=("s", "k"))), "router.apiKeySecretRef"),
        (
            replace(
                SPEC,
                placement=replace(SPEC.placement, scheduler=SchedulerName.Kueue, queue="llm", spare_nodes_per_domain=1),
            ),
            "placement.spareNodesPerDomain with scheduler.name Kueue",
        ),
        (replace(SPEC, engine=replace(SPEC.engine, distributed="Ray")), "spec.engine.distributed Ray"),
        (replace(SPEC, kv=replace(SPEC.kv, locality="Required")), "spec.kvTransfer.locality Required"),
        (
            replace(SPEC, balancing=Balancing.MultiPort),
            "spec.shape.dataParallelBalancing MultiPort with spec.router.type None",
        ),
        (
            replace(SPEC, balancing=Balancing.MultiPort, router=RouterSpec(RouterKind.Managed)),
            "spec.shape.dataParallelBalancing MultiPort with spec.router.type Managed",
        ),
        (
            replace(SPEC, balancing=Balancing.Hybrid, engine=EngineSpec(name=EngineName.SGLang)),
            "shape.dataParallelBalancing Hybrid is not supported on SGLang",
        ),
        (
            replace(SPEC, balancing=Balancing.External, engine=EngineSpec(name=EngineName.TensorRTLLM)),
            "shape.dataParallelBalancing External is not supported on TensorRT-LLM",
        ),
        (
            replace(SPEC, role=Role.Decode, placement=replace(SPEC.placement, domain=DomainRule.Preferred)),
            "spec.placement.domain Preferred with role Decode",
        ),
        (replace(SPEC, pod=replace(SPEC.pod, relaxations=("HostNetwork",))), "spec.pod.relaxations HostNetwork"),
    ],
)
def test_a_field_that_cannot_be_served_is_refused_by_name(spec: PoolSpec, words: str) -> None:
    world = World.of([board("b-0")], pool("chat", spec))
    world.turn(2)
    status, reason, message = world.condition("chat", "Planned")
    assert (status, reason) == ("False", "FeatureUnsupported")
    assert words in message
    assert "use " in message or "remove it" in message
    assert world.nodes_of("chat") == []


def test_a_named_engine_is_planned_placed_and_rendered() -> None:
    """TensorRT-LLM, which Auto does not choose."""
    world = World.of([board("b-0")], pool("chat", replace(SPEC, engine=EngineSpec(name=EngineName.TensorRTLLM))))
    world.turn()
    record = world.pools["chat"]
    (pod,) = render_pods(record, record.status.assignments[0])
    container = pod["spec"]["containers"][0]
    assert container["command"][:3] == ["trtllm-serve", "serve", "meta-llama/Llama-3.1-8B-Instruct"]
    assert container["image"] == "nvcr.io/nvidia/tensorrt-llm/release:1.2.1"
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert world.condition("chat", "Planned")[0] == "True"


@pytest.mark.parametrize(
    ("resources", "planned"), [((("cpu", "8"),), "False"), ((("cpu", "8"), ("rdma/hca", "8")), "True")]
)
def test_rdma_without_a_device_is_refused(resources: tuple[tuple[str, str], ...], planned: str) -> None:
    engine = replace(SPEC.engine, resources=resources)
    spec = replace(SPEC, role=Role.Prefill, kv=replace(SPEC.kv, transport="RDMA"), engine=engine)
    world = World.of([board("b-0")], pool("chat", spec))
    world.turn()
    status, _, message = world.condition("chat", "Planned")
    assert status == planned
    assert ("engine.resources.rdma" in message) is (planned == "False")


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu"])
def test_accelerators_are_no_rdma_devices(resource: str) -> None:
    """The shape's count took the place of the pool's, and a half with RDMA alone had no wire."""
    engine = replace(SPEC.engine, resources=((resource, "4"),))
    world = World.of([board("b-0")], pool("chat", replace(SPEC, engine=engine)))
    world.turn()
    status, reason, message = world.condition("chat", "Planned")
    assert (status, reason) == ("False", "SpecInvalid")
    assert f"spec.engine.resources.rdma.resource {resource} is accelerators" in message


def test_the_name_that_a_quota_has_for_rdma_devices_is_refused_as_the_api_server_would() -> None:
    engine = replace(SPEC.engine, resources=(("requests.rdma/hca", "4"),))
    world = World.of([board("b-0")], pool("chat", replace(SPEC, engine=engine)))
    world.turn()
    status, reason, message = world.condition("chat", "Planned")
    assert (status, reason) == ("False", "SpecInvalid")
    assert message.endswith("such as rdma/hca")


@pytest.mark.parametrize("resource", ["kubernetes.io/x", "devices.kubernetes.io/rdma"])
def test_a_resource_of_kubernetes_itself_which_no_device_plugin_may_offer_is_refused(resource: str) -> None:
    engine = replace(SPEC.engine, resources=((resource, "4"),))
    world = World.of([board("b-0")], pool("chat", replace(SPEC, engine=engine)))
    world.turn()
    _, reason, message = world.condition("chat", "Planned")
    assert reason == "SpecInvalid"
    assert message.startswith(f"spec.engine.resources.rdma.resource {resource} is in a domain that Kubernetes keeps")


@pytest.mark.parametrize("beside", [(), (("rdma/hca", "1"),)])
def test_huge_pages_alone_are_refused_as_the_api_server_would(beside: tuple[tuple[str, str], ...]) -> None:
    pages = (*beside, ("hugepages-2Mi", "1024Mi"))
    world = World.of([board("b-0")], pool("chat", replace(SPEC, engine=replace(SPEC.engine, resources=pages))))
    world.turn()
    status, reason, message = world.condition("chat", "Planned")
    assert (status, reason) == ("False", "SpecInvalid")
    assert "huge pages needs memory or cpu beside them" in message


@pytest.mark.parametrize(("size", "fits"), [("1Ki", False), ("16", False), ("64Mi", True), ("3Gi", True)])
def test_shared_memory_is_at_least_what_every_container_has(size: str, *, fits: bool) -> None:
    """A number without its unit is bytes."""
    engine = replace(SPEC.engine, shared_memory=size)
    world = World.of([board("b-0")], pool("chat", replace(SPEC, engine=engine)))
    world.turn()
    status, reason, message = world.condition("chat", "Planned")
    assert (status, reason) == ("True", "ShapeChosen") if fits else ("False", "SpecInvalid")
    assert fits or f"sharedMemory {size} is less than the 64Mi that every container has" in message


def test_an_argument_that_contradicts_the_shape_is_refused_by_name() -> None:
    spec = replace(SPEC, engine=replace(SPEC.engine, args=("--tensor-parallel-size=2",)))
    world = World.of([board("b-0")], pool("chat", spec))
    world.turn()
    assert world.condition("chat", "Planned")[1] == "ArgumentConflict"
    assert "tensorParallel" in world.condition("chat", "Planned")[2]


def test_a_spec_that_is_not_understood_says_why_and_changes_nothing() -> None:
    world = World.of([board("b-0")], pool("chat", SPEC))
    world.turn(5)
    before = world.status("chat")
    problem = Explanation(Reason.SpecInvalid, "spec.slo: no such percentile")
    world.pools["chat"] = replace(world.pools["chat"], spec=None, problem=problem)
    world.turn(3)
    assert world.status("chat") == before
    assert world.condition("chat", "Planned") == ("False", "SpecInvalid", "spec.slo: no such percentile")


def test_a_pool_without_hardware_waits_for_it() -> None:
    world = World.of([], pool("chat", SPEC))
    world.turn(2)
    assert world.condition("chat", "Planned")[0] == "False"
    world.nodes.append(board("b-0"))
    world.turn()
    assert world.nodes_of("chat") == [("b-0",)]


def test_a_pool_kept_off_every_node_is_told_what_is_there_and_what_keeps_it_off() -> None:
    reserved = replace(board("b-0"), taints=(taint("reserved", "research"),))
    world = World.of([reserved], pool("chat", SPEC))
    world.turn()
    _, reason, message = world.condition("chat", "Planned")
    assert reason == "NoAccelerator"
    assert "the cluster has H200; node b-0 has the taint reserved=research:NoSchedule" in message


def test_a_cluster_whose_labels_name_nothing_known_is_told_by_its_labels() -> None:
    unknown = replace(board("b-0"), labels=(("nvidia.com/gpu.product", "NVIDIA-H2000"),))
    world = World.of([unknown], pool("chat", SPEC))
    world.turn()
    _, reason, message = world.condition("chat", "Planned")
    assert reason == "NoAccelerator"
    assert "the cluster has none; node b-0 has 'NVIDIA-H2000', which the catalog does not know" in message


def test_an_accelerator_that_nobody_knows_needs_an_edit_and_not_hardware() -> None:
    misspelt = replace(SPEC, placement=replace(SPEC.placement, accelerators=("H200", "GB20")))
    world = World.of([board("b-0")], pool("chat", misspelt))
    world.turn()
    _, reason, message = world.condition("chat", "Planned")
    assert reason == "SpecInvalid"
    assert message.startswith("spec.placement.accelerators: accelerator 'GB20' is not in the catalog, perhaps GB200")


def test_prompts_beyond_the_models_context_are_refused_by_name_and_recover_by_an_edit() -> None:
    world = World.of([board("b-0")], pool("chat", SPEC))
    world.turn(2)
    before = world.status("chat").assignments
    world.edit("chat", replace(SPEC, workload=replace(SPEC.workload, input_tokens=200_000)))
    world.turn()
    status, reason, message = world.condition("chat", "Planned")
    assert (status, reason) == ("False", "ContextExceeded")
    assert message.startswith("spec.workload.inputTokens.mean 200000: ")
    assert "takes 131072 tokens, prompt and answer together; allowed: up to 131071" in message
    assert world.status("chat").assignments == before
    world.edit("chat", SPEC)
    world.turn()
    assert world.condition("chat", "Planned")[0] == "True"


def test_the_case_of_an_accelerators_name_does_not_matter() -> None:
    world = World.of([board("b-0")], pool("chat", pool_spec(accelerator="h200")))
    world.turn()
    assert world.nodes_of("chat") == [("b-0",)]


@pytest.mark.parametrize("state", ["not-ready", "unschedulable", "unreachable", "memory-pressure"])
def test_a_node_that_will_be_back_keeps_the_plan_and_holds_the_placement(state: str) -> None:
    """Kubernetes taints the only board while it is away: what to run stays known, only the place is missing."""
    away = replace(board("b-0"), taints=(taint(f"node.kubernetes.io/{state}"),))
    world = World.of([away], pool("chat", SPEC))
    world.turn()
    assert world.condition("chat", "Planned")[0] == "True"
    assert world.condition("chat", "Placed")[0] == "False"
    assert state in world.condition("chat", "Placed")[2]
    world.nodes = [board("b-0")]
    world.turn()
    assert world.nodes_of("chat") == [("b-0",)]


def test_the_release_in_status_outlives_an_operator_with_newer_defaults() -> None:
    world = World.of([board("b-0")], pool("chat", SPEC))
    older = load().release(EngineName.VLLM, "0.20.0", "nvidia")
    world.pools["chat"] = replace(world.pools["chat"], status=replace(world.pools["chat"].status, engine=older))
    world.turn()
    assert world.status("chat").engine == older


def test_scaling_and_rollout_settings_roll_nothing() -> None:
    world = World.of([board("b-0")], pool("chat", SPEC))
    world.turn(5)
    revision = world.status("chat").revision
    world.edit("chat", replace(SPEC, rollout=replace(SPEC.rollout, max_surge=3)))
    world.turn()
    assert world.status("chat").revision == revision


def test_a_pool_waits_for_the_config_map_of_its_model_and_starts_by_itself() -> None:
    named = replace(SPEC, model=ModelSpec("acme/secret", config_map=("secret", "config.json")))
    world = World.of([board("b-0")], pool("chat", named))
    world.turn()
    assert world.condition("chat", "Planned")[:2] == ("False", "ModelConfigMissing")
    record = world.pools["chat"]
    world.pools["chat"] = replace(
        record, spec=replace(named, model=replace(named.model, config_json=json.dumps(SHORT_LLAMA)))
    )
    world.turn()
    assert world.nodes_of("chat") == [("b-0",)]


@pytest.mark.timeout(30)
def test_a_node_that_claims_more_gpus_than_there_are_in_the_world_stops_nobody() -> None:
    """Anybody who may write the status of a node may do so; the pool goes to the board that there can be."""
    absurd = (board("b-0", 2**62), board("b-1", 2**62))
    told = {CLIQUE: "x", "nvidia.com/gpu.count": str(2**62)}  # else they would be parts of GPUs
    joined = [replace(each, labels=tuple(sorted({**dict(each.labels), **told}.items()))) for each in absurd]
    world = World.of([*joined, board("c-0")], pool("chat", replace(pool_spec(1), shape=ShapePins())))
    world.decide()
    assert world.nodes_of("chat") == [("c-0",)]


def test_traffic_that_no_shape_can_serve_does_not_stop_a_pool() -> None:
    """It counts with what is declared: a capacity of nothing would hold it as it is for ever."""
    world = World.of([board("b-0")], pool("chat", SPEC))
    facts = Facts(build_fabric(world.nodes, (), load()), load())
    live = replace(SPEC.workload, input_tokens=1e9, input_tokens_p95=1e9)
    planned = plan_pool(world.pools["chat"], facts, live)
    assert isinstance(planned, Planned)
    assert planned.capacity.alone == planned.plan.prediction.capacity > 0.0
