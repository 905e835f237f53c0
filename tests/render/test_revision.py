"""The revision says which replicas are outdated: it changes with what pods are rendered from and with nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.render.pools import LLAMA, plan, shape, spec
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
    RouterSpec,
    ShapePins,
    SourceKind,
    Toleration,
)
from weft.domain.workload import Slo, Workload
from weft.render import revision

RECORDED = revision(spec(), plan())


def test_an_upgrade_of_weft_restarts_nothing() -> None:
    """These values are recorded: if one changes, every pod of every pool is replaced on upgrade (F20)."""
    assert revision(spec(), plan()) == "e3b94a2dc3"
    assert revision(spec(engine=EngineSpec(args=("--x",))), plan(shape(8))) == "a9e0202618"


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
