"""How a plan is shown: as tables for people, or as plain data for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from weft.cli.plan.study import whole_cost
from weft.cli.plan.study_page import cost_rows, form_data, other_way, sentences, study_data, with_devices
from weft.cli.telling.tables import headed_table, named_rows
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingMode
from weft.domain.texts.figures import counted, digits, request_rate, seconds
from weft.engines.images.tags import is_of_unknown_release

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table

    from weft.cli.plan.planning import PlannedResource
    from weft.cli.plan.study import OtherForm, Study
    from weft.cli.plan.study_page import Money
    from weft.domain.decision import PoolDecision
    from weft.domain.reasons import Explanation
    from weft.domain.shape import Candidate, Percentiles, Plan
    from weft.domain.snapshot import PoolRecord

    LeftOut = Mapping[str, Mapping[str, Explanation]]

NARROW_COLUMNS = 110
_WARNINGS = frozenset({"ArgumentsUnknown", "ImageMismatched", "Relaxed"})
_BY_DEVICES = "devices for RDMA in spec.engine.resources.rdma carry more, where nodes have them"
_OF_UNKNOWN_RELEASE = ", taken for that release: say in spec.engine.version which one is in it"
_WITHOUT_TARGETS = (
    "no latency target is set: this is the cheapest that keeps up with the rate, however long a request takes; "
    "set one in spec.slo, or beside --model with --ttft and --tpot"
)
_HEADINGS = ("shape", "engine", "GPUs", "requests/s", "TTFT p99", "TPOT p99", "reason", "")


def is_a_yes(planned: PlannedResource) -> bool:
    """Whether every pool has a shape that meets its SLO, places, and replicas for its declared rate.

    A best effort does not meet it, and neither do fewer replicas, where a budget pays for no more.
    """
    conditions = [
        one for _, decision in planned.pools for one in decision.conditions if one.kind in {"Planned", "Placed"}
    ]
    good = all(one.status == "True" and one.explanation.reason is not Reason.BestEffort for one in conditions)
    paid = all(_budget_of_its_count(decision) is None for _, decision in planned.pools)
    return bool(planned.pools) and good and paid


@dataclass(frozen=True, slots=True)
class Beside:
    """What is shown beside the plan: studies by pool, and the other form; `with_nodes` is False for imagined nodes.

    `left_out` are, by pool, the accelerators that it could use but for taints and labels, with the reasons. `over_rdma`
    is a split over TCP as it would be over RDMA.
    """

    studies: dict[str, Study]
    form: OtherForm | None
    money: Money
    left_out: LeftOut
    with_nodes: bool = True
    over_rdma: OtherForm | None = None


def as_data(planned: PlannedResource, beside: Beside) -> dict[str, Any]:
    """Return JSON-like data of one planned resource; capacities in requests per second, times in seconds."""
    studies, form, left_out = beside.studies, beside.form, beside.left_out
    alone, pools = len(planned.pools) == 1, []
    for pool, decision in planned.pools:
        study = studies.get(pool.key.name)
        told = {**study_data(study), **(form_data(form) if alone else {})} if study else None
        unused = [
            {"accelerator": name, "reason": why.reason.value, "message": why.message}
            for name, why in left_out.get(pool.key.name, {}).items()
        ]
        pools.append({**_pool_data(pool, decision), "leftOut": unused, "study": told})
    data = {"resource": planned.title, "pools": pools, **_transport_data(planned)}
    if alone:
        return data
    wide = form_data(beside.over_rdma, "overRdma")
    return {**data, "cost": _cost_of_all(planned, studies), **form_data(form), **wide}


def _transport_data(planned: PlannedResource) -> dict[str, Any]:
    transport = planned.split.transport if planned.split is not None else None
    if transport is None:
        return {}
    times = {"meanSeconds": transport.mean_seconds, "p95Seconds": transport.p95_seconds}
    return {"transport": {"name": transport.name, "bytesPerSecond": transport.bytes_per_second, **times}}


def _cost_of_all(planned: PlannedResource, studies: dict[str, Study]) -> float | None:
    """Return the cost of all pools; None while a half has no plan, as one half alone is no split."""
    return whole_cost(studies.values()) if len(studies) == len(planned.pools) else None


def _pool_data(pool: PoolRecord, decision: PoolDecision) -> dict[str, Any]:
    plan, start_up, scale = decision.status.plan, decision.status.start_up, decision.status.scale
    return {
        "name": pool.key.name,
        "role": pool.spec.role.value if pool.spec else None,
        "replicas": decision.status.desired_replicas,
        "plan": _plan_data(plan) if plan else None,
        "startUp": asdict(start_up) if plan and start_up else None,
        "assignments": [{"replica": one.replica, "nodes": list(one.nodes)} for one in decision.status.assignments],
        "conditions": [
            {
                "type": one.kind,
                "status": one.status,
                "reason": one.explanation.reason.value,
                "message": one.explanation.message,
            }
            for one in decision.conditions
        ],
        "scale": {"reason": scale.reason.value, "message": scale.message} if scale else None,
    }


def _plan_data(plan: Plan) -> dict[str, Any]:
    return {
        "shape": str(plan.shape),
        "gpusPerReplica": plan.shape.gpus,
        "podsPerReplica": plan.shape.pods,
        "engine": f"{plan.engine.name.value} {plan.engine.version}",
        "image": plan.engine.image,
        "capacityRequestsPerSecond": plan.prediction.capacity,
        "ttftSeconds": asdict(plan.prediction.ttft),
        "tpotSeconds": asdict(plan.prediction.tpot),
        "kvTokens": plan.prediction.kv_tokens,
        "limit": plan.prediction.limit.value,
        "reason": plan.verdict.reason.value,
        "message": plan.verdict.message,
        "alternatives": [
            {
                "shape": str(one.shape),
                "engine": one.shape.engine.value,
                "reason": one.verdict.reason.value,
                "message": one.verdict.message,
            }
            for one in plan.alternatives
        ],
    }


def as_page(planned: PlannedResource, beside: Beside) -> RenderableType:
    """Show the plan for a terminal."""
    parts: list[RenderableType] = [Text(f"\n{planned.title}", style="bold"), *_wire(planned, beside)]
    if beside.studies and not any(_has_targets(study) for study in beside.studies.values()):
        parts.append(Padding(Text(_WITHOUT_TARGETS, style="yellow"), (0, 0, 0, 2), expand=False))
    for pool, decision in planned.pools:
        if len(planned.pools) > 1 and pool.spec is not None:
            parts.append(Text(f"\n  {pool.spec.role.value} pool {pool.key.name}", style="bold"))
        parts.append(Padding(_pool_page(pool, decision, beside), (0, 0, 0, 2), expand=False))
    if len(planned.pools) > 1:
        parts += [Text(f"\n  {each}") for each in other_way(beside.studies.values(), beside.form)]
    return Group(*parts)


def _has_targets(study: Study) -> bool:
    slo = study.request.spec.slo
    return bool(slo.ttft or slo.tpot)


def _wire(planned: PlannedResource, beside: Beside) -> Iterator[RenderableType]:
    """Yield what carries KV between the halves of a split, and what would carry more."""
    transport = planned.split.transport if planned.split is not None else None
    if transport is None:
        return
    wide = f": {with_devices(beside.studies.values(), beside.over_rdma)}" if beside.over_rdma else ""
    more = f"\n{_BY_DEVICES}{wide}" if transport.name == "TCP" else ""
    yield Padding(Text(f"KV over {transport}").append(more, style="dim"), (0, 0, 0, 2), expand=False)


def _pool_page(pool: PoolRecord, decision: PoolDecision, beside: Beside) -> RenderableType:
    parts: list[RenderableType] = []
    plan, study = decision.status.plan, beside.studies.get(pool.key.name)
    if plan is not None:
        facts = _facts(plan, pool, decision, study)
        for row in cost_rows(study, beside.money, decision.status.desired_replicas) if study else ():
            facts.add_row(row[0], row[1], Text(row[2], style="dim"))
        parts.append(facts)
    parts.append(_conditions(decision))
    if beside.with_nodes and decision.status.assignments:
        parts.append(_places(decision))
    if study is not None:
        whole = () if len(beside.studies) > 1 else other_way((study,), beside.form)  # of a split it stands below
        parts.append(Text("\n" + "\n".join((*sentences(study), *whole))))
    if plan is not None:
        unused = beside.left_out.get(pool.key.name, {})
        parts += [Text(f"{name} is left out: {why.message}") for name, why in unused.items()]
    if plan is not None and plan.alternatives:
        parts.append(_Alternatives(plan))
    return Group(*parts)


def _facts(plan: Plan, pool: PoolRecord, decision: PoolDecision, study: Study | None) -> Table:
    table = named_rows(3)
    each = f"{counted(plan.shape.gpus, 'GPU')} in {counted(plan.shape.pods, 'pod')} each"
    table.add_row("shape", Text(str(plan.shape), style="bold green"), Text(each, style="dim"))
    table.add_row(
        "replicas", str(decision.status.desired_replicas), Text(_total(plan, pool, decision, study), style="dim")
    )
    table.add_row(
        "capacity",
        _capacity(plan, decision, study),
        Text(f"limited by {plan.prediction.limit}", style="dim"),
    )
    prediction = plan.prediction
    for name, latency, error_bar in (
        ("TTFT", prediction.ttft, prediction.ttft_doubt),
        ("TPOT", prediction.tpot, prediction.tpot_doubt),
    ):
        if latency.mean > 0:  # a prefill replica, or an answer of one token, has none after the first
            table.add_row(name, *_latency(latency, error_bar))
    start_up = decision.status.start_up
    if start_up is not None:
        table.add_row("start-up", start_up.basis, Text(start_up.parts, style="dim"))
    table.add_row("engine", f"{plan.engine.name} {plan.engine.version}", Text(_image(plan, pool), style="dim"))
    return table


def _image(plan: Plan, pool: PoolRecord) -> str:
    """Return the engine's image, and that its release is a guess where nothing says it."""
    guessed = pool.spec is not None and is_of_unknown_release(pool.spec.engine, plan.engine.name)
    return f"{plan.engine.image}{_OF_UNKNOWN_RELEASE if guessed else ''}"


def _capacity(plan: Plan, decision: PoolDecision, study: Study | None) -> str:
    """Return what each replica serves, also beside the others where that is more."""
    alone, replicas = request_rate(plan.prediction.capacity), decision.status.desired_replicas
    if study is None or study.capacity.gain(replicas) <= 1.0:
        return f"{alone} each"
    return f"{alone} alone, each of {replicas} behind their router {digits(study.capacity.each(replicas))}"


def _latency(latency: Percentiles, error_bar: float) -> tuple[str, Text]:
    """Return percentiles at a replica's rate, and what the p99 exceeds one time in ten."""
    figures = f"p50 {seconds(latency.p50)}, p95 {seconds(latency.p95)}, p99 {seconds(latency.p99)}"
    return figures, Text(f"p99 at most {seconds(latency.p99 * error_bar)} with 90% confidence", style="dim")


def _total(plan: Plan, pool: PoolRecord, decision: PoolDecision, study: Study | None) -> str:
    """Return the GPUs of all replicas, and what determines their number."""
    gpus = f"{counted(plan.shape.gpus * decision.status.desired_replicas, 'GPU')} in all"
    if pool.spec is None or study is None:
        return gpus
    scaling, asked = pool.spec.scaling, pool.spec.workload.requests_per_second
    serve = study.capacity.of(decision.status.desired_replicas)
    short = f"; they serve {digits(serve)} of {request_rate(asked)}" if serve < asked else ""
    if scaling.mode is ScalingMode.External:
        said = "the replicas of its pool say" if pool.split_uid is not None else "spec.scaling.replicas says"
        return f"{gpus}, as {said}{short}"
    bounds = f"from {scaling.min_replicas} to {scaling.max_replicas}"
    return f"{gpus}, with {scaling.headroom:.0%} headroom, {bounds}{short}"


def _conditions(decision: PoolDecision) -> Table:
    table = named_rows(2)
    for one in decision.conditions:
        if one.kind in {"Planned", *_WARNINGS, "Placed"}:
            good = {"True": "green", "False": "red"}.get(one.status, "yellow")
            style = "red" if one.kind in _WARNINGS else good
            why = f"{one.explanation.reason}: {one.explanation.message}"
            table.add_row(Text(f"{one.kind} {one.status}", style=style), why)
    budget = _budget_of_its_count(decision)
    if budget is not None:
        table.add_row(Text("Scale", style="yellow"), f"{budget.reason}: {budget.message}")
    return table


def _budget_of_its_count(decision: PoolDecision) -> Explanation | None:
    """Return which budget keeps the count below what the declared rate needs; None if none, or if `Placed` says it."""
    scale = decision.status.scale
    if scale is None or scale.reason is not Reason.BudgetExhausted:
        return None
    return None if any(one.explanation == scale for one in decision.conditions) else scale


def _places(decision: PoolDecision) -> Table:
    table = named_rows(2)
    for one in decision.status.assignments:
        where = f"on {', '.join(one.nodes)}" if one.handover is None else f"wherever {one.handover.scheduler} admits it"
        table.add_row(f"replica {one.replica}", Text(where, style="dim"))
    return table


@dataclass(frozen=True, slots=True)
class _Alternatives:
    """The rejected shapes: a table, or two lines each where a terminal is too narrow for their messages."""

    plan: Plan

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\nwhy the others lost", style="dim")
        if options.max_width < NARROW_COLUMNS:
            for one in self.plan.alternatives:
                capacity = f"  {request_rate(one.prediction.capacity)}" if one.prediction else ""
                yield f"{one.shape}  {counted(one.shape.gpus, 'GPU')}{capacity}  {one.verdict.reason}"
                yield Padding(Text(one.verdict.message, style="dim"), (0, 0, 0, 2))
        else:
            yield _alternatives_table(self.plan)


def _alternatives_table(plan: Plan) -> Table:
    answers = plan.prediction.tpot.mean > 0
    shown = (each for each in _HEADINGS if answers or each != "TPOT p99")
    found = headed_table(*shown, right={"GPUs", "requests/s", "TTFT p99", "TPOT p99"}, wraps={""})
    for one in plan.alternatives:
        found.add_row(*_alternative_row(one, answers=answers))
    return found


def _alternative_row(one: Candidate, *, answers: bool) -> tuple[str, ...]:
    found = one.prediction
    figures = ["-", "-", "-"]
    if found is not None:
        figures = [digits(found.capacity), seconds(found.ttft.p99), seconds(found.tpot.p99)]
    shown = figures if answers else figures[:2]
    verdict = one.verdict
    return str(one.shape), one.shape.engine.value, str(one.shape.gpus), *shown, verdict.reason.value, verdict.message
