"""Its section of docs/accuracy.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COMMAND = "`python -m bench.accuracy TABLE --aiconfigurator PYTHON`"
_NOT_RUN = f"aiconfigurator was not run for this page, and no figures of it are kept: {_COMMAND} measures them."
_MARGINS = {"no_margin": "no margin", "our_margin": "a tenth as margin"}

_TEXT = """\
aiconfigurator {version} on the same closed-loop rows, scored by the same functions. Measured by
{command}
on {date} ({machine}){table}. Both are scored in sample: aiconfigurator is calibrated with most of the rows,
and Weft's coefficients are fitted to all of them.

| on the {answered} rows of {count} that it answers | aiconfigurator | Weft |
|---|---|---|
{rows}

Choices are as above, among the answered rows; a broken pick counts as 0. Among all measured candidates it abstains from
{abstained} of {choices} choices; counted as 0, they leave {among_all} of the best without a margin and {with_margin}
with one. {refused}

One plan is DeepSeek-V3 on a rack of 72 GB200, aggregated and with prefill and decode apart, 4000 tokens in and 1000
out, TTFT 2 s and TPOT 30 ms: `cli_default` of one engine, against what `weft plan` computes for a pool and for a split,
the slowest of five times. Loading either program is not counted; the load average of the machine was {load}.

aiconfigurator is asked as follows; where there was a choice, in the way that comes closer to the measurements:

- its newest database of measured kernels (SILICON, its default);
- the mean lengths of InferenceX, 0.9 of the nominal ones, and as batch the users of one attention rank;
- models, precisions and sizes as its own adapter for InferenceX has them, FP8 KV with TensorRT-LLM;
- MXFP4 experts with 8-bit activations on Blackwell except with vLLM, FP8 experts scaled by block where it knows no
  others, and whole experts spread over the GPUs where it knows no kernels for parts of them;
- rows that it warns about for want of KV cache ({overfull}) count as answered.
"""


def section(figures: dict[str, Any] | None) -> str:
    """Its figures with where they are from, or that there are none."""
    if figures is None:
        return _NOT_RUN
    theirs = figures["theirs"]
    without, with_margin = (theirs["choice_among_all"][name] for name in _MARGINS)
    return _TEXT.format(
        version=figures["version"],
        command=_COMMAND,
        date=figures["date"],
        machine=figures["machine"]["words"],
        table="" if figures["ours"] else ", on another table than the rest of this page",
        rows="\n".join(f"| {' | '.join(each)} |" for each in _lines(theirs, figures["ours"], figures["plans"])),
        answered=theirs["answered"],
        count=theirs["rows"],
        abstained=f"{without['abstained']:.0%}",
        choices=without["choices"],
        among_all=f"{without['of_the_best']:.2f}",
        with_margin=f"{with_margin['of_the_best']:.2f}",
        refused=_refusals(theirs["refused"]),
        load=figures["load_average"],
        overfull=theirs["overfull"],
    ).rstrip()


def _lines(theirs: dict[str, Any], ours: dict[str, Any] | None, plans: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Title, its figure, our figure."""
    both = (theirs, ours) if theirs["answered"] else ()
    for name in ("tpot", "ttft") if both else ():
        yield f"{name.upper()}, median / 90th percentile", *(_told(each, _error, name) for each in both)
    for name, words in _MARGINS.items() if both else ():
        yield f"picks that break the limit, {words}", *(_told(each, _broken, name) for each in both)
        yield f"of the best throughput, {words}", *(_told(each, _reached, name) for each in both)
    for backend, plan in plans["theirs"].items():
        yield f"one plan ({backend}), seconds (of processor time)", _seconds(plan), _seconds(plans["ours"])


def _told(figures: dict[str, Any] | None, words: Callable[[dict[str, Any], str], str], name: str) -> str:
    return words(figures, name) if figures else "-"


def _error(figures: dict[str, Any], name: str) -> str:
    return f"{figures[name]['median']:.1%} / {figures[name]['p90']:.1%}"


def _broken(figures: dict[str, Any], margin: str) -> str:
    return f"{figures['choice'][margin]['broken']:.1%}"


def _reached(figures: dict[str, Any], margin: str) -> str:
    """Of the best; in brackets where a pick held."""
    picked = figures["choice"][margin]
    return f"{picked['of_the_best']:.2f} ({picked['of_the_best_where_held']:.2f} where a pick holds)"


def _seconds(plan: dict[str, Any]) -> str:
    return str(plan.get("refused") or f"{plan['seconds']:.3g} ({plan['processor_seconds']:.3g})")


def _refusals(refused: dict[str, int]) -> str:
    told = ", ".join(f"{name} {count}" for name, count in refused.items())
    return f"Rows without an answer: {told}." if told else "No row is without an answer."
