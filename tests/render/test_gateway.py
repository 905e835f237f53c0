"""What a Gateway routes by: as recorded, valid by the published schemas, and on the pods what pickers read."""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.render.pools import behind_a_gateway, plan, pool, shape, spec
from tests.render.shapes import SHAPES
from tests.structural import faults
from weft.domain import labels
from weft.domain.shape import EngineName
from weft.domain.snapshot import ResourceKey
from weft.domain.spec import EngineSpec, GatewayParent, GatewaySpec, PodSpec, RouterKind, RouterSpec
from weft.domain.workload import Role
from weft.render import (
    SIDECAR_CONTAINER,
    SIDECAR_PORT,
    paired_selector,
    pool_labels,
    render_endpoints,
    render_pods,
    render_route,
    revision,
    routed_selector,
)

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord

GOLDEN = Path(__file__).parent / "golden"
DEFINITIONS = Path(__file__).parents[1] / "gateway_crds.yaml"
SCHEMAS = {
    body["spec"]["names"]["kind"]: body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for body in yaml.safe_load_all(DEFINITIONS.read_text())
}
LISTENER = GatewayParent("gateway.networking.k8s.io", "Gateway", "edge", "infra", "https", 443)
PLAIN = GatewaySpec((GatewayParent("gateway.networking.k8s.io", "Gateway", "edge"),), "picker", 9002)
FULL = GatewaySpec((LISTENER, replace(LISTENER, name="inner")), "picker", 9003, ("chat.example.com", "*.example.org"))
ENGINES = (
    (EngineName.VLLM, "vllm", 8000),
    (EngineName.SGLang, "sglang", 30000),
    (EngineName.TensorRTLLM, "trtllm-serve", 8000),
)


def routed(gateway: GatewaySpec, engine: EngineName = EngineName.VLLM, pods: PodSpec | None = None) -> PoolRecord:
    router = RouterSpec(RouterKind.Gateway, gateway=gateway)
    return pool(spec(router=router, pod=pods or PodSpec()), plan(shape(engine=engine)), ("node-a",))


def objects(gateway: GatewaySpec, port: int = 8000) -> list[dict[str, Any]]:
    record = routed(gateway)
    tags = pool_labels(record)
    endpoints = render_endpoints(record.key, tags, routed_selector(record.key), (port,), gateway)
    return [endpoints, render_route(record.key, tags, gateway)]


@pytest.mark.parametrize(("name", "gateway"), [("gateway", PLAIN), ("gateway-full", FULL)])
def test_objects_are_as_recorded(name: str, gateway: GatewaySpec) -> None:
    """`WEFT_GOLDEN=write` records them."""
    path = GOLDEN / f"{name}.yaml"
    actual = yaml.safe_dump_all(objects(gateway), sort_keys=False, width=120)
    if os.environ.get("WEFT_GOLDEN") == "write":
        path.write_text(actual)
    assert path.read_text() == actual


@pytest.mark.parametrize("gateway", [PLAIN, FULL])
def test_objects_are_valid_by_the_published_schemas(gateway: GatewaySpec) -> None:
    assert [faults(SCHEMAS[body["kind"]], body) for body in objects(gateway)] == [[], []]


@pytest.mark.parametrize(
    ("path", "value", "fault"),
    [
        (("spec", "targetPorts"), [], "/spec/targetPorts: 0 is out of bounds"),
        (("spec", "targetPorts"), [{"number": 70000}], "/spec/targetPorts/0/number: 70000 is out of bounds"),
        (("spec", "selector"), {"app": "x"}, "/spec/selector/matchLabels: is missing"),
        (("spec", "selector", "matchLabels", "a"), "not a label", "/spec/selector/matchLabels/a: not a label does not"),
        (("spec", "endpointPickerRef", "failureMode"), "Fail", "/spec/endpointPickerRef/failureMode: Fail is not in"),
        (("spec", "extensionRef"), {"name": "picker"}, "/spec/extensionRef: is unknown"),
        (("spec", "targetPorts"), {"number": 1}, "/spec/targetPorts: is no array"),
    ],
)
def test_the_schemas_would_notice(path: tuple[str, ...], value: object, fault: str) -> None:
    """A field of the alpha versions, a port that is none, a selector as Services have it: each is found by its path."""
    body = copy.deepcopy(objects(PLAIN)[0])
    inside = body
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    assert any(found.startswith(fault) for found in faults(SCHEMAS["InferencePool"], body))


def test_the_route_leads_to_the_pool_of_endpoints() -> None:
    endpoints, route = objects(PLAIN)
    group, _, _ = endpoints["apiVersion"].partition("/")
    backend = route["spec"]["rules"][0]["backendRefs"][0]
    named = (endpoints["kind"], endpoints["metadata"]["name"])
    assert (group, *named) == (backend["group"], backend["kind"], backend["name"])


@pytest.mark.parametrize(("engine", "word", "port"), ENGINES)
def test_the_selector_finds_first_pods_and_what_pickers_read(engine: EngineName, word: str, port: int) -> None:
    record = routed(PLAIN, engine)
    (body,) = render_pods(record, record.status.assignments[0])
    found = body["metadata"]["labels"]
    selector = objects(PLAIN)[0]["spec"]["selector"]["matchLabels"]
    assert selector.items() <= found.items()
    assert selector[labels.ROUTED] == "true"
    read = ("llm-d.ai/role", "llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type")
    assert [found[key] for key in read] == ["both", word, word]
    ports = {each["name"]: each["containerPort"] for each in body["spec"]["containers"][0]["ports"]}
    assert ports["http"] == port


def test_a_label_of_the_user_wins() -> None:
    record = routed(PLAIN, pods=PodSpec(labels=(("llm-d.ai/role", "decode"),)))
    (body,) = render_pods(record, record.status.assignments[0])
    assert body["metadata"]["labels"]["llm-d.ai/role"] == "decode"


def test_only_engines_that_pickers_must_be_told_of_roll_for_a_gateway() -> None:
    """Pods without these labels count as vLLM that does everything, so vLLM keeps running."""
    after = spec(router=RouterSpec(RouterKind.Gateway, gateway=PLAIN))
    chosen = {engine: plan(shape(engine=engine)) for engine in EngineName}
    rolling = {engine for engine, each in chosen.items() if revision(spec(), each) != revision(after, each)}
    assert rolling == {EngineName.SGLang, EngineName.TensorRTLLM}


HALVES = ("prefill-at-a-gateway-two-pods", "decode-at-a-gateway")


def selected(paired: bool) -> dict[str, str]:  # noqa: FBT001 - a case
    split = ResourceKey("PDSplit", "team", "chat", "5f00")
    return dict(paired_selector(split, "0a1b2c3d4e", every_pod=False, paired=paired))


@pytest.mark.parametrize("name", HALVES)
def test_one_selector_finds_the_first_pods_of_both_halves(name: str) -> None:
    record = SHAPES[name]
    first, *others = render_pods(record, record.status.assignments[0])
    assert selected(paired=True).items() <= first["metadata"]["labels"].items()
    assert not any(selected(paired=True).items() <= pod["metadata"]["labels"].items() for pod in others)
    assert not selected(paired=False).items() <= first["metadata"]["labels"].items()
    assert first["metadata"]["labels"]["llm-d.ai/role"] == name.partition("-")[0]


@pytest.mark.parametrize("name", HALVES)
def test_what_a_picker_sends_requests_to_stays_until_the_engine_has_ended(name: str) -> None:
    """A native sidecar: it is there before the engine, and told to end after it."""
    record = SHAPES[name]
    first, *others = render_pods(record, record.status.assignments[0])
    *before, sidecar = first["spec"]["initContainers"]
    assert all("restartPolicy" not in each for each in before)
    assert (sidecar["name"], sidecar["restartPolicy"]) == (SIDECAR_CONTAINER, "Always")
    assert [each["containerPort"] for each in sidecar["ports"]] == [SIDECAR_PORT]
    (engine,) = (each["containerPort"] for each in first["spec"]["containers"][0]["ports"] if each["name"] == "http")
    assert f"--vllm-port={engine}" in sidecar["args"]
    names = [each["name"] for pod in others for each in pod["spec"].get("initContainers", ())]
    assert SIDECAR_CONTAINER not in names


def test_a_sidecar_has_the_image_and_the_resources_of_the_router() -> None:
    plain, own = (
        behind_a_gateway(pool(spec(Role.Decode), plan(), ("node-a",)), **router)
        for router in ({}, {"image": "registry.example/sidecar:1", "resources": (("cpu", "2"), ("memory", "1Gi"))})
    )
    (pod,) = render_pods(own, own.status.assignments[0])
    sidecar = pod["spec"]["initContainers"][-1]
    assert sidecar["image"] == "registry.example/sidecar:1"
    assert sidecar["resources"] == {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    assert plain.status.revision != own.status.revision


def test_a_half_rolls_for_a_gateway_and_not_for_another_one() -> None:
    """Its pods get a sidecar then; which Gateway there is, and which picker, is in no pod."""
    chosen = plan()
    half = behind_a_gateway(pool(spec(Role.Decode), chosen, ("node-a",))).spec
    assert half is not None
    elsewhere = replace(half, router=RouterSpec(RouterKind.Gateway, gateway=FULL))
    assert revision(replace(half, router=RouterSpec()), chosen) != revision(half, chosen)
    assert revision(half, chosen) == revision(elsewhere, chosen)


def test_placement_counts_what_the_sidecar_asks_for_beside_the_engine() -> None:
    engine = EngineSpec(resources=(("cpu", "15500m"), ("rdma/hca", "1")))
    asked = (("cpu", "500m"), ("memory", "1Gi"))
    half = behind_a_gateway(pool(spec(Role.Decode, engine=engine), plan(), ("node-a",)), resources=asked).spec
    assert half is not None
    assert dict(half.pod_needs) == {"cpu": "16", "rdma/hca": "1", "memory": str(2**30)}
    assert replace(half, router=RouterSpec(resources=asked)).pod_needs == engine.resources
