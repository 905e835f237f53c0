"""What is rendered and converged, before a real API server: accepted under `restricted`, and at rest after one pass."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from tests.converge.test_objects import FRONTED
from tests.converge.test_split import DECODE, DUO, PREFILL
from tests.eventually import eventually
from tests.neighbours import install_neighbours
from tests.render.pools import LLAMA, RELEASE
from tests.render.shapes import SHAPES
from tests.render.test_gateway import FULL, PLAIN
from tests.render.test_gateway import objects as routing
from weft.api import crds, parse_pool, parse_split
from weft.apply import Sender, TokenBucket, Writer
from weft.apply.kinds import plural_of
from weft.apply.sending import APPLY_PATCH, ApiRequest, object_path
from weft.converge import Convergence, converge_split
from weft.converge.objects import ObjectsAround
from weft.domain import labels
from weft.domain.action import ApplyObject, UnroutePod
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.snapshot import ResourceKey
from weft.domain.spec import RouterKind, RouterSpec
from weft.domain.status import SplitStatus
from weft.observe.objects.records import read_object, read_pod
from weft.render import (
    ENDPOINTS,
    FrontSpec,
    has_all_of,
    pair_of,
    render_compute_domain,
    render_disruption_budget,
    render_front,
    render_front_budgets,
    render_pods,
    render_ranks_service,
    render_service,
    render_shared_domain,
    render_split_service,
    shared_domain_name,
    split_labels,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.control_plane import ControlPlane
    from weft.domain.spec import GatewaySpec
    from weft.domain.status import SplitProgress

Json = dict[str, Any]
NAMESPACE = "converge"
STRICT = (("fieldValidation", "Strict"),)
MERGE = "application/merge-patch+json"
POOLS = (labels.API_VERSION, "inferencepools")
ROUTER = RouterSpec(RouterKind.Managed, replicas=2, resources=(("cpu", "1"), ("memory", "1Gi")))
RELAXED = "prefill-rdma-relaxed"
WIDE = SHAPES["two-pods-tp16"]
PAIRED = FrontSpec((PREFILL.key, DECODE.key), 2, 300.0, pair_of(DUO))
OBJECTS = {
    "service": render_service(WIDE),
    "ranks": render_ranks_service(WIDE),
    "budget": render_disruption_budget(WIDE),
    "split service": render_split_service(DUO, paired=False),
    "compute domain": render_compute_domain(SHAPES["compute-domain"], 3),
    "compute domain of a split": render_shared_domain(DUO, shared_domain_name("duo", DUO.key.uid, pair_of(DUO))),
    "front of a pool": render_front(FRONTED.key, RELEASE.name, ROUTER, FrontSpec((FRONTED.key,), 1, 300.0), {}),
    "front of a pair": render_front(DUO.key, RELEASE.name, ROUTER, PAIRED, split_labels(DUO)),
    "front of a pair of TensorRT-LLM": render_front(
        DUO.key, EngineName.TensorRTLLM, ROUTER, replace(PAIRED, engine_image="example.org/engine:1"), split_labels(DUO)
    ),
    **{f"{body['kind']} to {each.picker_port}": body for each in (PLAIN, FULL) for body in routing(each)},
    "budget of a front": render_front_budgets(
        DUO.key, [render_front(DUO.key, RELEASE.name, ROUTER, PAIRED, split_labels(DUO))], split_labels(DUO)
    )[0],
}


@pytest.fixture(scope="module")
def sender(control_plane: ControlPlane) -> Iterator[Sender]:
    """A namespace that enforces `restricted`, with what the recorded pods name, and both definitions."""
    with control_plane.api_client() as api:
        found = Sender(api, TokenBucket(per_second=1000))
        enforced = {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}
        created = [
            ("/api/v1/namespaces", {"metadata": enforced}),
            (f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "engines"}}),
            (f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}}),
            ("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "high"}, "value": 7}),
            ("/apis/node.k8s.io/v1/runtimeclasses", {"metadata": {"name": "nvidia"}, "handler": "nvidia"}),
            *(("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition) for definition in crds()),
        ]
        for path, body in created:
            assert found.send(ApiRequest("POST", path, (), body)).status in {201, 409}, path
        install_neighbours(api)
        for plural in ("inferencepools", "pdsplits"):
            eventually(partial(_served, found, plural), seconds=30)
        yield found


def _served(sender: Sender, plural: str) -> None:
    assert sender.get(object_path(labels.API_VERSION, plural, NAMESPACE)).ok


def refusal(sender: Sender, body: Json, namespace: str = NAMESPACE) -> str | None:
    """Why the API server would not take an object, read strictly; None when it would."""
    path = object_path(body["apiVersion"], plural_of(body["apiVersion"], body["kind"]), namespace)
    answer = sender.send(ApiRequest("POST", path, (("dryRun", "All"), *STRICT), moved(body, namespace)))
    return None if answer.ok else answer.message


def moved(body: Json, namespace: str = NAMESPACE) -> Json:
    """The same object in the namespace of these tests."""
    return {**body, "metadata": {**body["metadata"], "namespace": namespace}}


@pytest.mark.parametrize("name", [name for name in SHAPES if name != RELAXED])
def test_every_recorded_pod_is_accepted_where_restricted_is_enforced(sender: Sender, name: str) -> None:
    """F24."""
    record = SHAPES[name]
    assigned = record.status.assignments[0]
    assert [None] * assigned.pods == [refusal(sender, body) for body in render_pods(record, assigned)]


@pytest.mark.parametrize(
    ("level", "words"),
    [
        ("restricted", ("IPC_LOCK", "runAsNonRoot=false", "runAsUser=0")),
        ("baseline", ("IPC_LOCK",)),
        ("privileged", ()),
    ],
)
def test_what_was_allowed_to_lock_memory_takes_a_namespace_that_allows_it_too(
    sender: Sender, level: str, words: tuple[str, ...]
) -> None:
    """SECURITY.md says which level refuses what."""
    namespace = f"{NAMESPACE}-{level}"
    metadata = {"name": namespace, "labels": {"pod-security.kubernetes.io/enforce": level}}
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    for path, body in (
        ("/api/v1/namespaces", {"metadata": metadata}),
        (accounts, {"metadata": {"name": "default"}}),
    ):
        assert sender.send(ApiRequest("POST", path, (), body)).status in {201, 409}, path
    record = SHAPES[RELAXED]
    (body,) = render_pods(record, record.status.assignments[0])
    said = refusal(sender, body, namespace)
    assert (said is None) is (level == "privileged")
    for each in ("IPC_LOCK", "runAsNonRoot=false", "runAsUser=0"):
        assert (each in (said or "")) is (each in words)


@pytest.mark.parametrize("name", OBJECTS)
def test_every_other_object_is_accepted(sender: Sender, name: str) -> None:
    assert refusal(sender, OBJECTS[name]) is None


def test_a_front_that_is_there_may_come_to_choose_one_engine_alone_and_a_service_one_front(sender: Sender) -> None:
    """ADR 0064: the selector of a Deployment never changes, that of a Service is one value, whatever it was."""
    plain, writer = FrontSpec((FRONTED.key,), 1, 300.0), Writer(sender, [NAMESPACE], lambda _kind, _verb: None)
    alone = replace(plain, alone=True)
    beside = render_front(FRONTED.key, EngineName.SGLang, ROUTER, replace(alone, beside=True), {})
    path = object_path("v1", "services", NAMESPACE)
    for fronts, only in (
        ([render_front(FRONTED.key, EngineName.VLLM, ROUTER, plain, {})], {}),
        ([render_front(FRONTED.key, EngineName.VLLM, ROUTER, alone, {}), beside], {labels.ROUTED: "true"}),
        ([beside], {labels.ENGINE: "sglang"}),
        ([beside], {}),
    ):
        for body in (render_service(FRONTED, only), *fronts):
            ownerless = {key: each for key, each in body["metadata"].items() if key != "ownerReferences"}
            writer.carry_out(ApplyObject(moved({**body, "metadata": ownerless})))
        found = sender.get(f"{path}/{FRONTED.key.name}").body["spec"]["selector"]
        assert found == {labels.FRONT_OF: FRONTED.key.uid, **only}


def test_what_a_compute_domain_asks_for_cannot_be_changed(sender: Sender) -> None:
    """So one that is there is never patched: it would only be refused.

    It goes without an owner: the garbage collector deletes what is owned by a pool that there is not.
    """
    body = render_compute_domain(SHAPES["compute-domain"], 4)
    path = object_path(body["apiVersion"], "computedomains", NAMESPACE)
    orphan = {**body, "metadata": {key: each for key, each in body["metadata"].items() if key != "ownerReferences"}}
    assert sender.send(ApiRequest("POST", path, STRICT, moved(orphan))).ok
    other = {"spec": {"channel": {"resourceClaimTemplate": {"name": "other"}}}}
    answer = sender.send(ApiRequest("PATCH", f"{path}/{body['metadata']['name']}", (), other, MERGE))
    assert "spec is immutable" in answer.message
    assert refusal(sender, {**body, "spec": {"numNodes": -1, "channel": {}}}) is not None


@pytest.mark.parametrize("gateway", [PLAIN, FULL], ids=["plain", "full"])
def test_what_a_gateway_routes_by_is_at_rest_once_applied(sender: Sender, gateway: GatewaySpec) -> None:
    """L3: what the definitions fill in is no difference. It goes without an owner, as above."""
    for body in routing(gateway):
        orphan = {**body, "metadata": {key: each for key, each in body["metadata"].items() if key != "ownerReferences"}}
        path = object_path(body["apiVersion"], plural_of(body["apiVersion"], body["kind"]), NAMESPACE, "chat")
        query = (("fieldManager", labels.CONVERGE_MANAGER), ("force", "true"), *STRICT)
        answer = sender.send(ApiRequest("PATCH", path, query, moved(orphan), APPLY_PATCH))
        assert answer.ok, answer.message
        assert has_all_of(sender.get(path).body, moved(orphan))


def test_a_label_of_others_in_the_selector_of_endpoints_outlives_an_apply_and_no_step_before(sender: Sender) -> None:
    """L3: each of its labels has an owner, as the published definition says."""
    body = moved(next(each for each in routing(PLAIN) if (each["apiVersion"], each["kind"]) == ENDPOINTS))
    body["metadata"] = {**body["metadata"], "name": "labelled", "ownerReferences": []}
    path = object_path(body["apiVersion"], "inferencepools", NAMESPACE, "labelled")
    around = ResourceKey("InferencePool", NAMESPACE, "labelled", "u1")
    writer = Writer(sender, [NAMESPACE], lambda _kind, _verb: None)
    writer.carry_out(ApplyObject(body))
    added = {"spec": {"selector": {"matchLabels": {"app": "other"}}}}
    assert sender.send(ApiRequest("PATCH", path, (("fieldManager", "somebody"),), added, MERGE)).ok
    writer.carry_out(ApplyObject(body))
    assert "app" in sender.get(path).body["spec"]["selector"]["matchLabels"]
    (put_back,) = ObjectsAround.of(around, [replace(read_object(sender.get(path).body), owner_uid="u1")]).apply([body])
    writer.carry_out(put_back)
    assert sender.get(path).body["spec"]["selector"] == body["spec"]["selector"]


def test_the_pods_of_a_front_are_accepted_where_restricted_is_enforced(sender: Sender) -> None:
    """The Deployment would be accepted anyway; its pods would not."""
    template = OBJECTS["front of a pair"]["spec"]["template"]
    pod = {**template["spec"], "serviceAccountName": "default"}
    meta = {"name": "front", "labels": template["metadata"]["labels"]}
    assert refusal(sender, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod}) is None


def test_a_pod_leaves_its_front_unless_another_has_its_name_now(sender: Sender) -> None:
    """S3: the API server compares the UID; when it left is kept on the pod, and read back."""
    record = SHAPES["aggregated-tp1"]
    (body,) = render_pods(record, record.status.assignments[0])
    pods = object_path("v1", "pods", NAMESPACE)
    orphan = {key: each for key, each in body["metadata"].items() if key not in {"ownerReferences", "annotations"}}
    made = sender.send(ApiRequest("POST", pods, STRICT, moved({**body, "metadata": orphan}))).body["metadata"]
    writer = Writer(sender, [NAMESPACE], lambda _kind, _verb: None)
    writer.carry_out(UnroutePod(NAMESPACE, made["name"], "another", 1_790_000_000.0))
    assert sender.get(f"{pods}/{made['name']}").body["metadata"]["labels"] == made["labels"]
    writer.carry_out(UnroutePod(NAMESPACE, made["name"], made["uid"], 1_790_000_000.0))
    left = sender.get(f"{pods}/{made['name']}").body
    seen = read_pod({**left, "metadata": {**left["metadata"], "ownerReferences": body["metadata"]["ownerReferences"]}})
    assert seen is not None
    assert (seen.routed, seen.unrouted) == (False, 1_790_000_000.0)


class Duo:
    """A PDSplit on the API server and passes over it with the real writer."""

    def __init__(self, sender: Sender, name: str, mode: str) -> None:
        self.sender = sender
        self.name = name
        self.path = object_path(labels.API_VERSION, "pdsplits", NAMESPACE)
        engine = {"name": "VLLM", "args": ["--enforce-eager"], "env": [{"name": "A", "value": "1"}]}
        body = {
            "apiVersion": labels.API_VERSION,
            "kind": "PDSplit",
            "metadata": {"name": name},
            "spec": {"model": {"id": LLAMA}, "engine": engine, "router": {"type": "None"}, "scaling": {"mode": mode}},
        }
        answer = sender.send(ApiRequest("POST", self.path, (), body))
        assert answer.ok, answer.message

    def look(self) -> Convergence[SplitProgress]:
        body = self.sender.get(f"{self.path}/{self.name}").body
        split = replace(parse_split(body), status=SplitStatus(RELEASE))
        assert split.problem is None
        listed = self.sender.get(object_path(*POOLS, NAMESPACE)).body["items"]
        bodies = [{"apiVersion": labels.API_VERSION, "kind": "InferencePool", **item} for item in listed]
        return converge_split(
            split, [parse_pool(each) for each in bodies], [read_object(each) for each in bodies], (), 0.0
        )

    def converge(self) -> Convergence[SplitProgress]:
        seen = self.look()
        writer = Writer(self.sender, [NAMESPACE], lambda _kind, _verb: None)
        for action in seen.actions:
            writer.carry_out(action)
        return seen

    def child(self, side: str = "decode") -> Json:
        spec: Json = self.sender.get(object_path(*POOLS, NAMESPACE, f"{self.name}-{side}")).body["spec"]
        return spec

    def edit(self, patch: Json, subresource: str = "", side: str = "decode") -> None:
        path = object_path(*POOLS, NAMESPACE, f"{self.name}-{side}", subresource)
        query = (("fieldManager", "somebody"),)
        answer = self.sender.send(ApiRequest("PATCH", path, query, patch, MERGE))
        assert answer.ok, answer.message

    def edit_split(self, spec: Json) -> None:
        path = f"{self.path}/{self.name}"
        answer = self.sender.send(ApiRequest("PATCH", path, (), {"spec": spec}, MERGE))
        assert answer.ok, answer.message


@pytest.mark.parametrize("mode", ["Auto", "External"])
def test_a_split_comes_to_rest_after_one_pass(sender: Sender, mode: str) -> None:
    """L3: whatever the API server fills in is no difference."""
    duo = Duo(sender, f"rest-{mode.lower()}", mode)
    assert duo.converge().actions
    assert duo.look().actions == ()


EDITS = {
    "shape": {"shape": {"tensorParallel": 8}},
    "args": {"engine": {"args": ["--other"]}},
    "env": {"engine": {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}},
    "bounds": {"scaling": {"maxReplicas": 99, "maxStep": 3}},
    "mode": {"scaling": {"mode": "External", "replicas": 3}},
    "names": {"model": {"servedNames": ["other"]}},
}


@pytest.mark.parametrize("edit", EDITS)
def test_any_edit_of_a_child_is_put_back_in_one_pass(sender: Sender, edit: str) -> None:
    duo = Duo(sender, f"edit-{edit}", "Auto")
    duo.converge()
    before = duo.child()
    duo.edit({"spec": EDITS[edit]})
    assert duo.child() != before
    assert [event.reason for event in duo.converge().events] == [Reason.ChildReverted]
    assert duo.child() == before
    assert duo.look().actions == ()


def test_a_count_set_through_scale_stays(sender: Sender) -> None:
    duo = Duo(sender, "scaled", "External")
    duo.converge()
    assert duo.child()["scaling"]["replicas"] == 1
    duo.edit({"spec": {"replicas": 4}}, "scale")
    duo.edit_split({"engine": {"args": ["--other"]}})
    duo.converge()
    assert duo.child()["scaling"]["replicas"] == 4
    assert duo.child()["engine"]["args"] == ["--other"]
    assert duo.look().actions == ()


def test_a_count_changes_hands_both_ways(sender: Sender) -> None:
    """Also from an owner that is not us."""
    duo = Duo(sender, "hands", "External")
    duo.converge()
    duo.edit({"spec": {"replicas": 4}}, "scale")
    duo.edit_split({"scaling": {"mode": "Auto"}})
    duo.converge()
    assert duo.child()["scaling"]["mode"] == "Auto"
    assert "replicas" not in duo.child()["scaling"]
    assert duo.look().actions == ()
    duo.edit_split({"scaling": {"mode": "External"}})
    duo.converge()
    assert duo.child()["scaling"]["replicas"] == 1
    assert duo.look().actions == ()


def test_a_wish_that_is_taken_back_leaves_the_children(sender: Sender) -> None:
    """F6: what we applied ourselves goes away without an event."""
    duo = Duo(sender, "back", "Auto")
    duo.edit_split({"shape": {"tensorParallel": 2}})
    duo.converge()
    assert duo.child()["shape"] == {"tensorParallel": 2}
    duo.edit_split({"shape": None})
    assert duo.converge().events == ()
    assert "shape" not in duo.child()
    assert duo.look().actions == ()


def test_both_children_name_one_release(sender: Sender) -> None:
    duo = Duo(sender, "same", "Auto")
    duo.converge()
    versions = {duo.child(side)["engine"]["version"] for side in ("prefill", "decode")}
    assert versions == {RELEASE.version}
