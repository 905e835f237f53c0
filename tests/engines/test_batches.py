"""What an engine takes into one step: the plan's numbers, unless the user says others (ADR 0047)."""

from __future__ import annotations

import pytest

from tests.render.pools import DEEPSEEK, LLAMA, plan, shape, spec
from tests.shaping.cases import CATALOG, H200, Wish
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName, Shape
from weft.domain.spec import EngineSpec, ModelSpec
from weft.engines import LaunchRequest, adapter_for
from weft.engines.options.given import given
from weft.render import revision
from weft.shaping.candidates import Option
from weft.shaping.case import ShapeCase

TOKENS = {
    EngineName.VLLM: "--max-num-batched-tokens",
    EngineName.SGLang: "--chunked-prefill-size",
    EngineName.TensorRTLLM: "--max-num-tokens",
}
SEQUENCES = {
    EngineName.VLLM: "--max-num-seqs",
    EngineName.SGLang: "--max-running-requests",
    EngineName.TensorRTLLM: "--max-batch-size",
}
QWEN_NEXT, GEMMA = "Qwen/Qwen3-Next-80B-A3B-Instruct", "google/gemma-3-27b-it"


def ranks(engine: EngineName = EngineName.VLLM) -> Shape:
    """Eight ranks with experts."""
    return shape(1, "H200", Precision.FP8, engine, data_parallel=8, expert_parallel=8)


def told(
    chosen: Shape | None = None, args: tuple[str, ...] = (), model: str = LLAMA, env: tuple[tuple[str, str], ...] = ()
) -> tuple[str, str]:
    """Tokens and sequences in a command, each empty where it is not there; the user's arguments are the last."""
    chosen = chosen or shape()
    wanted = spec(model=ModelSpec(model), engine=EngineSpec(args=args, env=env))
    command = adapter_for(chosen.engine).launch(LaunchRequest(wanted, plan(chosen))).command
    for name in (TOKENS[chosen.engine], SEQUENCES[chosen.engine]):
        assert sum(each.replace("_", "-").startswith(name) for each in command) <= 1, "said once, by one of both"
    return given(command, TOKENS[chosen.engine]), given(command, SEQUENCES[chosen.engine])


def counted(args: tuple[str, ...], chosen: Shape | None = None) -> tuple[float, float]:
    """Tokens and sequences that a plan counts on."""
    chosen = chosen or shape()
    wish = Wish("Llama-3.1-8B-Instruct", engine=EngineSpec(chosen.engine, args=args))
    found = ShapeCase(Option(chosen, H200, CATALOG.accelerator(chosen.accelerator)), wish.request(), CATALOG).replica
    return found.efficiency.batched_tokens, found.efficiency.sequences


@pytest.mark.parametrize("engine", EngineName)
@pytest.mark.parametrize("accelerator", ["L4", "A100", "H200", "B200"])
def test_every_engine_is_told_what_the_plan_counts_on_whatever_the_card(engine: EngineName, accelerator: str) -> None:
    known = CATALOG.accelerator(accelerator)
    expected = CATALOG.efficiency(known, engine, Precision.BF16)
    assert (f"{expected.batched_tokens:.0f}", f"{expected.sequences:.0f}") == told(shape(1, accelerator, engine=engine))


@pytest.mark.parametrize("engine", EngineName)
def test_a_number_of_the_users_wins_and_the_plan_counts_on_it(engine: EngineName) -> None:
    args = (f"{TOKENS[engine]}=4096", SEQUENCES[engine], "200")
    assert told(shape(engine=engine), args) == ("4096", "200")
    assert counted(args, shape(engine=engine)) == (4096, 200)


def test_numbers_are_read_as_vllm_writes_them() -> None:
    assert counted(("--max-num-batched-tokens", "16k")) == (16_000, 1024)
    assert counted(("--max-num-batched-tokens=16K",)) == (16_384, 1024)
    assert counted(("--max_num_seqs", "many")) == (8192, 1024)
    assert counted(("--max-num-seqs", "9" * 400)) == (8192, 1024)


def test_one_number_of_the_users_bounds_the_other_since_each_sequence_has_a_token() -> None:
    assert told(args=("--max-num-batched-tokens", "512")) == ("512", "512")
    assert counted(("--max-num-batched-tokens", "512")) == (512, 512)
    assert told(args=("--max-num-seqs", "10000")) == ("10000", "10000")


def test_a_beginning_that_argparse_knows_is_the_option() -> None:
    assert counted(("--max-num-batched=512",)) == (512, 512)
    wanted = spec(engine=EngineSpec(args=("--max-num-batched", "512")))
    command = adapter_for(EngineName.VLLM).launch(LaunchRequest(wanted, plan())).command
    assert "--max-num-batched-tokens" not in command
    assert given(command, "--max-num-seqs") == "512"


def test_numbers_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(Invalid, match="allowed: --max-num-seqs up to 256") as refused:
        told(args=("--max-num-seqs", "512", "--max-num-batched-tokens", "256"))
    assert refused.value.reason is Reason.ArgumentConflict


@pytest.mark.parametrize("engine", EngineName)
@pytest.mark.parametrize("value", ["0", "00"])
def test_a_batch_of_no_sequences_is_refused(engine: EngineName, value: str) -> None:
    with pytest.raises(Invalid, match=f"spec.engine.args .* {value}: no request would ever run") as refused:
        told(shape(engine=engine), (SEQUENCES[engine], value))
    assert refused.value.reason is Reason.ArgumentConflict


def test_a_step_of_no_tokens_is_refused_but_sglang_may_cut_no_prompts() -> None:
    for engine in (EngineName.VLLM, EngineName.TensorRTLLM):
        with pytest.raises(Invalid, match="no request would ever run"):
            told(shape(engine=engine), (f"{TOKENS[engine]}=0",))
    assert told(shape(engine=EngineName.SGLang), ("--chunked-prefill-size", "0"))[0] == "0"


def test_sglang_counts_all_ranks_together_and_divides_its_chunk_by_them() -> None:
    of_sglang = ranks(EngineName.SGLang)
    assert told(of_sglang, model=DEEPSEEK) == ("", "8192")
    assert counted(("--max-running-requests", "80", "--chunked-prefill-size", "32768"), of_sglang) == (4096, 10)
    assert told(ranks(), model=DEEPSEEK) == ("8192", "1024"), "vLLM counts each rank"


def test_engines_find_out_themselves_how_many_states_have_room() -> None:
    """More sequences than blocks for states and vLLM does not start."""
    for engine, model in ((EngineName.VLLM, QWEN_NEXT), (EngineName.SGLang, QWEN_NEXT), (EngineName.SGLang, GEMMA)):
        assert told(shape(8, engine=engine), model=model) == ("8192", "")
    assert told(shape(8), model=GEMMA) == ("8192", "1024")
    assert told(model="nobody/knows-it") == ("8192", "")


@pytest.mark.parametrize(("engine", "sequences"), [(EngineName.SGLang, ""), (EngineName.VLLM, "1024")])
def test_sglang_bounds_sequences_with_drafts_itself(engine: EngineName, sequences: str) -> None:
    """It takes 48 then, for the memory that drafting takes."""
    drafting = EngineSpec(speculative_json='{"method":"EAGLE3","model":"acme/eagle","tokens":3}')
    wanted = spec(model=ModelSpec(LLAMA), engine=drafting)
    command = adapter_for(engine).launch(LaunchRequest(wanted, plan(shape(engine=engine)))).command
    assert sequences == given(command, SEQUENCES[engine])


def test_prompts_that_may_not_be_cut_get_a_step_as_long_as_vllm_finds_right() -> None:
    assert told(args=("--no-enable-chunked-prefill",)) == ("", "1024")


def test_what_makes_vllm_choose_other_steps_leaves_them_to_it() -> None:
    assert told(args=("--performance-mode", "throughput")) == ("", "")
    assert told(ranks(), ("--all2all-backend", "deepep_low_latency"), DEEPSEEK) == ("", "")
    assert told(ranks(), (), DEEPSEEK, (("VLLM_ALL2ALL_BACKEND", "deepep_low_latency"),)) == ("", "")
    assert told(ranks(), ("--all2all-backend", "deepep_high_throughput"), DEEPSEEK) == ("8192", "1024")


def test_what_is_assumed_of_processors_is_not_told() -> None:
    cpu = shape(1, "cpu", Precision.FP32)
    assert told(cpu) == ("", "")
    assert told(cpu, ("--max-num-seqs", "64")) == ("", "64")


def test_what_is_told_is_part_of_no_revision_and_what_users_say_is() -> None:
    """An operator that tells more, or other numbers, restarts no engine."""
    assert revision(spec(), plan()) == "e3b94a2dc3"
    assert revision(spec(engine=EngineSpec(args=("--max-num-seqs", "8"))), plan()) != "e3b94a2dc3"
