"""The revision says which replicas are outdated: it changes with what pods are rendered from and with nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.render.pools import (
    LLAMA,
    RELEASE,
    SGLANG,
    TENSORRT_LLM,
    behind_a_gateway,
    plan,
    pool,
    shape,
    spec,
    split,
)
from weft.domain.hardware import Precision
from weft.domain.reasons import Explanation, Reason
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.spec import (
    EngineSpec,
    KVSpec,
    ModelSource,
    ModelSpec,
    PlacementSpec,
    PodSpec,
    RolloutSpec,
    RouterKind,
    RouterSpec,
    ShapePins,
    SourceKind,
    Toleration,
)
from weft.domain.workload import Role, Slo, Workload
from weft.render import pair_revision, revision

RECORDED = revision(spec(), plan())


def test_an_upgrade_of_weft_restarts_nothing() -> None:
    """These values are recorded: if one changes, every pod of every pool is replaced on upgrade (F20)."""
    assert revision(spec(), plan()) == "e3b94a2dc3"
    assert revision(spec(engine=EngineSpec(args=("--x",))), plan(shape(8))) == "a9e0202618"
    offload = KVSpec(Precision.FP8, '{"cpu": {"size": "64Gi"}}')
    assert revision(spec(kv=offload, pair="0a1b2c3d4e", role=Role.Decode), plan(shape(8))) == "695b90b2b8"
    on_sglang, on_tensorrt_llm = (plan(replace(shape(8), engine=each.name), each) for each in (SGLANG, TENSORRT_LLM))
    assert (revision(spec(), on_sglang), revision(spec(), on_tensorrt_llm)) == ("f3205214bd", "18a013f33a")
    routed = behind_a_gateway(pool(spec(Role.Prefill), plan(shape(1))))
    assert routed.status.revision == "c324562594"


def test_an_upgrade_of_weft_pairs_halves_as_before() -> None:
    """Recorded as well: another name of a pair replaces every pod of both halves."""
    found = split()
    assert found.spec is not None
    named = [pair_revision(found.spec, RELEASE, layouts) for layouts in (0, 1)]
    at_a_gateway = split(router=RouterKind.Gateway).spec
    assert at_a_gateway is not None
    assert [*named, pair_revision(at_a_gateway, SGLANG)] == ["cb6b6c00a4", "0fc0a0fecd", "feae5f2404"]


@pytest.mark.parametrize(
    "parts",
    [
        {"scaling": ScalingSpec(max_replicas=7)},
        {"slo": Slo(ttft=((99, 1.0),))},
        {"workload": Workload(9, 1, 1, 1, 1)},
        {"rollout": RolloutSpec(max_surge=3, drain_timeout_seconds=10, start_timeout_seconds=7200)},
        {"shape": ShapePins(tensor_parallel=1)},
        {"placement": PlacementSpec(accelerators=("H200",), node_selector=(("a", "b"),))},
        {"router": RouterSpec(replicas=2)},
        {"model": ModelSpec(LLAMA, config_json="{}")},
    ],
    ids=lambda parts: next(iter(parts)),
)
def test_what_pods_do_not_show_keeps_the_revision(parts: dict[str, Any]) -> None:
    assert revision(spec(**parts), plan()) == RECORDED


@pytest.mark.parametrize(
    "parts",
    [
        {"model": ModelSpec(LLAMA, ("chat",))},
        {"model": ModelSpec(LLAMA, max_context_tokens=4096)},
        {"model": ModelSpec(LLAMA, source=ModelSource(SourceKind.HuggingFace, LLAMA, cache="downloads"))},
        {"engine": EngineSpec(args=("--x",))},
        {"engine": EngineSpec(env=(("A", "b"),))},
        {"engine": EngineSpec(resources=(("cpu", "4"),))},
        {"kv": KVSpec(transport="TCP")},
        {"placement": PlacementSpec(tolerations=(Toleration("a", "Exists"),))},
        {"pod": PodSpec(labels=(("a", "b"),))},
        {"pod": PodSpec(priority_class="high")},
        {"router": RouterSpec(api_key_secret=("keys", "key"))},
    ],
    ids=str,
)
def test_what_pods_show_changes_the_revision(parts: dict[str, Any]) -> None:
    assert revision(spec(**parts), plan()) != RECORDED


def test_shape_and_release_count_but_the_prediction_does_not() -> None:
    other = replace(plan().prediction, capacity=9.0)
    worded = replace(plan(), prediction=other, verdict=Explanation(Reason.ShapeKept, "kept"))
    assert revision(spec(), worded) == RECORDED
    assert revision(spec(), plan(shape(2))) != RECORDED
    assert revision(spec(), plan(release=replace(plan().engine, version="0.33.0"))) != RECORDED
