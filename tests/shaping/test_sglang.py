"""A pool that names SGLang: from its manifest to its pods."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.render.pools import pool
from tests.shaping.cases import B200, CATALOG, DEEPSEEK, GB200, H200, LLAMA_70B, MI300X, Wish
from weft.api.parsing import parse_pool
from weft.decide.plans.support import refuse_what_the_engine_cannot
from weft.domain.errors import Invalid
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.domain.spec import EngineSpec, ShapePins
from weft.domain.workload import Role, Slo
from weft.render import FrontSpec, render_front, render_pods
from weft.shaping import ShapeRequest, Supply, Unpaired, choose, choose_pair, resolve_architecture

NAMED = EngineSpec(EngineName.SGLang)
MTP = '{"method":"MTP","tokens":1}'
PROMPTS = ShapePins(tensor_parallel=4, prefill_context_parallel=2)
NAMED_FOR_AMD = replace(NAMED, image="docker.io/lmsysorg/sglang:v0.5.18-rocm720-mi30x")


def test_a_named_engine_goes_all_the_way_to_pods() -> None:
    body = {
        "metadata": {"name": "chat", "namespace": "team", "uid": "u", "generation": 1},
        "spec": {
            "model": {"id": f"meta-llama/{LLAMA_70B}"},
            "engine": {"name": "SGLang"},
            "workload": {
                "requestsPerSecond": 2,
                "inputTokens": {"mean": 1000, "p95": 2000},
                "outputTokens": {"mean": 200, "p95": 400},
            },
            "slo": {"ttft": {"p95": "2s"}, "tpot": {"p95": "50ms"}},
        },
    }
    spec = parse_pool(body).spec
    assert spec is not None
    architecture = resolve_architecture(spec.model, CATALOG)
    plan = choose(ShapeRequest(spec, architecture, spec.workload, (H200,)), CATALOG)
    assert (plan.engine.name, plan.engine.version) == (EngineName.SGLang, "0.5.23")
    assert {each.shape.engine for each in plan.alternatives} == {EngineName.SGLang}
    refuse_what_the_engine_cannot(spec, plan, architecture.checkpoint_precision)
    record = pool(spec, plan, ("node-a",))
    (pod,) = render_pods(record, record.status.assignments[0])
    assert pod["spec"]["containers"][0]["image"] == "docker.io/lmsysorg/sglang:v0.5.23"
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "sglang"
    front = render_front(record.key, plan.engine.name, spec.router, FrontSpec((record.key,), 1, 300.0), {})
    (container,) = front["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "docker.io/lmsysorg/sgl-model-gateway:v0.3.2"


def test_a_tight_first_token_is_met_by_about_as_many_gpus_as_with_another_engine() -> None:
    """All rows of it with a dense model are of crowds; how far those are off is no reason to doubt a planned load."""
    slo = Slo(ttft=((95, 1.0),), tpot=((95, 0.04),))
    named, other = (Wish(LLAMA_70B, (H200, GB200), 8.0, slo, engine=each).plan() for each in (NAMED, EngineSpec()))
    assert named.verdict.reason is other.verdict.reason is Reason.ShapeChosen
    assert named.prediction.ttft_doubt < 2
    assert named.shape.gpus <= 2 * other.shape.gpus


@pytest.mark.parametrize("model", [LLAMA_70B, DEEPSEEK])
@pytest.mark.parametrize("supply", [H200, GB200, MI300X], ids=lambda supply: supply.accelerator)
def test_whatever_is_chosen_can_be_launched(model: str, supply: Supply) -> None:
    wish = Wish(model, (supply,), engine=NAMED_FOR_AMD if supply is MI300X else NAMED)
    plan, request = wish.plan(), wish.request()
    refuse_what_the_engine_cannot(request.spec, plan, request.architecture.checkpoint_precision)
    assert (plan.shape.engine, plan.engine.name) == (EngineName.SGLang, EngineName.SGLang)


def test_no_image_is_made_up_where_its_tag_does_not_follow_from_the_version() -> None:
    """Tags for AMD name the ROCm release and the card: a made-up one would be waited for in vain."""
    with pytest.raises(Invalid, match=r"SGLang's images for MI300X .* name one in spec\.engine\.image") as refused:
        Wish(LLAMA_70B, (MI300X,), engine=NAMED).plan()
    assert refused.value.reason is Reason.EngineUnsupported
    assert Wish(LLAMA_70B, (MI300X, H200), engine=NAMED).plan().shape.accelerator == "H200"
    assert Wish(LLAMA_70B, (MI300X,), engine=NAMED_FOR_AMD).plan().engine.image == NAMED_FOR_AMD.image


SHARED = ShapePins(tensor_parallel=8, pipeline_parallel=1, data_parallel=1, decode_context_parallel=4)
PINNED = Wish(DEEPSEEK, (B200,), engine=NAMED, pins=SHARED)


def test_contexts_are_shared_where_a_pool_says_so() -> None:
    plan = PINNED.plan()
    assert plan.shape.decode_context_parallel == 4
    apart = replace(PINNED, pins=replace(SHARED, decode_context_parallel=1)).plan()
    assert plan.prediction.kv_tokens > 3 * apart.prediction.kv_tokens


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        (replace(PINNED, supplies=(H200,)), "attention backend on Hopper GPUs shares no contexts"),
        (replace(PINNED, model=LLAMA_70B), "latent attention without a token selector only"),
        (replace(PINNED, pins=replace(SHARED, decode_context_parallel=3)), "DCP 3 must divide that number"),
        (
            replace(PINNED, engine=replace(NAMED, version="0.5.17")),
            "version 0.5.17 shares no contexts; allowed: 0.5.19",
        ),
        (replace(PINNED, pins=replace(SHARED, tensor_parallel=4, data_parallel=2)), "attention-DP ranks share no"),
        (replace(PINNED, pins=replace(SHARED, tensor_parallel=4, pipeline_parallel=2)), "stages share no contexts"),
        (replace(PINNED, engine=replace(NAMED, speculative_json=MTP)), "shares no contexts while MTP drafts"),
        (replace(PINNED, role=Role.Decode), "in Aggregated pools only"),
        (replace(PINNED, role=Role.Prefill, pins=PROMPTS), "SGLang's --enable-prefill-cp"),
    ],
    ids=["hopper", "grouped", "size", "release", "ranks", "stages", "drafts", "half", "prompts"],
)
def test_what_it_cannot_share_is_refused_by_name_before_anything_is_chosen(wish: Wish, sentence: str) -> None:
    with pytest.raises(Invalid) as refused:
        wish.plan()
    assert sentence in refused.value.message
    assert refused.value.reason is Reason.ShapeInvalid


def test_nobody_shares_contexts_unasked() -> None:
    """It never ran, so that it is a user's choice alone."""
    plan = Wish(DEEPSEEK, (B200,), engine=NAMED, pins=replace(SHARED, decode_context_parallel=None)).plan()
    sizes = {each.shape.decode_context_parallel for each in plan.alternatives if each.prediction is not None}
    assert sizes | {plan.shape.decode_context_parallel} == {1}


def test_both_halves_of_a_split_run_it() -> None:
    prefill, decode = (
        Wish(DEEPSEEK, (H200,), role=role, engine=NAMED).request() for role in (Role.Prefill, Role.Decode)
    )
    plans = choose_pair(prefill, decode, CATALOG)
    assert not isinstance(plans, Unpaired)
    assert [plan.engine.name for plan in plans] == [EngineName.SGLang, EngineName.SGLang]
