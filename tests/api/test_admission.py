"""Both resources on the real API server: what is wrong is refused in words, what is right comes back unchanged."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from tests.api.cases import WRONG, WrongInput, resource
from tests.api.decisions import DECISIONS
from tests.api.full import FULL_POOLS
from tests.api.strategies import specs
from weft.api import converge_status, crds, parse_pool, parse_split, pool_status
from weft.api.pool import InferencePoolSpec
from weft.api.split import PDSplitSpec
from weft.domain.labels import CONVERGE_MANAGER, DECIDE_MANAGER
from weft.domain.reasons import Explanation, Reason
from weft.domain.status import Condition, PoolProgress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api.server import Server
    from weft.api.rules import ApiModel
    from weft.domain.decision import PoolDecision

Json = dict[str, Any]

NOW = 1782892800.0
DRY_RUN = [("fieldValidation", "Strict"), ("dryRun", "All")]
WARN = [("fieldValidation", "Warn")]
EXTERNAL = {"scaling": {"mode": "External", "replicas": 1}}
EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
MODELS: dict[str, type[ApiModel]] = {"InferencePool": InferencePoolSpec, "PDSplit": PDSplitSpec}

on_the_server = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.title)
def test_a_wrong_spec_is_refused_with_the_field_and_what_is_allowed(server: Server, case: WrongInput) -> None:
    server.create(resource(case.kind, "wrong", case.spec)).expect_refused(*case.server)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("InferencePool", "a" * 46),
        ("InferencePool", "chat.eu"),
        ("InferencePool", "8b-chat"),
        ("PDSplit", "a" * 38),
    ],
)
def test_a_name_that_leaves_no_room_for_ours_is_refused(server: Server, kind: str, name: str) -> None:
    longest = "45 characters" if kind == "InferencePool" else "37 characters"
    server.create(resource(kind, name, {})).expect_refused("metadata.name must be a DNS label", longest)


def test_the_longest_names_are_taken(server: Server) -> None:
    server.create(resource("InferencePool", "a" * 45, {})).expect_taken()
    server.create(resource("PDSplit", "a" * 37, {})).expect_taken()


def test_the_role_never_changes(server: Server) -> None:
    server.create(resource("InferencePool", "chat", {})).expect_taken()
    server.merge("InferencePool", "chat", {"spec": {"role": "Decode"}}).expect_refused("spec.role", "role is immutable")


def test_a_spec_is_required(server: Server) -> None:
    body = resource("InferencePool", "chat", {})
    del body["spec"]
    server.create(body).expect_refused("spec", "Required value")


def test_an_unknown_field_is_warned_about_where_validation_is_not_strict(server: Server) -> None:
    answer = server.create(resource("InferencePool", "chat", {"scaling": {"minReplica": 2}}), WARN)

    assert "minReplica" not in answer.expect_taken()["spec"]["scaling"]
    assert 'unknown field "spec.scaling.minReplica"' in answer.warnings.replace("\\", "")


def test_a_bad_resource_that_is_corrected_is_taken(server: Server) -> None:
    server.create(resource("InferencePool", "chat", {"scaling": {"maxReplicas": 0}})).expect_refused("maxReplicas")
    body = server.create(resource("InferencePool", "chat", {"scaling": {"maxReplicas": 3}})).expect_taken()
    assert parse_pool(body).problem is None


def test_defaults_are_visible(server: Server) -> None:
    assert server.create(resource("InferencePool", "chat", {})).expect_taken()["spec"] == {
        "role": "Aggregated",
        "model": {"id": "example/model"},
        "engine": {"name": "Auto", "distributed": "Native"},
        "workload": {
            "requestsPerSecond": 1,
            "inputTokens": {"mean": 1024},
            "outputTokens": {"mean": 256},
            "prefixHitPercent": 0,
            "arrivalVariationPercent": 100,
        },
        "placement": {
            "domain": "Required",
            "spread": "Domain",
            "spareNodesPerDomain": 0,
            "scheduler": {"name": "Default"},
        },
        "scaling": {
            "mode": "Auto",
            "minReplicas": 1,
            "maxReplicas": 10,
            "scaleDownDelay": "5m",
            "headroomPercent": 10,
            "riskPercent": 10,
        },
        "rollout": {
            "strategy": "Surge",
            "maxSurge": 1,
            "minReadySeconds": 30,
            "maxUnavailable": 0,
            "paused": False,
            "drainTimeout": "300s",
        },
        "router": {"type": "None", "replicas": 1},
    }


def test_a_split_has_a_front_and_overrides_without_defaults(server: Server) -> None:
    sides: Json = {"prefill": {"engine": {}, "scaling": {}, "placement": {}, "rollout": {}}}
    spec = server.create(resource("PDSplit", "chat", sides)).expect_taken()["spec"]

    assert spec["router"] == {"type": "Managed", "replicas": 2}
    assert spec["kvTransfer"] == {"connector": "NIXL", "transport": "Auto", "locality": "Preferred"}
    assert spec["prefill"] == sides["prefill"]


@pytest.mark.parametrize("number", range(len(FULL_POOLS)))
def test_a_pool_with_every_field_comes_back_unchanged(server: Server, number: int) -> None:
    sent = resource("InferencePool", "full", FULL_POOLS[number])
    kept = server.create(sent).expect_taken()
    assert [] == list(_lost(sent["spec"], kept["spec"]))
    assert parse_pool(kept).spec == parse_pool(sent).spec


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", MODELS)
def test_a_random_valid_spec_comes_back_unchanged_and_means_the_same(server: Server, kind: str) -> None:
    """Nothing that our models take is pruned or refused, and the server's defaults are the models' own."""
    parse = parse_pool if kind == "InferencePool" else parse_split

    @on_the_server
    @given(specs(MODELS[kind]))
    def holds(spec: Json) -> None:
        sent = resource(kind, "random", spec)
        wanted = parse(sent)
        if wanted.spec is None:  # a side that contradicts what is common
            return
        kept = server.create(sent, DRY_RUN).expect_taken()
        assert [] == list(_lost(sent["spec"], kept["spec"]))
        assert parse(kept).spec == wanted.spec

    holds()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", MODELS)
def test_a_null_is_pruned_or_refused_wherever_it_is(server: Server, kind: str) -> None:
    """And it never reaches the core: what was taken is understood."""
    schema = _schema(kind)["properties"]["spec"]
    parse = parse_pool if kind == "InferencePool" else parse_split
    taken = 0
    for path in _fields(schema):
        body = resource(kind, "nulls", {})
        _put(body["spec"], path, None)
        answer = server.create(body, DRY_RUN)
        if not answer.taken:
            answer.expect_refused()
            continue
        taken += 1
        assert not _has_null(answer.body["spec"]), path
        assert parse(answer.body).problem is None, path
    assert taken > 50


@pytest.mark.parametrize(
    "spec",
    [
        {"slo": {"ttft": {"p95": None}}},
        {"engine": {"name": "VLLM", "args": [None]}},
        {"engine": {"env": [None]}},
        {"placement": {"nodeSelector": {"a": None}}},
    ],
    ids=["value of a map", "item of a list", "item of a keyed list", "label"],
)
def test_a_null_inside_a_collection_is_pruned_or_refused(server: Server, spec: Json) -> None:
    answer = server.create(resource("InferencePool", "nulls", spec), DRY_RUN)
    assert not answer.taken or not _has_null(answer.body["spec"])


def test_an_inline_config_keeps_its_nulls(server: Server) -> None:
    spec = {"model": {"id": "m", "config": {"inline": {"rope_scaling": None, "layers": 2}}}}
    kept = server.create(resource("InferencePool", "inline", spec)).expect_taken()
    assert kept["spec"]["model"]["config"]["inline"] == {"rope_scaling": None, "layers": 2}


class TestScale:
    """The `scale` subresource: one field, one owner."""

    def test_an_auto_pool_refuses_it_in_one_sentence(self, server: Server) -> None:
        server.create(resource("InferencePool", "chat", {})).expect_taken()
        answer = server.merge("InferencePool", "chat", {"spec": {"replicas": 3}}, "scale")

        answer.expect_refused("because Weft decides the count: set scaling.mode to External")

    def test_an_external_pool_takes_it(self, server: Server) -> None:
        server.create(resource("InferencePool", "chat", EXTERNAL)).expect_taken()
        status = {"replicas": 1, "selector": "weft.dev/rank=0"}
        body = {**resource("InferencePool", "chat", {}), "status": status}
        del body["spec"]
        path = server.path("InferencePool", "chat", "status")
        server.send("PATCH", path, body, [("fieldManager", "t"), ("force", "true")]).expect_taken()

        answer = server.merge("InferencePool", "chat", {"spec": {"replicas": 3}}, "scale").expect_taken()
        assert answer["spec"] == {"replicas": 3}
        assert answer["status"] == status

    def test_zero_is_refused_by_name(self, server: Server) -> None:
        server.create(resource("InferencePool", "chat", EXTERNAL)).expect_taken()
        answer = server.merge("InferencePool", "chat", {"spec": {"replicas": 0}}, "scale")
        answer.expect_refused("replicas must be at least 1: zero is not supported yet")

    def test_a_pool_goes_back_to_auto_when_the_count_is_given_back(self, server: Server) -> None:
        server.create(resource("InferencePool", "chat", EXTERNAL)).expect_taken()
        patch = {"spec": {"scaling": {"mode": "Auto", "replicas": None}}}
        spec = server.merge("InferencePool", "chat", patch).expect_taken()["spec"]
        assert "replicas" not in spec["scaling"]


@pytest.mark.parametrize(
    ("kind", "narrow"),
    [
        ("InferencePool", ["Name", "Desired", "Ready", "Shape", "SLO", "Reason", "Age"]),
        (
            "PDSplit",
            ["Name", "Prefill", "Prefill-Ready", "Decode", "Decode-Ready", "Shape", "SLO", "Reason", "Age"],
        ),
    ],
)
def test_the_columns_are_those_that_a_person_wants(server: Server, kind: str, narrow: list[str]) -> None:
    columns = server.table(kind)
    assert narrow == [column["name"] for column in columns if not column["priority"]]
    assert {"Model", "URL"} <= {column["name"] for column in columns if column["priority"]}


@pytest.mark.timeout(120)
def test_a_random_decision_is_kept_by_the_server_as_it_was_written(server: Server) -> None:
    """L5: no part of a status is pruned, refused or changed on its way, and both writers keep their own."""
    server.create(resource("InferencePool", "chat", {})).expect_taken()
    ready = Condition("Ready", "True", Explanation(Reason.Serving, "all answer"))
    progress = converge_status(PoolProgress(1, 2, 1, "weft.dev/rank=0", "http://chat", (ready,)), {}, NOW)
    _apply_status(server, progress, CONVERGE_MANAGER)

    @on_the_server
    @given(DECISIONS)
    def holds(decision: PoolDecision) -> None:
        written = pool_status(decision, {}, NOW)
        kept = _apply_status(server, written, DECIDE_MANAGER)
        assert parse_pool(kept).status == decision.status
        assert [] == list(_lost({**progress, **written, "conditions": []}, {**kept["status"], "conditions": []}))
        kinds = {condition["type"] for condition in kept["status"]["conditions"]}
        assert kinds == {"Ready", *(condition.kind for condition in decision.conditions)}

    holds()


def test_any_last_words_of_an_engine_are_taken(server: Server) -> None:
    server.create(resource("InferencePool", "chat", {})).expect_taken()
    words = "\x1b[31mOutOfMemory\x1b[0m\x00\x85\ud800 \N{HUGGING FACE} 模型\n" + "x" * 100_000
    stalled = Condition("Stalled", "True", Explanation(Reason.EngineFailed, words))
    progress = PoolProgress(1, 0, 0, "weft.dev/rank=0", None, (stalled,))

    kept = _apply_status(server, converge_status(progress, {}, NOW), CONVERGE_MANAGER)
    assert "OutOfMemory" in kept["status"]["conditions"][0]["message"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_taken_and_understood(server: Server, path: Path) -> None:
    bodies = [body for body in yaml.safe_load_all(path.read_text(encoding="utf-8")) if body["kind"] in MODELS]
    assert bodies
    for body in bodies:
        kept = server.create(body).expect_taken()
        record = parse_pool(kept) if body["kind"] == "InferencePool" else parse_split(kept)
        assert record.problem is None


def _apply_status(server: Server, status: Json, manager: str) -> Json:
    body = {**resource("InferencePool", "chat", {}), "status": copy.deepcopy(status)}
    del body["spec"]
    query = [("fieldManager", manager), ("force", "true"), ("fieldValidation", "Strict")]
    return server.send("PATCH", server.path("InferencePool", "chat", "status"), body, query).expect_taken()


def _lost(sent: Any, kept: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - any JSON
    """Places where what was sent is not what was kept; the server may add, and may not take away."""
    if isinstance(sent, dict) and isinstance(kept, dict):
        for name, value in sent.items():
            yield from _lost(value, kept.get(name), f"{path}.{name}")
    elif isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        for index, (one, other) in enumerate(zip(sent, kept, strict=True)):
            yield from _lost(one, other, f"{path}[{index}]")
    elif sent != kept:
        yield f"{path}: sent {sent!r}, kept {kept!r}"


def _schema(kind: str) -> Json:
    (version,) = next(one for one in crds() if one["spec"]["names"]["kind"] == kind)["spec"]["versions"]
    schema: Json = version["schema"]["openAPIV3Schema"]
    return schema


def _fields(schema: Json, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of all fields outside of lists."""
    for name, member in schema.get("properties", {}).items():
        yield (*path, name)
        yield from _fields(member, (*path, name))


def _put(spec: Json, path: tuple[str, ...], value: object) -> None:
    for name in path[:-1]:
        spec = spec.setdefault(name, {})
    spec[path[-1]] = value


def _has_null(value: object) -> bool:
    if isinstance(value, dict):
        return any(_has_null(inner) for inner in value.values())
    return any(_has_null(inner) for inner in value) if isinstance(value, list) else value is None
