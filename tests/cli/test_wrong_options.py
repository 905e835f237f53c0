"""What is typed wrong after `weft plan` is one sentence and exit code 2, and nothing is guessed or written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.terminal import pool, weft, written

if TYPE_CHECKING:
    from pathlib import Path

MODEL = ("--model", "meta-llama/Llama-3.1-8B-Instruct", "--accelerator", "H200")
RATE = "spec.workload.requestsPerSecond: must be a quantity above zero such as 8 or 500m, not "
LENGTH = "must be a mean, or MEAN:P95, in tokens, such as 2000:6000"
DURATION = "must be a duration above zero such as 300ms, 90s or 1h30m, not "


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--rate", ""), f"{RATE}''"),
        (("--rate", "0"), f"{RATE}'0'"),
        (("--rate", "nan"), f"{RATE}'nan'"),
        (("--rate", "1e400"), f"{RATE}'1e400'"),
        (("--isl", ""), f"--isl '' {LENGTH}"),
        (("--osl", ""), f"--osl '' {LENGTH}"),
        (("--isl", "-5"), f"--isl '-5' {LENGTH}"),
        (("--isl", "\u0661\u0660"), LENGTH),
        (("--isl", "0"), "spec.workload.inputTokens.mean: must be greater than or equal to 1, not 0"),
        (("--isl", "9" * 30), "must be less than or equal to 100000000"),
        (("--isl", "2000:1000"), "p95 must not be below mean"),
        (("--isl", "200000"), "ContextExceeded: spec.workload.inputTokens.mean 200000"),
        (("--ttft", "p95=0ms"), f"spec.slo.ttft.p95: {DURATION}'0ms'"),
        (("--tpot", "p95="), f"spec.slo.tpot.p95: {DURATION}''"),
        (("--tpot", "95"), "--tpot '95' must be PERCENTILE=DURATION"),
        (("--ttft", "p95=1s", "--ttft", "p95=2s"), "--ttft names a percentile twice, p95=1s, p95=2s: give each once"),
        (("--rate", "1", "--rate", "2"), "--rate is given twice: give it once"),
        (("--rate=1", "--rate", "2"), "--rate is given twice: give it once"),
        (("-o", "json", "--output", "yaml"), "-o is given twice: give it once"),
        (("--accelerator", "H200"), "spec.placement.accelerators: each entry must be there once"),
        (("--accelerator", "H2000"), "accelerator 'H2000' is not in the catalog, perhaps H200"),
        (("--accelerator", ""), "must have at least 1 character"),
        (("--precision", "FP6"), "spec.model.precisions.0: must be 'FP32'"),
        (("--gpu-hour-price", "inf"), "'--gpu-hour-price'"),
        (("--gpu-hour-price", "nan"), "'--gpu-hour-price'"),
        (("--gpu-hour-price", "-1"), "'--gpu-hour-price'"),
        (("--plot", "picture.pdf"), "give it a name that ends with .svg or .png"),
        (("--export", "-"), "cannot write to -: standard output has the answer, so name a file"),
        (("--plot", "none/picture.svg"), "cannot write none/picture.svg: there is no such folder"),
        (("--config", "."), "cannot read .: Is a directory"),
        (("--fabric", "."), "cannot read .: Is a directory"),
        (("--fabric", "4xH10"), "--fabric 4xH10: accelerator 'H10' is not in the catalog, perhaps H100"),
        (("--fabric", "0xH100"), "give 1 to 5000 nodes in all, and at least one of each kind"),
        (("--fabric", "4xH100,4999xH200"), "give 1 to 5000 nodes in all"),
        (("--fabric", "4xH100,1xh100"), "an accelerator is named twice: add its nodes up"),
        (("--fabric", "4xcpu"), "cpu stands for a GPU in tests, and engines are not planned for CPUs: name an accel"),
        (("--fabric", "4x4xH100"), "a node with H100 is counted with 8 GPUs, not 4: write 4xH100, or give a file"),
        (
            ("--fabric", "h100x4"),
            "cannot read h100x4: there is no such file; empty nodes are written as a count and an",
        ),
        (("--fabric", "H100"), "such as 4xH100 for four nodes of eight GPUs"),
        (("--fabric", "4x"), "such as 4xH100 for four nodes of eight GPUs"),
        (("-f", "pool.yaml"), "give either --file with resources, or --model with --rate"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, tuple) else "",
)
def test_a_wrong_option_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ending = weft("plan", *MODEL, *options)
    assert words in ending.sentence
    assert (2, "") == (ending.code, ending.out)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "must hold one JSON object, a config.json"),
        ("{}", "must hold one JSON object, a config.json"),
        ("[]", "is a list, not a config.json"),
        ('"text"', "is a string, not a config.json"),
        ('{"hidden_size": 40', "is neither YAML nor JSON"),
        ('{"a": 1, "a": 2}', "key 'a' appears twice"),
        ('{"hidden_size": NaN}', "config.json: hidden_size is nan, which JSON does not have: write a number"),
        ("rope_scaling: {factor: .nan}", "config.json: rope_scaling.factor is nan, which JSON does not have"),
        ('{"layers": [1, {"width": -Infinity}]}', "config.json: layers.1.width is -inf, which JSON does not have"),
        ("a: &it {b: *it, c: .inf}", "an alias (*) stands inside what it refers to"),
    ],
    ids=["nothing", "empty", "list", "text", "half", "twice", "NaN", "NaN inside", "infinite", "loop"],
)
def test_what_is_no_config_is_one_sentence(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content, encoding="utf-8")
    ending = weft("plan", "--model", "acme/own", "--config", str(file))
    assert words in ending.sentence
    assert str(file) in ending.sentence
    assert (2, "") == (ending.code, ending.out)


def test_what_may_be_repeated_is_taken_as_often_as_it_is_given(tmp_path: Path) -> None:
    """Files, and several percentiles of one latency."""
    first, second = (written(tmp_path / f"{name}.yaml", pool(name)) for name in ("first", "second"))
    out = weft("plan", "-f", first, "-f", second).out
    assert "InferencePool/first" in out
    assert "InferencePool/second" in out
    assert 0 == weft("plan", *MODEL, "--tpot", "p50=50ms", "--tpot", "p95=90ms").code


def test_a_model_that_nobody_knows_is_asked_for_with_the_option_that_describes_it() -> None:
    ending = weft("plan", "--model", "acme/own")
    assert ending.sentence == (
        "weft: --model: model 'acme/own' is not in the catalog; give the config.json from its repository with "
        "--config FILE"
    )
    assert 2 == ending.code
    near = weft("plan", "--model", "meta-llama/Llama-3.1-8B-Instrut")
    assert ", perhaps meta-llama/Llama-3.1-8B-Instruct" in near.sentence
