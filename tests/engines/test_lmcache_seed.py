"""The seed by which replicas share KV in a store of LMCache: equal for equal KV only, and the same after an upgrade."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.engines.test_lmcache import ONE_POD, keeping, launched, variables
from tests.render.pools import RELEASE, plan, shape, spec
from weft.api.engine import Speculative
from weft.api.pool import InferencePoolSpec
from weft.api.reading import pool_spec
from weft.domain.hardware import Precision
from weft.domain.shape import Shape
from weft.domain.spec import EngineSpec, KVSpec, ModelSource, ModelSpec, PodSpec, SourceKind
from weft.engines import LaunchRequest
from weft.engines.vllm.lmcache import seed

if TYPE_CHECKING:
    from weft.domain.spec import PoolSpec

HISTORY = yaml.safe_load((Path(__file__).parent / "lmcache_seeds.yaml").read_text())
LAYOUT_ALONE = {"gpus_per_pod"}  # fields of a shape on which no KV depends

STORE = ("LMCACHE_REMOTE_URL", "redis://kv:6379")


def shared(pods: Shape = ONE_POD, version: str = "0.33.0", **changed: Any) -> int:  # noqa: ANN401 - fields of PoolSpec
    """The seed with which hashes begin where replicas share a store."""
    return int(variables(launched(replace(keeping("", env=(STORE,)), **changed), pods, version))["PYTHONHASHSEED"])


def weights(revision: str) -> ModelSpec:
    return ModelSpec("m", source=ModelSource(SourceKind.HuggingFace, "x/m", revision=revision))


def test_replicas_of_one_kind_find_what_another_put_into_a_shared_store() -> None:
    """Counts, names and what only surrounds the engine change no KV."""
    assert 0 < shared() < 2**32
    assert shared() == shared(scaling=replace(spec().scaling, max_replicas=9))
    assert shared() == shared(pod=PodSpec(labels=(("team", "a"),)))


@pytest.mark.parametrize(
    "other",
    [
        {"pods": shape(2, pipeline_parallel=2)},
        {"version": "0.32.0"},
        {"model": weights("a")},
        {"model": replace(keeping().model, max_context_tokens=4096)},
        {"kv": KVSpec(Precision.FP8, offload_json='{"backend":"LMCache","size":"64Gi"}')},
        {"engine": EngineSpec(env=(STORE,), args=("--hf-overrides", "{}"))},
        {"engine": EngineSpec(env=(STORE, ("LMCACHE_REMOTE_SERDE", "cachegen")))},
    ],
    ids=["stages", "release", "weights", "context", "precision", "arguments", "encoding"],
)
def test_kv_of_anything_else_is_not_found_in_a_shared_store(other: dict[str, Any]) -> None:
    """LMCache's keys do not tell these apart: TP 4 and TP 2 x PP 2 have the same, and answers would be wrong."""
    assert shared(**other) != shared()


def test_revisions_of_one_model_have_their_own_kv_in_a_shared_store() -> None:
    assert shared(model=weights("a")) != shared(model=weights("b"))


def recorded(sample: dict[str, Any]) -> PoolSpec:
    tokens = {"inputTokens": {"mean": 1000}, "outputTokens": {"mean": 200}}
    filled = {"workload": {"requestsPerSecond": 1, **tokens}, "slo": {}}
    return pool_spec(InferencePoolSpec.model_validate({**filled, **sample["pool"]}))


def sizes(sample: dict[str, Any]) -> Shape:
    said = sample["shape"]
    return shape(
        said["tensor"],
        said["accelerator"],
        Precision(said["precision"]),
        pipeline_parallel=said.get("stages", 1),
        data_parallel=said.get("ranks", 1),
        expert_parallel=said.get("experts", 1),
    )


@pytest.mark.parametrize("sample", HISTORY, ids=lambda sample: sample["name"])
def test_an_upgrade_of_weft_finds_what_the_release_before_it_put_into_a_store(sample: dict[str, Any]) -> None:
    """Read from the YAML of a user, so that new fields and their defaults are seen, too."""
    found = launched(recorded(sample), sizes(sample), sample["version"])
    assert int(variables(found)["PYTHONHASHSEED"]) == sample["seed"]


def test_the_order_of_variables_is_no_reason_to_begin_anew() -> None:
    other = ("VLLM_X", "1")
    assert shared(engine=EngineSpec(env=(STORE, other))) == shared(engine=EngineSpec(env=(other, STORE)))


@pytest.mark.parametrize("name", [each.name for each in fields(Shape) if each.name != "engine"])
def test_each_field_of_a_shape_is_in_the_seed_unless_it_only_lays_out_pods(name: str) -> None:
    """A field that is added to shapes has to be put on one of the two sides."""
    value = getattr(ONE_POD, name)
    other: Any = Precision.FP8 if isinstance(value, Precision) else "B200" if isinstance(value, str) else value + 1
    before, after = seed_of(ONE_POD), seed_of(replace(ONE_POD, **{name: other}))
    assert (before == after) == (name in LAYOUT_ALONE)


def test_each_word_about_drafting_is_in_the_seed() -> None:
    said = {"method": "EAGLE3", "model": "x/y", "tokens": 3}
    assert set(Speculative.model_fields) == set(said)
    seeds = [seed_of(ONE_POD, said), *(seed_of(ONE_POD, {**said, **other}) for other in DRAFTING)]
    assert len({*seeds, shared()}) == len(seeds) + 1


DRAFTING: tuple[dict[str, Any], ...] = ({"method": "DraftModel"}, {"model": "x/z"}, {"tokens": 4})


def seed_of(pods: Shape, drafting: dict[str, Any] | None = None) -> int:
    told = json.dumps(drafting) if drafting is not None else None
    return seed(LaunchRequest(keeping("", env=(STORE,), speculative_json=told), plan(pods, RELEASE)))
