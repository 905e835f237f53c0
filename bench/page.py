"""docs/accuracy.md from the scores."""

from __future__ import annotations

from typing import Any

from bench.aic.section import section

_LATENCIES = (
    ("TPOT, in sample", "in_sample", "tpot", "9 % / 28 %"),
    ("TPOT, one architecture left out", "architecture_left_out", "tpot", "14 % / 42 %"),
    ("TPOT, one accelerator left out", "accelerator_left_out", "tpot", "-"),
    ("TPOT, MXFP4 (one architecture has it) left out", "architecture_left_out_precision_of_its_own", "tpot", "-"),
    ("TTFT, in sample", "in_sample", "ttft", "28 % / 70 %"),
    ("TTFT, one architecture left out", "architecture_left_out", "ttft", "38 % / 85 %"),
    ("TTFT, one accelerator left out", "accelerator_left_out", "ttft", "-"),
    ("TPOT, after one live point of the deployment", "one_live_point", "tpot", "6 % / 15 %"),
    ("TTFT, after one live point of the deployment", "one_live_point", "ttft", "20 % / -"),
    ("TPOT, prefill and decode apart (not fitted)", "disaggregated", "tpot", "-"),
    ("TTFT, prefill and decode apart (not fitted)", "disaggregated", "ttft", "-"),
    ("tokens/s, offline (not fitted)", "offline", "output_rate", "20 % / -"),
    ("tokens/s, offline on MI300X (not fitted)", "offline_amd", "output_rate", "30 % / -"),
)

_TEXT = """\
# Accuracy of the performance model

Written by `python -m bench.accuracy TABLE` ({machine}). TABLE holds published measurements (InferenceX, sweeps of
aiconfigurator, TensorRT-LLM and ROCm documentation), which are not part of Weft. Errors are absolute, per row, and
relative to the measured value. Rows marked as doubtful are left out; medians and means are predicted alike.

Other published figures, of models, GPUs and hosts that are not in TABLE, are only looked at and never fitted:
[unseen.md](unseen.md).

| figure | rows | median | 90th percentile | aim |
|---|---|---|---|---|
{rows}

{answered} of {count} rows are answered.

## Intervals and choices

| deployments, and the interval | TPOT inside | high over low | TTFT inside | high over low |
|---|---|---|---|---|
| of architectures that the fit has not seen | {tpot_covered} | {tpot_width} | {ttft_covered} | {ttft_width} |
| newer releases than the fit has seen, with the interval of known ones | {tpot_plain} ({tpot_plain_faster} below) | | \
{ttft_plain} ({ttft_plain_faster} below) | |
| the same, with the interval that Weft gives newer releases | {tpot_newer} ({tpot_newer_faster} below) | \
{tpot_newer_width} | {ttft_newer} ({ttft_newer_faster} below) | {ttft_newer_width} |

Aim: 75 to 90 % inside, and high over low at most 2.2. For newer releases each month is predicted without the rows of
that month and later ({newer_rows} rows, {newer_faster} faster than predicted). Their intervals reach further down, as
far as newer releases of the *other* engines ask for ([ADR 0073](adr/0073-newer-releases-may-be-faster.md)). TTFT
misses the aim there because the high end was left as it is.

| choice among measured candidates, {choices} choices | broken limits | of the best throughput |
|---|---|---|
| as Weft chooses: the most tokens/s/GPU where the upper end of the TPOT interval is within the limit | {broken} | \
{of_the_best} |
| with a margin of a tenth on the prediction instead | {broken_with_margin} | {of_the_best_with_margin} |
| aim | at most 6 % | at least 0.88 |

Limits of TPOT are 15, 20, 30 and 50 ms. A pick that breaks its limit counts as 0.

## Beside another planner

{peers}

## What is known to be weak

| what | how it is off |
|---|---|
| TTFT of models with experts | off by half for DeepSeek when the fit has not seen it, as no second such architecture \
is measured in the same precision; its intervals are as wide |
| rows with late first tokens | TensorRT-LLM with Llama 70B at 1,024 tokens in and out by twenty decode steps \
(responses streamed in batches), early SGLang with DeepSeek by seconds; the table does not say which rows |
| twelve rows, most of vLLM 0.12 with Llama 8B | they imply more than the GPU can compute or its memory can read: \
scored, and missed, but not fitted |
| SGLang with more than about 450 users | it holds some back although there is memory for all |
| speculative decoding, shared contexts (DCP, PCP) | predicted, but no row of the table has them |
"""


def as_page(scores: dict[str, Any]) -> str:
    """The whole page."""
    interval, choice = scores["interval_of_left_out_architectures"], scores["choice"]
    margin = scores["choice_with_margin"]
    return _TEXT.format(
        machine=scores["machine"]["words"],
        rows="\n".join(_row(scores, *line) for line in _LATENCIES),
        answered=f"{scores['answered']['part']:.0%}",
        count=scores["answered"]["rows"],
        tpot_covered=f"{interval['tpot']['covered']:.0%}",
        tpot_width=interval["tpot"]["median_high_over_low"],
        ttft_covered=f"{interval['ttft']['covered']:.0%}",
        ttft_width=interval["ttft"]["median_high_over_low"],
        **_newer(scores["interval_of_newer_releases"]),
        choices=choice["choices"],
        broken=f"{choice['broken']:.1%}",
        of_the_best=f"{choice['of_the_best']:.3f}",
        broken_with_margin=f"{margin['broken']:.1%}",
        of_the_best_with_margin=f"{margin['of_the_best']:.3f}",
        peers=section(scores.get("aiconfigurator")),
    )


def _newer(told: dict[str, Any]) -> dict[str, str]:
    words = {"newer_rows": str(told["rows"]), "newer_faster": f"{told['faster_than_predicted']:.0%}"}
    for kind, name in (("without", "plain"), ("with", "newer")):
        for latency, found in told[kind].items():
            words[f"{latency}_{name}"] = f"{found['covered']:.0%}"
            words[f"{latency}_{name}_faster"] = f"{found['faster']:.0%}"
            words[f"{latency}_{name}_width"] = str(found["median_high_over_low"])
    return words


def _row(scores: dict[str, Any], title: str, kind: str, figure: str, aim: str) -> str:
    found = scores[kind][figure]
    return f"| {title} | {found['rows']} | {found['median']:.1%} | {found['p90']:.1%} | {aim} |"
