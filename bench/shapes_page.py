"""docs/shapes.md from what was decided. The prose has no figure of its own: each stands in a table, from the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.catalog import load
from weft.domain.reasons import Reason
from weft.domain.texts.figures import digits, seconds
from weft.domain.texts.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.shape_cases import Application, Outcome, Pool, Rules
    from weft.domain.shape import Plan

_TEXT = """\
# Shapes for classes of applications

Written by `python -m bench.shapes`: what `weft plan` says of the examples on a few fabrics with nothing else on them.
The replicas are those for the declared rate with the headroom of `spec.scaling`; cost is GPUs times the relative
weights of `operator/weft/catalog/accelerators.yaml`, which are assumptions. Percentiles are at the rate that each
replica gets; TTFT of a decode pool begins when the prompt's KV cache is there. The limit is what binds a replica at its
capacity. How far the predictions are off is in [accuracy.md](accuracy.md).
{applications}
## Rules of thumb, and where they come from

Weft has one rule of its own here: stages across domains are looked at only where no domain holds the model. For the
rest it predicts every shape that fits, and takes the cheapest one that meets the targets (the simpler one of near
equals). What people go by comes out of that, and ends where the tables end it.

**What fits one GPU runs as replicas of one GPU.** A tensor group pays for its collectives and gives the same GPUs no
more bandwidth than replicas have, so more traffic means more replicas and not larger ones. The chat example with only
its rate changed:

{replicas}

**What does not fit takes tensor parallelism inside a domain, then stages across domains.** Stages make no token faster,
and come last. A rack is one domain of many nodes, so what needs stages between boards needs none there. One workload
with loose targets, so that size decides; *weights* are GiB on each GPU of the shape, *memory* is what the GPU has:

{sizes}

**Experts want a domain as large as the traffic is.** A step reads every expert that any of its tokens is sent to, so a
larger expert group reads less on each GPU and gives each expert more tokens; its attention is split over data-parallel
ranks. Boards end that at their own size, racks do not. One model with a tight TPOT target, at rising rates:

{experts}

**Long prompts want prefill, long answers want decode.** Prefill is bound by compute, and its work grows with the
prompt; decode is bound by memory, and its work grows with the answer. So the ratio of the two flips with the lengths,
at one rate, under one pair of targets, with one model:

{lengths}

The two splits among the examples above are the two ends of the same scale.
"""

_LATENCIES = ("TTFT p95", "TPOT p95")


def as_page(applications: tuple[Application, ...], rules: Rules) -> str:
    """The whole page."""
    return _TEXT.format(
        applications="".join(_section(application) for application in applications),
        replicas=_table("rate", rules.replicas),
        sizes=_sizes(rules.sizes),
        experts=_table("case", rules.experts),
        lengths=_lengths(rules.lengths),
    )


def _section(application: Application) -> str:
    what = _wishes(application.resource["spec"])
    table = _table("fabric", application.outcomes)
    refused = "".join(f"- {line}\n" for line in _refusals(application.outcomes))
    link = f"[examples/{application.file}](../examples/{application.file})"
    return "\n".join(
        ("", f"## {application.title}", "", f"{link}: {what}.", "", table, *(["", refused] if refused else [""]))
    )


def _wishes(spec: dict[str, Any]) -> str:
    workload = spec["workload"]
    said = [f"{spec['model']['id']}, {workload['requestsPerSecond']} requests/s"]
    for words, field in (("in", "inputTokens"), ("out", "outputTokens")):
        said.append(f"{workload[field]['mean']} tokens {words} (p95 {workload[field]['p95']})")
    if workload.get("prefixHitPercent"):
        said.append(f"{workload['prefixHitPercent']} % of the prompt cached")
    for metric in ("ttft", "tpot"):
        said += [f"{metric.upper()} {percentile} {target}" for percentile, target in spec["slo"][metric].items()]
    return ", ".join(said)


def _refusals(outcomes: Iterable[Outcome]) -> Iterable[str]:
    """Why a row is empty, or only the best that there is."""
    for outcome in outcomes:
        for pool in outcome.pools:
            if pool.why.reason not in {Reason.ShapeChosen, Reason.HoldNotPlanned}:  # the latter: the other half says it
                yield f"{outcome.case.words}, {pool.role}: {pool.why.message}."


def _table(heading: str, outcomes: tuple[Outcome, ...]) -> str:
    splits = any(len(outcome.pools) > 1 for outcome in outcomes)
    columns = [heading, *(["role"] if splits else []), "shape", "replicas", "GPUs", "cost", *_LATENCIES, "limit"]
    rows = [
        [outcome.case.words, *([pool.role] if splits else []), *_figures(pool)]
        for outcome in outcomes
        for pool in outcome.pools
    ]
    return _markdown(columns, rows)


def _figures(pool: Pool) -> list[str]:
    plan = pool.plan
    if plan is None:
        return [pool.why.reason.value, *["-"] * 6]
    told = plan.prediction
    latencies = [seconds(each.p95) if each.mean > 0 else "-" for each in (told.ttft, told.tpot)]
    return [_shape(plan), str(pool.replicas), str(pool.gpus), digits(pool.cost), *latencies, told.limit.value]


def _shape(plan: Plan) -> str:
    return str(plan.shape) if plan.verdict.reason is not Reason.BestEffort else f"{plan.shape} (BestEffort)"


def _sizes(outcomes: tuple[Outcome, ...]) -> str:
    columns = ["model", "shape", "GPUs a replica", "nodes a replica", "weights", "memory", "replicas", "limit"]
    return _markdown(columns, [[outcome.case.words, *_size(outcome.pools[0])] for outcome in outcomes])


def _size(pool: Pool) -> list[str]:
    plan = pool.plan
    if plan is None:
        return [pool.why.reason.value, *["-"] * 6]
    memory = load().accelerator(plan.shape.accelerator).memory_bytes
    counts = [plan.shape.gpus, plan.shape.pods]
    sizes = [plan.prediction.weight_bytes_per_gpu / GIB, memory / GIB]
    words = [str(plan.shape), *map(str, counts), *map(digits, sizes), str(pool.replicas)]
    return [*words, plan.prediction.limit.value]


def _lengths(outcomes: tuple[Outcome, ...]) -> str:
    columns = ["tokens", "prefill", "GPUs", "decode", "GPUs", "prefill GPUs per decode GPU"]
    return _markdown(columns, [[outcome.case.words, *_ratio(*outcome.pools)] for outcome in outcomes])


def _ratio(prefill: Pool, decode: Pool) -> list[str]:
    ratio = digits(prefill.gpus / decode.gpus) if decode.gpus else "-"
    return [*_side(prefill), *_side(decode), ratio]


def _side(pool: Pool) -> tuple[str, str]:
    return (f"{pool.replicas} x {pool.plan.shape}", str(pool.gpus)) if pool.plan else (pool.why.reason.value, "-")


def _markdown(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
