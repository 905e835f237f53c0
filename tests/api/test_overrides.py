"""A PDSplit is two whole pools; each side says what it does differently."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.api.cases import resource
from weft.api import parse_pool, parse_split
from weft.api.overrides import laid_over
from weft.domain.scaling_spec import ScalingMode
from weft.domain.spec import RouterKind, RouterSpec, SplitSpec
from weft.domain.workload import Role

Json = dict[str, Any]


def _split(spec: Json) -> SplitSpec:
    record = parse_split(resource("PDSplit", "chat", spec))
    assert record.spec is not None, record.problem
    return record.spec


def test_what_is_common_holds_for_both_sides() -> None:
    split = _split({"engine": {"name": "VLLM", "version": "0.32.0"}, "slo": {"ttft": {"p95": "1s"}}})

    assert (split.prefill.role, split.decode.role) == (Role.Prefill, Role.Decode)
    assert split.prefill.engine == split.decode.engine == split.engine
    assert split.prefill.slo == split.decode.slo
    assert split.prefill.slo.ttft == ((95, 1.0),)


def test_an_override_changes_one_field_of_one_side() -> None:
    split = _split({"scaling": {"maxReplicas": 40}, "prefill": {"scaling": {"minReplicas": 30}}})

    assert (split.prefill.scaling.min_replicas, split.prefill.scaling.max_replicas) == (30, 40)
    assert (split.decode.scaling.min_replicas, split.decode.scaling.max_replicas) == (1, 40)


def test_an_override_has_no_defaults_of_its_own() -> None:
    """A default that were filled into an override would undo the common value."""
    split = _split({"placement": {"spread": "Zone"}, "decode": {"placement": {"accelerators": ["H200"]}}})
    assert split.decode.placement.spread == "Zone"


def test_a_sentence_about_a_side_names_the_field_to_edit() -> None:
    split = _split({"shape": {"pipelineParallel": 2}, "prefill": {"shape": {"tensorParallel": 3}}})
    told = "spec.shape.tensorParallel 3 and spec.shape.pipelineParallel 2"

    assert (
        split.as_written(Role.Prefill, told) == "spec.prefill.shape.tensorParallel 3 and spec.shape.pipelineParallel 2"
    )
    assert split.as_written(Role.Decode, told) == told


def test_lists_with_names_merge_by_name_and_other_lists_are_replaced() -> None:
    common = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}], "args": ["--x"]}
    override = {"env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}], "args": ["--y"]}
    split = _split({"engine": {"name": "VLLM", **common}, "prefill": {"engine": override}})

    assert split.prefill.engine.env == (("A", "1"), ("B", "3"), ("C", "4"))
    assert split.prefill.engine.args == ("--y",)
    assert split.decode.engine.args == ("--x",)


def test_an_inline_config_keeps_its_nulls_on_the_way_to_a_child() -> None:
    inline: Json = {"rope_scaling": None, "layers": [{"a": None}]}
    split = _split({"model": {"id": "m", "config": {"inline": inline}}})

    assert json.loads(split.prefill_body)["model"]["config"]["inline"] == inline
    assert json.loads(split.prefill.model.config_json or "") == inline


def test_merging_leaves_its_inputs_alone() -> None:
    common: Json = {"a": {"b": 1}, "list": [{"name": "x", "value": 1}]}
    override: Json = {"a": {"c": 2}, "list": [{"name": "x", "value": 2}]}

    assert laid_over(common, override) == {"a": {"b": 1, "c": 2}, "list": [{"name": "x", "value": 2}]}
    assert common == {"a": {"b": 1}, "list": [{"name": "x", "value": 1}]}


def test_each_side_is_the_pool_that_its_body_describes() -> None:
    """What is decided on and what the child pool says are the same thing."""
    split = _split(
        {
            "kvTransfer": {"transport": "RDMA"},
            "prefill": {"shape": {"tensorParallel": 4}, "pod": {"labels": {"side": "prefill"}}},
            "decode": {"kvCache": {"precision": "FP8"}, "rollout": {"maxSurge": "50%"}},
        }
    )
    for side, text in ((split.prefill, split.prefill_body), (split.decode, split.decode_body)):
        assert parse_pool({"kind": "InferencePool", "metadata": {}, "spec": json.loads(text)}).spec == side


def test_equal_splits_have_equal_bodies() -> None:
    """The body is canonical: the order of fields and explicit defaults change nothing."""
    one = _split({"scaling": {"minReplicas": 2, "maxReplicas": 5}})
    other = _split({"scaling": {"maxReplicas": 5, "mode": "Auto", "minReplicas": 2}, "rollout": {}})
    assert one == other


def test_in_external_mode_a_side_starts_at_its_least_and_its_body_leaves_the_count_to_others() -> None:
    split = _split({"scaling": {"mode": "External", "minReplicas": 2}, "decode": {"scaling": {"minReplicas": 3}}})

    assert split.prefill.scaling.mode is ScalingMode.External
    assert (split.prefill.scaling.replicas, split.decode.scaling.replicas) == (2, 3)
    assert "replicas" not in json.loads(split.decode_body)["scaling"]


def test_the_front_stands_before_the_split_and_not_before_its_sides() -> None:
    split = _split({"router": {"replicas": 2}})

    assert (split.router.kind, split.router.replicas) == (RouterKind.Managed, 2)
    assert split.prefill.router.kind is RouterKind.Nothing


@pytest.mark.parametrize("kind", ["None", "Managed"])
def test_the_key_reaches_the_engines_of_both_sides(kind: str) -> None:
    """Without a front that asks for it, nobody else would."""
    split = _split({"router": {"type": kind, "apiKeySecretRef": {"name": "keys", "key": "token"}}})

    for side, text in ((split.prefill, split.prefill_body), (split.decode, split.decode_body)):
        assert side.router == RouterSpec(RouterKind.Nothing, api_key_secret=("keys", "token"))
        assert json.loads(text)["router"]["apiKeySecretRef"] == {"name": "keys", "key": "token"}


def test_the_ratio_is_guarded_by_quantities() -> None:
    split = _split({"ratio": {"min": "250m", "max": 4}})
    assert (split.ratio_min, split.ratio_max) == (0.25, 4.0)
