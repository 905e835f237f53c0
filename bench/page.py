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
aiconfigurator, TensorRT-LLM and ROCm documentation), which are not part of Weft. Errors are absolute and relative to
the measured value, per row; rows that are marked as doubtful are left out. Medians and means are predicted alike.

| figure | rows | median | 90th percentile | aim |
|---|---|---|---|---|
{rows}

- **Answered**: {answered} of {count} rows.
- **Interval**: for architectures that the fit has not seen, the interval holds {tpot_covered} of TPOT (high over
  low {tpot_width}) and {ttft_covered} of TTFT ({ttft_width}). Aim: 75 to 90 %, high over low at most 2.2.
- **Newer releases** than a fit has seen of their engine: each month is predicted without the rows of that month and
  later ({newer_rows} rows, {newer_faster} faster than predicted). Intervals of known releases would hold
  {tpot_plain} of TPOT ({tpot_plain_faster} below) and {ttft_plain} of TTFT ({ttft_plain_faster} below). Where fast ends
  reach as far as newer releases of the *other* engines ask for, intervals hold
  {tpot_newer} of TPOT ({tpot_newer_faster} below; high over low {tpot_newer_width}) and {ttft_newer} of TTFT
  ({ttft_newer_faster} below; {ttft_newer_width}): [ADR 0073](adr/0073-newer-releases-may-be-faster.md). TTFT misses the
  aim by its slow end, which is as it was.
- **Choice** among measured candidates under TPOT limits of 15, 20, 30 and 50 ms, {choices} choices, as Weft chooses:
  the most tokens/s/GPU where the upper end of the interval of TPOT is within the limit: {broken} broken, {of_the_best}
  of the best throughput (broken picks count 0). Aim: at most 6 %, at least 0.88. With a margin of a tenth on the
  prediction instead: {broken_with_margin} broken, {of_the_best_with_margin}.

## Beside another planner

{peers}

## What is known to be weak

- Prompts of models with experts: TTFT of DeepSeek is off by half when the fit has not seen it, for want of a second
  such architecture in the same precision. Its intervals say so.
- Some rows tell first tokens late: of TensorRT-LLM with Llama 70B at 1024 tokens in and out by just twenty decode steps
  (responses streamed in batches), of early SGLang with DeepSeek by seconds. Nothing in the table tells which.
- Twelve rows imply more prompts per second than the GPU can multiply, or more reads than its memory allows, most of
  them of vLLM 0.12 with Llama 8B. They are scored, and missed, but not fitted.
- SGLang with more than about 450 users: it holds some back although there is memory for all.
- Speculative decoding and shared contexts (DCP, PCP) are predicted, but the table records neither: no row scores
  them.
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
