"""A body becomes a record; one that cannot be understood says which field is wrong."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.api.cases import WRONG, WrongInput, resource
from tests.api.full import FULL_POOLS, Path, leaves, replaced, without
from tests.api.strategies import specs
from weft.api import parse_pool, parse_split
from weft.api.pool import InferencePoolSpec
from weft.api.schema import structural_schema
from weft.api.split import PDSplitSpec
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingMode
from weft.domain.spec import RouterKind, SourceKind
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord, SplitRecord

Json = dict[str, Any]

KEYS = st.text(max_size=8) | st.just("\ud800")
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from([10**400, "\ud800", "\x00"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


REFUSED_AS_A_WHOLE = (("router", "gateway"), ("placement", "scheduler", "queue"))


def _parse(body: Json) -> PoolRecord | SplitRecord:
    return parse_pool(body) if body["kind"] == "InferencePool" else parse_split(body)


@pytest.mark.parametrize("case", WRONG, ids=lambda case: case.title)
def test_a_wrong_spec_is_a_problem_that_names_the_field_and_what_is_allowed(case: WrongInput) -> None:
    record = _parse(resource(case.kind, "wrong", case.spec))

    assert record.spec is None
    assert record.problem is not None
    assert record.problem.reason is Reason.SpecInvalid
    assert [] == [word for word in case.ours if word not in record.problem.message], record.problem.message


def test_a_corrected_spec_is_understood_again() -> None:
    """L2: nothing of the bad version is remembered."""
    assert parse_pool(resource("InferencePool", "a", {"scaling": {"maxReplicas": 0}})).spec is None
    assert parse_pool(resource("InferencePool", "a", {"scaling": {"maxReplicas": 3}})).problem is None


@pytest.mark.parametrize(
    ("reason", "goes"), [("NamespaceTerminating", True), ("PodRefused", False)], ids=["terminating", "refused"]
)
def test_a_resource_that_was_found_in_a_terminating_namespace_goes_away(reason: str, goes: bool) -> None:  # noqa: FBT001
    """S10: a new operator process reads it from the status, and tries nothing again."""
    stalled = {"type": "Stalled", "status": "True", "reason": reason, "lastTransitionTime": "2026-07-01T08:00:00Z"}
    body = {"metadata": {"name": "a"}, "status": {"conditions": [stalled]}}
    assert parse_pool(body).deleting is goes
    assert parse_split(body).deleting is goes


def test_a_missing_spec_is_a_problem() -> None:
    problem = parse_pool({"kind": "InferencePool", "metadata": {"name": "a"}}).problem
    assert problem is not None
    assert problem.message == "spec.model: this field is required"


@pytest.mark.parametrize("spec", [[], "chat", 3, [{"model": 1}]], ids=str)
@pytest.mark.parametrize("kind", ["InferencePool", "PDSplit"])
def test_a_spec_that_is_no_object_is_told_as_that(kind: str, spec: Any) -> None:  # noqa: ANN401 - any JSON
    """And not as one that lacks its fields."""
    problem = _parse({"kind": kind, "metadata": {"name": "a"}, "spec": spec}).problem
    assert problem is not None
    assert problem.message.startswith("spec: must be an object")


@pytest.mark.parametrize(
    ("kind", "field", "said"),
    [
        ("InferencePool", "slo", "slo: unknown field beside spec: indent it, so that it is spec.slo"),
        ("PDSplit", "decode", "decode: unknown field beside spec: indent it, so that it is spec.decode"),
        (
            "InferencePool",
            "decode",
            "decode: unknown field; the known ones are apiVersion, kind, metadata, spec, status",
        ),
        (
            "InferencePool",
            "sepc",
            "sepc: unknown field, perhaps spec; the known ones are apiVersion, kind, metadata, spec, status",
        ),
    ],
)
def test_a_field_beside_the_spec_counts_for_something_or_is_refused(kind: str, field: str, said: str) -> None:
    """The API server drops it, and a target that is dropped would be met by any shape."""
    problem = _parse({**resource(kind, "a", {"model": {"id": "m"}}), field: {}}).problem
    assert problem is not None
    assert problem.message == said


@pytest.mark.parametrize(("names", "ends"), [(("a",), "uri"), (("a", "b"), "uri; and 1 other mistake")])
def test_other_mistakes_are_no_known_fields(names: tuple[str, ...], ends: str) -> None:
    store = dict.fromkeys(names, 1) | {"uri": "s3://bucket/model"}
    problem = _parse(resource("InferencePool", "a", {"model": {"id": "m", "source": {"uri": store}}})).problem
    assert problem is not None
    assert problem.message == f"spec.model.source.uri.a: unknown field; the known ones are secretRef, {ends}"


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        (
            "InferencePool",
            {"nodeSelector": {}},
            "spec.nodeSelector: unknown field, perhaps spec.placement.nodeSelector",
        ),
        ("InferencePool", {"shape": {"precision": "FP8"}}, "spec.shape.precision: unknown field, perhaps spec.model"),
        (
            "InferencePool",
            {"replicas": 3},
            "spec.replicas: unknown field, perhaps spec.scaling.replicas or spec.router.replicas;",
        ),
        ("InferencePool", {"prefill": {}}, "spec.prefill: unknown field (kind PDSplit has it);"),
        ("PDSplit", {"role": "Decode"}, "spec.role: unknown field (kind InferencePool has it);"),
        ("InferencePool", {"pod": {"name": "a"}}, "spec.pod.name: unknown field; the known ones are"),
        (
            "PDSplit",
            {"prefill": {"tensorParallel": 2}},
            "spec.prefill.tensorParallel: unknown field, perhaps spec.prefill.shape.tensorParallel;",
        ),
        (
            "PDSplit",
            {"decode": {"engine": {"name": "SGLang"}}},
            "spec.decode.engine.name: unknown field, as both sides have the same: write spec.engine.name",
        ),
        ("PDSplit", {"nodeSelector": {}}, "spec.nodeSelector: unknown field, perhaps spec.placement.nodeSelector;"),
        ("InferencePool", {"pod": {"bogus": "a"}}, "spec.pod.bogus: unknown field; the known ones are"),
    ],
    ids=str,
)
def test_a_field_in_the_wrong_place_is_sent_to_the_right_one(kind: str, spec: Json, said: str) -> None:
    problem = _parse(resource(kind, "a", {"model": {"id": "m"}, **spec})).problem
    assert problem is not None
    assert problem.message.startswith(said)


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"workload": {"inputTokens": 1000}}, "mean, p95"),
        ({"slo": {"ttft": "800ms"}}, "p50, p90, p95, p99"),
        ({"shape": {"tensorParallel": {}}}, None),
        ({"pod": {"labels": "a"}}, None),
    ],
    ids=["an object", "keys that are known", "no object", "any keys"],
)
def test_what_must_be_an_object_is_told_with_its_fields(spec: Json, fields: str | None) -> None:
    problem = parse_pool(resource("InferencePool", "a", {"model": {"id": "m"}, **spec})).problem
    assert problem is not None
    told = f"must be an object (its fields are {fields})" in problem.message
    assert told == (fields is not None)
    assert told or "its fields" not in problem.message


@pytest.mark.parametrize(
    ("spec", "ending"),
    [
        ({"scaling": {"maxReplicas": -1}}, "spec.scaling.maxReplicas: must be greater than or equal to 1, not -1"),
        ({"slo": {"ttft": {"p95": 0}}}, "must be a duration above zero such as 300ms, 90s or 1h30m, not 0"),
        ({"engine": {"name": "v" * 99}}, f"or 'TensorRTLLM', not '{59 * 'v'}"),
        (
            {"workload": {"inputTokens": {"mean": 9, "p95": 8}}},
            "be below mean (given: {mean: 9, p95: 8})",
        ),
        ({"workload": {"requestsPerSecond": 0.3}}, "or 500m (with a decimal point in quotes, as '0.3'), not 0.3"),
        ({"scaling": {"minReplicas": True}}, "must be a whole number, not true"),
        ({"scaling": {"maxReplicas": 10**5000}}, "must be less than or equal to 1000"),
        ({"slo": {"ttft": [list(range(99))]}}, "must be an object (its fields are p50, p90, p95, p99)"),
    ],
    ids=["number", "type", "long text", "object", "float", "true", "huge number", "long list"],
)
def test_a_refusal_ends_with_the_value_if_that_takes_few_words(spec: Json, ending: str) -> None:
    problem = parse_pool(resource("InferencePool", "a", {"model": {"id": "m"}, **spec})).problem
    assert problem is not None
    assert problem.message.endswith(ending)


@given(ANY_JSON)
def test_no_body_raises(body: Any) -> None:  # noqa: ANN401 - any JSON
    """F9."""
    for record in (parse_pool(body), parse_split(body)):
        assert record.spec is None
        assert record.problem is not None
        record.problem.message.encode()


@given(st.sampled_from([(full, path) for full in FULL_POOLS for path in leaves(full)]), ANY_JSON)
def test_no_value_anywhere_in_a_spec_raises(place: tuple[Json, Path], value: Any) -> None:  # noqa: ANN401 - any JSON
    """F9: nulls, NaN, huge numbers, unicode and wrong types at every place of a spec that was good."""
    full, path = place
    record = parse_pool(resource("InferencePool", "fuzzed", replaced(full, path, value)))

    assert (record.spec is None) == (record.problem is not None)
    if record.problem is not None:
        assert record.problem.message.startswith("spec"), record.problem
        record.problem.message.encode()


@pytest.mark.parametrize("inline", [{"layers": 10**5000}, {"factor": math.inf}], ids=["huge", "infinite"])
def test_a_config_that_is_no_json_is_a_problem(inline: Json) -> None:
    record = parse_pool(resource("InferencePool", "a", {"model": {"id": "m", "config": {"inline": inline}}}))
    assert record.problem is not None


def test_a_config_nested_without_end_is_a_problem() -> None:
    inline: Json = {}
    for _ in range(100_000):
        inline = {"inner": inline}
    record = parse_pool(resource("InferencePool", "a", {}) | {"spec": _with_config(inline)})
    assert record.problem is not None


def _with_config(inline: Json) -> Json:
    return {"model": {"id": "m", "config": {"inline": inline}}}


@settings(max_examples=40)
@given(specs(InferencePoolSpec))
def test_every_valid_pool_is_understood(spec: Json) -> None:
    assert parse_pool(resource("InferencePool", "valid", spec)).problem is None


@settings(max_examples=40)
@given(specs(PDSplitSpec))
def test_every_split_is_understood_or_a_problem_of_one_side(spec: Json) -> None:
    """Overrides may contradict what is common only in ways that are told."""
    record = parse_split(resource("PDSplit", "valid", spec))
    assert record.problem is None or record.problem.message.startswith(("spec.prefill", "spec.decode"))


def test_the_full_pools_have_every_field() -> None:
    """So that the next test is complete."""
    covered = {path for full in FULL_POOLS for path in leaves(full)}
    declared = set(_declared(structural_schema(InferencePoolSpec)))
    assert set() == {path for path in declared if not any(path == found[: len(path)] for found in covered)}


@pytest.mark.parametrize("number", range(len(FULL_POOLS)))
def test_every_field_of_a_pool_reaches_the_core(number: int) -> None:
    """F5: a field that is taken away changes what is decided on, or is refused; none is ignored.

    Details of what is refused as a whole go no further than that.
    """
    full = FULL_POOLS[number]
    whole = parse_pool(resource("InferencePool", "full", full))
    assert whole.problem is None
    ignored = [
        ".".join(path)
        for path in leaves(full)
        if not any(path[: len(whole_path)] == whole_path for whole_path in REFUSED_AS_A_WHOLE)
        and parse_pool(resource("InferencePool", "full", without(full, path))).spec == whole.spec
    ]
    assert [] == ignored


def test_quantities_become_plain_numbers() -> None:
    spec = parse_pool(resource("InferencePool", "full", FULL_POOLS[0])).spec

    assert spec is not None
    assert spec.workload.requests_per_second == 2.5
    assert spec.workload.prefix_hit == 0.3
    assert spec.slo.ttft == ((50, 0.3), (99, 90.0))
    assert spec.scaling.scale_down_delay_seconds == 600
    assert (spec.scaling.headroom, spec.scaling.risk) == (0.2, 0.05)
    assert spec.scaling.freeze_until == 1782892800
    assert spec.rollout.max_surge == 0.25
    assert spec.rollout.max_unavailable == 2
    assert spec.model.precision is Precision.FP8
    assert dict(spec.engine.resources) == {
        "cpu": "16",
        "memory": "128Gi",
        "hugepages-2Mi": "1024Mi",
        "hugepages-1Gi": "4Gi",
        "rdma/hca": "8",
    }


def test_what_is_unset_has_a_default() -> None:
    spec = parse_pool(resource("InferencePool", "least", {})).spec

    assert spec is not None
    assert spec.role is Role.Aggregated
    assert spec.engine.name is None
    assert spec.scaling.mode is ScalingMode.Auto
    assert (spec.scaling.min_replicas, spec.scaling.max_replicas) == (1, 10)
    assert spec.workload.input_tokens_p95 == 2 * spec.workload.input_tokens
    assert spec.router.kind is RouterKind.Nothing


def test_a_source_without_a_repository_is_the_repository_of_the_model() -> None:
    source = {"huggingFace": {"revision": "main"}}
    spec = parse_pool(resource("InferencePool", "a", {"model": {"id": "org/model", "source": source}})).spec

    assert spec is not None
    assert spec.model.source is not None
    assert (spec.model.source.kind, spec.model.source.location) == (SourceKind.HuggingFace, "org/model")


def test_an_inline_config_keeps_its_nulls() -> None:
    """A config.json means something by `null`; everywhere else a null is as good as absent."""
    config = {"inline": {"rope_scaling": None, "layers": [{"a": None}]}}
    spec = parse_pool(resource("InferencePool", "a", {"model": {"id": "m", "config": config}, "slo": None})).spec

    assert spec is not None
    assert spec.model.config_json is not None
    assert json.loads(spec.model.config_json) == config["inline"]


def test_identity_comes_from_metadata() -> None:
    body = resource("InferencePool", "chat-prefill", {}) | {
        "metadata": {
            "name": "chat-prefill",
            "namespace": "team",
            "uid": "u-1",
            "generation": 7,
            "creationTimestamp": "2026-07-01T08:00:00Z",
            "deletionTimestamp": "2026-07-01T09:00:00Z",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "u-0"},
                {
                    "apiVersion": "weft.dev/v1alpha1",
                    "kind": "PDSplit",
                    "name": "chat",
                    "uid": "u-2",
                    "controller": True,
                },
            ],
        }
    }
    record = parse_pool(body)

    assert str(record.key) == "InferencePool/chat-prefill"
    assert (record.key.namespace, record.key.uid, record.generation) == ("team", "u-1", 7)
    assert record.created == 1782892800
    assert record.deleting
    assert record.split_uid == "u-2"


def test_what_was_told_of_generations_is_read_back() -> None:
    """Deciding notes what it looked at with every condition; `Planned` is there of each generation.

    What is stalled tells of the latest as a whole, while its halves serve an earlier one.
    """
    conditions = [{"type": "Ready", "observedGeneration": 2}, {"type": "Planned", "observedGeneration": 3}]
    told = {"observedGeneration": 3, "generation": 1, "conditions": conditions}
    split = parse_split(resource("PDSplit", "a", {}) | {"status": told})
    assert (split.decided, split.reached, split.serving) == (3, 2, 1)
    assert 3 == parse_pool(resource("InferencePool", "a", {}) | {"status": told}).decided


@pytest.mark.parametrize(
    "status", [None, {}, {"conditions": "none"}, {"conditions": [7, {"type": "Planned", "observedGeneration": "x"}]}]
)
def test_of_a_status_that_tells_no_generation_none_is_read(status: object) -> None:
    split = parse_split(resource("PDSplit", "a", {}) | {"status": status})
    assert (split.decided, split.reached, split.serving) == (0, 0, None)


def _declared(schema: Json, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Paths of every field that has no fields of its own."""
    members = schema.get("properties") or schema.get("items", {}).get("properties")
    if not members:
        return [path]
    return [found for name, member in members.items() for found in _declared(member, (*path, name))]
