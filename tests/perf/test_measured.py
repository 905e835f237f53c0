"""A table row becomes a replica and a load, or one sentence with the column that is wrong."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.perf.replicas import CATALOG
from tests.perf.rows import LAYOUT, ROW, measured, row
from weft.domain.errors import Invalid
from weft.domain.hardware import Precision
from weft.domain.reasons import Reason
from weft.domain.shape import EngineName
from weft.perf.benchmarks.measured import Kind, Measurement, measurement

GPT_OSS = {"model": "gpt-oss-120b", "gpu": "H100"}
BLACKWELL = {"gpu": "B200", "precision": "NVFP4"}
NUMBERS = ("tp", "pp", "ep", "dp", "isl", "osl", "concurrency", "request_rate")
SIZES = ("tp", "pp", "ep", "dp")


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("vllm", EngineName.VLLM),
        ("vLLM", EngineName.VLLM),
        ("SGLang", EngineName.SGLang),
        ("trtllm", EngineName.TensorRTLLM),
        ("TRT-LLM", EngineName.TensorRTLLM),
        ("TensorRT-LLM", EngineName.TensorRTLLM),
        ("tensorrt_llm", EngineName.TensorRTLLM),
        ("TensorRT LLM", EngineName.TensorRTLLM),
    ],
)
def test_an_engine_is_found_however_it_is_spelt(name: str, engine: EngineName) -> None:
    found = measured(engine=name).replica
    assert found.shape.engine is engine
    assert found.efficiency.batched_tokens == CATALOG.performance[engine].constants["batched_tokens"]


def test_the_gpu_is_found_in_any_case_with_its_memory() -> None:
    found = measured(gpu="h200").replica
    assert found.shape.accelerator == found.accelerator.name == "H200"
    assert found.memory_bytes == CATALOG.accelerator("H200").memory_bytes


def test_a_mig_device_has_its_share_of_the_gpu() -> None:
    """Its profile says of how much memory; it was taken for the whole GPU."""
    whole = measured(gpu="NVIDIA-H100-80GB-HBM3", tp="", n_gpus="").replica.accelerator
    part = measured(gpu="NVIDIA-H100-80GB-HBM3-MIG-3g.40gb", tp="", n_gpus="").replica
    assert part.accelerator == whole.part(40 * 10**9)
    assert part.memory_bytes == 40 * 10**9
    assert part.efficiency == measured(gpu="H100", tp="", n_gpus="").replica.efficiency


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        ("NVIDIA-H200-SHARED", "gpu 'NVIDIA-H200-SHARED' is shared by an unknown number of users: name the whole GPU"),
        ("NVIDIA-H200-MIG-3g.71gb", "gpu 'NVIDIA-H200-MIG-3g.71gb' is part of a GPU: one is a replica alone"),
    ],
)
def test_parts_of_gpus_are_no_group_and_none_is_of_an_unknown_size(gpu: str, words: str) -> None:
    with pytest.raises(Invalid, match=words) as caught:
        measured(gpu=gpu, tp="2")
    assert caught.value.reason is Reason.SharedDevice


def test_sizes_are_those_of_the_row_and_one_where_it_says_nothing() -> None:
    shape = measured(model="DeepSeek-R1", tp="2", pp="4", dp="8.0", ep="16").replica.shape
    sizes = (shape.tensor_parallel, shape.pipeline_parallel, shape.data_parallel, shape.expert_parallel)
    assert sizes == (2, 4, 8, 16)
    shape = measured(tp="", pp="", dp="", ep="", n_gpus="").replica.shape
    assert shape.gpus == shape.expert_parallel == 1


def test_without_any_size_all_gpus_are_one_tensor_group() -> None:
    assert measured(tp="", n_gpus="8").replica.shape.tensor_parallel == 8
    assert measured(tp="", n_gpus="8", dp="2").replica.shape.gpus == 2


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"tp": "3"}, "tp '3' must be a divisor of 64 attention heads"),
        ({"tp": "", "n_gpus": "6"}, "n_gpus '6' must be a divisor of 64 attention heads"),
        ({"pp": "81"}, "pp '81' must be at most 80, the layers of the model"),
        ({"model": "DeepSeek-V3", "tp": "8", "ep": "3"}, "ep '3' must be a divisor of 8, the GPUs of tp x dp"),
        ({"model": "DeepSeek-V3", "tp": "8", "ep": "16"}, "ep '16' must be a divisor of 8, the GPUs of tp x dp"),
        ({"ep": "2"}, "ep '2' must be 1 or empty: meta-llama/Llama-3.3-70B-Instruct has no experts"),
    ],
)
def test_a_size_that_the_model_does_not_allow_is_refused(columns: dict[str, str], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        measured(**columns)


@pytest.mark.parametrize(("prompt", "answer"), [("131072", "1"), ("1", "131072"), ("1000000", "1")])
def test_prompt_and_answer_share_the_context_of_the_model(prompt: str, answer: str) -> None:
    assert measured(isl="131071", osl="1").input_tokens == 131071
    with pytest.raises(Invalid, match=f"^isl {prompt} and osl {answer} are more than the 131072 tokens") as refused:
        measured(isl=prompt, osl=answer)
    assert refused.value.reason is Reason.ContextExceeded


def test_experts_that_do_not_divide_get_copies_until_each_gpu_has_as_many() -> None:
    wide = {"model": "DeepSeek-R1", "gpu": "GB200", "tp": "1", "dp": "72", "ep": "72"}
    found = measured(**wide).replica.architecture
    published = measured(**{**wide, "dp": "64", "ep": "64"}).replica.architecture
    assert published.experts is not None
    assert (published.experts.count, found.experts) == (256, replace(published.experts, count=288))
    assert found.expert_layers == published.expert_layers == 58


def test_each_half_has_the_copies_of_its_own_expert_group() -> None:
    note = LAYOUT.replace("(tp1 dp8 ep8)", "(tp1 dp24 ep24)")
    found = measured(model="DeepSeek-R1", gpu="GB200", tp="1", dp="72", ep="72", note=note)
    assert found.prefill is not None
    halves = found.replica.architecture.experts, found.prefill.replica.architecture.experts
    assert [each.count for each in halves if each] == [288, 264]


def test_lengths_that_are_drawn_must_fit_the_context_at_their_longest() -> None:
    with pytest.raises(Invalid, match="more than the 131072 tokens"):
        measured(isl="131000", osl="500", source="InferenceX")


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("(tp7 dp8 ep8)", "tp of prefill in note .* must be a divisor of 128 attention heads"),
        ("(tp1 dp8 ep3)", "ep of prefill in note .* must be a divisor of 8, the GPUs of tp x dp"),
        ("(tp1 dp8 ep16)", "ep of prefill in note .* must be a divisor of 8, the GPUs of tp x dp"),
    ],
)
def test_sizes_of_prefill_are_held_to_what_those_of_decode_are(layout: str, words: str) -> None:
    note = LAYOUT.replace("(tp1 dp8 ep8)", layout)
    with pytest.raises(Invalid, match=words):
        measured(model="DeepSeek-R1", gpu="GB200", tp="1", dp="32", ep="32", note=note)


@pytest.mark.parametrize(
    ("users", "rate", "kind"),
    [
        ("16", "2", Kind.OpenLoop),
        ("16", "", Kind.ClosedLoop),
        ("16", "inf", Kind.Offline),
        ("", "inf", Kind.Offline),
        ("", "2.5", Kind.OpenLoop),
    ],
)
def test_the_kind_follows_from_users_and_rate(users: str, rate: str, kind: Kind) -> None:
    found = measured(concurrency=users, request_rate=rate)
    assert found.kind is kind
    assert found.users == float(users or 0)
    assert found.rate == float(rate or 0)


@pytest.mark.parametrize(
    ("columns", "precision"),
    [
        ({"precision": "fp8"}, Precision.FP8),
        ({"precision": "FP16"}, Precision.BF16),
        ({"precision": ""}, Precision.BF16),
        ({"gpu": "B200", "precision": "FP4"}, Precision.NVFP4),
        ({"model": "DeepSeek-R1", "precision": ""}, Precision.FP8),
    ],
)
def test_a_precision_is_read_and_is_that_of_the_checkpoint_where_nothing_is_said(
    columns: dict[str, str], precision: Precision
) -> None:
    assert measured(**columns).replica.shape.precision is precision


@pytest.mark.parametrize("stated", ["", "FP4", "fp8", "MXFP4"])
def test_a_checkpoint_in_mxfp4_stays_in_it(stated: str) -> None:
    assert measured(**GPT_OSS, precision=stated).replica.shape.precision is Precision.MXFP4


@pytest.mark.parametrize(
    ("columns", "kv"),
    [
        ({}, Precision.FP8),
        ({"kv_precision": "auto"}, Precision.FP8),
        (BLACKWELL, Precision.FP8),
        ({"engine": "trtllm"}, Precision.FP8),
        ({"engine": "sglang"}, Precision.BF16),
        ({"precision": "BF16"}, Precision.BF16),
        (GPT_OSS, Precision.BF16),
        ({"kv_precision": "bf16"}, Precision.BF16),
        ({"kv_precision": "FP16"}, Precision.BF16),
        ({"engine": "sglang", "kv_precision": "fp8_e5m2"}, Precision.FP8),
        ({**GPT_OSS, "kv_precision": "FP8"}, Precision.FP8),
        ({**GPT_OSS, "gpu": "B200"}, Precision.FP8),
        ({**GPT_OSS, "gpu": "B200", "engine": "sglang"}, Precision.BF16),
    ],
)
def test_quantised_checkpoints_have_eight_bits_of_kv_unless_told_otherwise_or_under_sglang(
    columns: dict[str, str], kv: Precision
) -> None:
    assert measured(**columns).replica.kv_precision is kv


@pytest.mark.parametrize("source", ["InferenceX (a table)", "inferencemax"])
def test_lengths_that_are_drawn_have_nine_tenths_of_the_nominal_mean(source: str) -> None:
    drawn, given_length = measured(source=source), measured(source="a sweep")
    assert (drawn.input_tokens, drawn.output_tokens, drawn.equal_lengths) == (900.0, 450.0, False)
    assert (given_length.input_tokens, given_length.output_tokens, given_length.equal_lengths) == (1000.0, 500.0, True)


@pytest.mark.parametrize(
    ("version", "note", "release"),
    [
        ("0.9.1", "measured 2025-10-03", "0.9.1"),
        ("", "closed loop; measured 2025-10-03; id 5", "2025-10"),
        ("", "measured last week", None),
        ("", "", None),
    ],
)
def test_the_release_is_the_version_or_the_month_of_the_note(version: str, note: str, release: str | None) -> None:
    found = measured(engine_version=version, note=note)
    assert found.release == release
    slower = found.replica.efficiency.request_seconds > measured().replica.efficiency.request_seconds
    assert slower == (release is not None)


def test_a_layout_in_the_note_gives_prefill_replicas_of_their_own() -> None:
    found = measured(model="DeepSeek-R1", gpu="GB200", tp="1", dp="32", ep="32", note=LAYOUT)
    assert found.decoders == 3
    assert found.replica.shape.data_parallel == 32
    assert found.prefill is not None
    assert found.prefill.count == 2
    shape = found.prefill.replica.shape
    assert (shape.tensor_parallel, shape.data_parallel, shape.expert_parallel) == (1, 8, 8)
    assert found.prefill.replica.architecture is found.replica.architecture


def test_without_a_layout_one_replica_does_both() -> None:
    found = measured(note="")
    assert (found.prefill, found.decoders) == (None, 1)


@pytest.mark.parametrize(("part", "instead"), [("2 x", "0 x"), ("dp8", "dp0"), (" : ", " and "), (" dp8 ep8", "")])
def test_a_layout_that_cannot_be_read_is_refused_and_not_left_out(part: str, instead: str) -> None:
    with pytest.raises(Invalid, match=r"^note .* must be with a layout such as P:D = "):
        measured(note=LAYOUT.replace(part, instead))


@pytest.mark.parametrize(
    ("note", "prefills", "tensor", "decoders"),
    [
        ("disaggregated, 2P1D", 2, 8, 1),
        ("1P3D over InfiniBand", 1, 8, 3),
        ("disaggregated: prefill 4xTP2, decode 2xTP8", 4, 2, 2),
    ],
)
def test_shorter_layouts_are_read_too(note: str, prefills: int, tensor: int, decoders: int) -> None:
    found = measured(note=note, tp="8", n_gpus="")
    assert found.prefill is not None
    assert (found.prefill.count, found.prefill.replica.shape.tensor_parallel) == (prefills, tensor)
    assert (found.decoders, found.copies) == (decoders, 1)


@pytest.mark.parametrize("note", ["disaggregated", "P/D on separate nodes", "P:D as in the paper"])
def test_a_split_without_its_counts_is_not_taken_for_one_replica(note: str) -> None:
    with pytest.raises(Invalid, match=r"^note .* must be with a layout such as P:D = "):
        measured(note=note)


def test_gpus_of_several_replicas_make_several() -> None:
    assert 3 == measured(tp="8", n_gpus="24").copies
    assert 1 == measured(tp="8", n_gpus="8").copies
    assert 1 == measured(tp="8", n_gpus="12").copies


def test_ranks_inside_a_tensor_group_are_counted_once() -> None:
    """`--tp 8 --dp 8` of SGLang is eight GPUs, each a rank of its own."""
    shape = measured(model="DeepSeek-R1", gpu="H200", tp="8", dp="8", ep="8", n_gpus="8").replica.shape
    assert (shape.tensor_parallel, shape.data_parallel, shape.gpus) == (1, 8, 8)
    shape = measured(model="DeepSeek-R1", gpu="H200", tp="4", dp="2", ep="8", n_gpus="8").replica.shape
    assert (shape.tensor_parallel, shape.data_parallel, shape.gpus) == (4, 2, 8)


@pytest.mark.parametrize("column", NUMBERS)
@pytest.mark.parametrize("text", ["-1", "0", "nan", "many", "1e300", "-inf", "1,5", "2 x", "1_0", "\u0663"])
def test_what_no_number_can_be_is_refused_by_its_column(column: str, text: str) -> None:
    with pytest.raises(Invalid, match=rf"^{column} '{text}' must be ") as refused:
        measured(**{column: text})
    assert refused.value.reason is Reason.SpecInvalid


@pytest.mark.parametrize("column", [*SIZES, "concurrency"])
def test_half_a_gpu_or_user_is_refused(column: str) -> None:
    with pytest.raises(Invalid, match=rf"^{column} '1.5' must be a whole number"):
        measured(**{column: "1.5"})


@pytest.mark.parametrize("column", [*SIZES, "isl", "osl", "concurrency"])
@pytest.mark.parametrize("text", ["inf", "1e999999"])
def test_infinity_is_a_rate_and_nothing_else(column: str, text: str) -> None:
    assert measured(request_rate=text).rate == math.inf
    with pytest.raises(Invalid, match=f"^{column} '{text}' must be"):
        measured(**{column: text})


@pytest.mark.parametrize(
    ("columns", "reason", "words"),
    [
        ({"model": ""}, Reason.SpecInvalid, "model '' must be a name"),
        ({"model": "acme/secret"}, Reason.ModelUnknown, "model 'acme/secret' is not in the catalog"),
        ({"gpu": " "}, Reason.SpecInvalid, "gpu ' ' must be a name"),
        ({"gpu": "H300"}, Reason.NoAccelerator, "accelerator 'H300' is not in the catalog"),
        ({"engine": ""}, Reason.SpecInvalid, "engine '' must be a name"),
        ({"engine": "tgi"}, Reason.SpecInvalid, "engine 'tgi' must be one of vllm, sglang"),
        ({"precision": "FP6"}, Reason.SpecInvalid, "precision 'FP6' must be one of"),
        ({"precision": "NVFP4"}, Reason.PrecisionUnsupported, "does not serve NVFP4 on H200"),
        ({"kv_precision": "FP5"}, Reason.SpecInvalid, "kv_precision 'FP5' must be auto or one of"),
        ({"isl": ""}, Reason.SpecInvalid, "isl '' must be a number"),
        ({"osl": ""}, Reason.SpecInvalid, "osl '' must be a number"),
        ({"concurrency": ""}, Reason.SpecInvalid, "concurrency '' must be a number of users, or request_rate"),
    ],
)
def test_what_is_missing_or_unknown_is_told_by_name(columns: dict[str, str], reason: Reason, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        measured(**columns)
    assert refused.value.reason is reason
    assert words in refused.value.message


def test_a_row_needs_five_columns_and_a_load() -> None:
    needed = {name: ROW[name] for name in ("model", "gpu", "engine", "isl", "osl", "concurrency")}
    assert measurement(needed, CATALOG).replica.shape.gpus == 1
    for name in needed:
        with pytest.raises(Invalid, match=f"^{name} '' must be"):
            measurement({each: needed[each] for each in needed if each != name}, CATALOG)


TEXTS = st.text(max_size=20) | st.sampled_from(
    [
        "",
        "0",
        "1",
        "2",
        "-0",
        "inf",
        "nan",
        "1e400",
        "1e-320",
        "9" * 5000,
        "\u0663",
        "1_0",
        "\x00",
        "FP8",
        "auto",
        LAYOUT,
    ]
)


@given(st.dictionaries(st.sampled_from([*ROW, "source", "other"]), TEXTS))
@example({"tp": "1e400"})
@example({"engine_version": "9" * 5000 + ".1"})
@example({"note": LAYOUT.replace("dp8", "dp0")})
def test_any_text_in_any_column_is_a_measurement_or_refused(columns: dict[str, str]) -> None:
    try:
        found = measurement(row(**columns), CATALOG)
    except Invalid:
        return
    assert isinstance(found, Measurement)
    assert found.replica.shape.gpus >= 1
    assert found.users >= 1 or found.rate > 0
    assert all(length > 0 and math.isfinite(length) for length in (found.input_tokens, found.output_tokens))
