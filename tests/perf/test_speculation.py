"""What drafting tokens buys and costs: arithmetic by hand, and laws in both directions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.replicas import Parallel, architecture, replica
from weft.catalog.drafting import dense_drafting_layer, drafting_layer
from weft.domain.hardware import Precision
from weft.domain.shape import Limit
from weft.perf import ReplicaModel, footprint, kv_tokens, sequence_bytes_per_gpu
from weft.perf.replica import draft_replica
from weft.perf.speculation import Draft, Speculation
from weft.perf.steps import stepper

LLAMA_8B = "Llama-3.1-8B-Instruct"
LLAMA_70B = "Llama-3.3-70B-Instruct"
DEEPSEEK = "DeepSeek-V3"

PLAIN = [
    replica(LLAMA_8B, "H100", Precision.BF16),
    replica(LLAMA_70B, "H200", Precision.FP8, Parallel(tensor=4, pipeline=2)),
    replica(DEEPSEEK, "H200", Precision.FP8, Parallel(tensor=8, decode_context=8)),
    replica(DEEPSEEK, "GB200", Precision.FP8, Parallel(data=16, expert=16)),
    replica("Qwen3-Next-80B-A3B-Instruct", "H200", Precision.BF16, 2),
]
REPLICAS = st.sampled_from(PLAIN)
TOKENS = st.integers(1, 8)
CHANCES = st.floats(0.0, 1.0)
BATCHES = st.floats(1, 2000)
CONTEXTS = st.floats(1, 100_000)
FACTORS = st.floats(1.0, 10.0)


def from_text(model: ReplicaModel, tokens: int = 3, acceptance: float = 0.3) -> ReplicaModel:
    return replace(model, speculation=Speculation(tokens, acceptance))


def by_layer(model: ReplicaModel, tokens: int = 3, acceptance: float = 0.8) -> ReplicaModel:
    draft = Draft(drafting_layer(model.architecture), has_vocabulary=False)
    return replace(model, speculation=Speculation(tokens, acceptance, draft))


def gain(model: ReplicaModel, speculating: ReplicaModel, batch: float, context: float = 2000) -> float:
    return stepper(model).decode(batch, context).seconds / stepper(speculating).decode(batch, context).seconds


@given(TOKENS, st.floats(0.0, 0.999))
def test_a_step_yields_what_the_geometric_series_says(tokens: int, acceptance: float) -> None:
    expected = (1 - acceptance ** (tokens + 1)) / (1 - acceptance)
    assert expected == pytest.approx(Speculation(tokens, acceptance).accepted)


def test_a_step_yields_one_token_when_none_is_taken_and_all_when_all_are() -> None:
    assert 1 == Speculation(5, 0.0).accepted
    assert 6 == Speculation(5, 1.0).accepted


def test_a_step_reads_once_and_computes_for_every_drafted_token() -> None:
    """Weights and KV of 100 sequences are read once; linear layers, attention and head compute 400 tokens."""
    model = replica(LLAMA_70B, "H200", Precision.FP8, 4)
    one, four = (stepper(each).decode(100, 2000).work for each in (model, from_text(model)))
    reads = ("linear_read", "head_read", "attention_read", "reduces", "steps", "sequences")
    assert [getattr(one, name) for name in reads] == [getattr(four, name) for name in reads]
    for name in ("linear_math", "head_math", "attention_math", "reduce_seconds"):
        assert 4 * getattr(one, name) == pytest.approx(getattr(four, name))


def test_drafted_tokens_are_routed_to_experts_of_their_own() -> None:
    """Eight sequences touch 1 - (31/32)^8 = 22 % of DeepSeek's experts, and 64 % with three drafted tokens each."""
    model = replica(DEEPSEEK, "H200", Precision.FP8, 8)
    one, four = (stepper(each).decode(8, 2000).work for each in (model, from_text(model)))
    assert (1 - (31 / 32) ** 32) / (1 - (31 / 32) ** 8) == pytest.approx(four.expert_read / one.expert_read)
    assert 4 * one.expert_math == pytest.approx(four.expert_math)


def test_the_time_of_a_token_is_that_of_its_step_over_what_the_step_yields() -> None:
    model = from_text(replica(LLAMA_8B, "H100", Precision.BF16), acceptance=1.0)
    step = stepper(model).decode(4, 1000)
    assert 4 == step.tokens
    assert 4 * step.seconds == pytest.approx(step.step_seconds)
    assert sum(step.parts) == pytest.approx(step.seconds)
    none_taken = stepper(from_text(model, acceptance=0.0)).decode(4, 1000)
    assert step.step_seconds == pytest.approx(none_taken.seconds)


def test_drafting_adds_a_pass_for_the_verified_tokens_and_one_for_each_further_one() -> None:
    model = by_layer(replica(DEEPSEEK, "H200", Precision.FP8, 8), tokens=3, acceptance=0.0)
    draft = draft_replica(model)
    assert draft is not None
    passes = stepper(draft)
    alone = stepper(from_text(model, acceptance=0.0)).decode(16, 2000).seconds
    first = stepper(from_text(draft, acceptance=0.0)).decode(16, 2000).seconds
    expected = alone + first + 2 * passes.decode(16, 2000).seconds
    assert expected == pytest.approx(stepper(model).decode(16, 2000).seconds)


def test_one_token_by_the_models_own_layer_is_worth_about_what_deepseek_reports() -> None:
    """1.8 times the tokens a second at 85 to 90 % taken (arXiv 2412.19437, 5.4.3), on their many GPUs."""
    model = replica(DEEPSEEK, "H200", Precision.FP8, Parallel(data=8, expert=8))
    assert 1.8 == pytest.approx(gain(model, by_layer(model, tokens=1, acceptance=0.875), 128), rel=0.15)


@pytest.mark.parametrize("model", PLAIN, ids=["8b", "70b", "deepseek-dcp", "deepseek-dp", "hybrid"])
def test_a_lone_sequence_gains_and_a_crowd_pays(model: ReplicaModel) -> None:
    """Alone, a step waits for memory and more tokens are nearly free; in a crowd that computes, they are not."""
    speculating = from_text(model, acceptance=0.3)
    assert gain(model, speculating, 1) > 1
    assert gain(model, speculating, 20_000, 100) < 1
    assert gain(model, by_layer(model), 1) > gain(model, by_layer(model), 20_000, 100)


def test_speculation_turns_a_step_that_waits_for_memory_into_one_that_computes() -> None:
    model = replica(LLAMA_70B, "H100", Precision.FP8, 4)
    assert stepper(model).decode(128, 500).limit is Limit.MemoryBandwidth
    assert stepper(from_text(model, tokens=7)).decode(128, 500).limit is Limit.Compute


@given(st.builds(by_layer, REPLICAS, TOKENS, CHANCES), BATCHES, CONTEXTS, FACTORS)
def test_a_larger_batch_or_context_is_never_faster_with_drafts_either(
    model: ReplicaModel, batch: float, context: float, factor: float
) -> None:
    steps = stepper(model)
    seconds = steps.decode(batch, context).seconds
    assert steps.decode(batch * factor, context).seconds >= seconds * (1 - 1e-9)
    assert steps.decode(batch, context * factor).seconds >= seconds * (1 - 1e-9)


@given(REPLICAS, TOKENS, st.tuples(CHANCES, CHANCES).map(sorted), BATCHES, CONTEXTS)
def test_a_better_draft_is_never_slower_and_none_is_faster_than_what_it_yields(
    model: ReplicaModel, tokens: int, chances: list[float], batch: float, context: float
) -> None:
    worse, better = (by_layer(model, tokens, chance) for chance in chances)
    slow, fast = (stepper(each).decode(batch, context).seconds for each in (worse, better))
    assert fast <= slow * (1 + 1e-9)
    assert gain(model, better, batch, context) <= tokens + 1


@given(REPLICAS, TOKENS, CONTEXTS)
def test_what_drafts_takes_memory_and_time_of_prompts(model: ReplicaModel, tokens: int, context: float) -> None:
    """It holds weights, and KV of every sequence, so that fewer tokens fit; and it reads the prompts too."""
    speculating = by_layer(model, tokens)
    assert footprint(model).weight_bytes < footprint(speculating).weight_bytes
    assert footprint(model).reserve_bytes < footprint(speculating).reserve_bytes
    assert sequence_bytes_per_gpu(model, context) <= sequence_bytes_per_gpu(speculating, context)
    assert kv_tokens(speculating, context) < kv_tokens(model, context)
    prompt = stepper(model).prefill(context, 0, 1).seconds
    assert prompt < stepper(speculating).prefill(context, 0, 1).seconds


def test_a_layer_of_deepseek_that_drafts_has_the_experts_of_its_report() -> None:
    """11.5 thousand million parameters beside the shared embeddings and head; its KV is one layer's of 61."""
    model = replica(DEEPSEEK, "H200", Precision.FP8)
    speculating = by_layer(model)
    added = footprint(speculating).weight_bytes - footprint(model).weight_bytes
    assert 11.5e9 == pytest.approx(added, rel=0.01)
    assert sequence_bytes_per_gpu(model, 1000) * 62 / 61 == sequence_bytes_per_gpu(speculating, 1000)


def test_an_eagle_layer_of_llama_has_a_head_of_its_own() -> None:
    """One layer of Llama 3.1 8B and 32,000 rows of a head, in 16 bits."""
    model = replica(LLAMA_8B, "H100", Precision.FP8)
    draft = Draft(dense_drafting_layer(model.architecture, 32_000), Precision.BF16)
    speculating = replace(model, speculation=Speculation(3, 0.7, draft))
    layer = 4096 * (4096 * 2 + 1024 * 2) + 3 * 4096 * 14336
    added = footprint(speculating).weight_bytes - footprint(model).weight_bytes
    assert 2 * (layer + 32_000 * 4096) == pytest.approx(added)


def test_an_eagle_layer_of_a_mixture_has_no_experts_and_keys_of_its_own() -> None:
    layer = dense_drafting_layer(architecture(DEEPSEEK), 32_000)
    assert layer.experts is None
    assert (8,) == layer.kv_heads
    assert 1 == layer.layers


def test_a_drafting_layer_of_a_hybrid_has_attention() -> None:
    """Three of four layers of Qwen3-Next are recurrences, and its drafting layer is none of them."""
    layer = drafting_layer(architecture("Qwen3-Next-80B-A3B-Instruct"))
    assert (2,) == layer.kv_heads
    assert 1 == layer.expert_layers
