"""How a study is shown: costs, what other requirements would take, and where the time of a step goes."""

from __future__ import annotations

import itertools
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from weft.cli.plan.study import whole_cost
from weft.cli.telling.tables import headed_table
from weft.domain.reasons import Reason
from weft.domain.scaling_spec import ScalingMode
from weft.domain.texts.figures import counted, digits, request_rate, seconds
from weft.domain.texts.units import duration
from weft.shaping.ranking import ENOUGH, part

if TYPE_CHECKING:
    from collections.abc import Collection

    from rich.console import RenderableType

    from weft.cli.plan.study import OtherEngine, OtherForm, Study
    from weft.perf.steps import StepTime
    from weft.shaping.outlook import DomainStep, Variation

PARTS = {
    "linear": "attention and dense weights",
    "experts": "experts",
    "head": "LM head",
    "attention": "attention over the KV cache",
    "reduces": "all-reduce in the tensor group",
    "exchanges": "exchange with experts",
    "hops": "hops between stages",
    "bubbles": "waiting for the slowest stage",
    "launch": "launch and scheduling",
    "waits": "waiting for the host to launch",
    "gathers": "gathering a shared context",
    "activations": "hidden states in and out of memory",
}
_NEGLIGIBLE = 0.005


@dataclass(frozen=True, slots=True)
class Money:
    """The price of an hour of a GPU of cost 1 (an H100), in any currency; None: costs stay in such hours."""

    per_hour: float | None = None

    def per_million(self, hours: float) -> str:
        """Format a cost per million tokens, given in H100-hours: `0.12 H100-hours` or `0.27`."""
        return f"{digits(hours)} H100-hours" if self.per_hour is None else digits(hours * self.per_hour)


def cost_rows(study: Study, money: Money, replicas: int) -> tuple[tuple[str, str, str], ...]:
    """Return rows of the table of facts: name, figure, remark. The costs are of the declared rate.

    That is said where so many `replicas` are not those that serve it, as a budget or somebody else decides on them.
    """
    bill = study.bill
    remark = f"{money.per_million(bill.per_million_output_tokens)} per million output tokens, "
    remark += f"{money.per_million(bill.per_million_tokens)} of all"
    bend = f"from {request_rate(study.knee)} each"
    figure = f"{digits(bill.cost)} for {counted(bill.gpus, 'GPU')} (H100 = 1)"
    if study.request.spec.scaling.mode is ScalingMode.External or bill.replicas != replicas:
        figure += " at the declared rate"
    return (
        ("cost", figure, remark),
        ("saturation", bend, "beyond it latency grows faster than throughput"),
    )


def sentences(study: Study) -> tuple[str, ...]:
    """Return sentences about one pool with other requirements and other engines."""
    if study.plan.verdict.reason is Reason.BestEffort:
        return (_within_reach(study),)
    differing = [each for each in study.variations if _differs(study, each)]
    alike = [each.wish for each in study.variations if not _differs(study, each)]
    told = [f"with {each.wish} instead of {each.was}: {_difference(study, each)}" for each in differing]
    if alike:
        told.append(f"the same {counted(study.bill.gpus, 'GPU')} with {' or '.join(alike)}")
    return (*told, *(_engine(study, each) for each in study.engines))


def _within_reach(study: Study) -> str:
    """Say which targets the closest shape would meet, by its latencies at its rate with the error bar."""
    found, slo = study.plan.prediction, study.request.spec.slo
    told = [
        f"{name} p{percentile}={_reached(getattr(latency, f'p{percentile}') * error_bar)} instead of {_reached(target)}"
        for name, targets, latency, error_bar in (
            ("TTFT", slo.ttft, found.ttft, found.ttft_doubt),
            ("TPOT", slo.tpot, found.tpot, found.tpot_doubt),
        )
        for percentile, target in targets
        if latency.mean > 0 and getattr(latency, f"p{percentile}") * error_bar > target
    ]
    return f"it would be met with {', '.join(told)}" if told else "no target stands in the way, only room for sequences"


def _reached(seconds_taken: float) -> str:
    """Format the shortest target that is met, as options take it; rounded, as a hair above a millisecond is noise."""
    return duration(round(seconds_taken * 1000, 9))


def _differs(study: Study, variation: Variation) -> bool:
    return variation.gpus != study.bill.gpus or bool(variation.shortfall) or variation.shape != study.plan.shape


def _difference(study: Study, variation: Variation) -> str:
    if variation.gpus is None or variation.shortfall:
        return variation.shortfall or "no shape meets that"
    more = variation.gpus - study.bill.gpus
    gpus = f"{counted(abs(more), 'GPU')} {'more' if more > 0 else 'fewer'}" if more else "as many GPUs"
    now, then = digits(study.bill.cost), digits(variation.cost)
    shape = "" if variation.shape == study.plan.shape else f": {variation.shape}"
    return f"{gpus}, {'the same cost' if then == now else f'cost {then} instead of {now}'}{shape}"


def _engine(study: Study, other: OtherEngine) -> str:
    if not other.meets_slo:
        return f"{other.engine.value} has no shape that meets the SLO (Auto does not choose it)"
    cost = _instead_of(other.cost, study.bill.cost)
    return f"{other.engine.value} would cost {cost}{_of_less(other.served)}: {other.shape} (Auto does not choose it)"


def _instead_of(other: float, planned: float) -> str:
    """Compare the costs of another way and the plan; they are the same where both read the same."""
    then, now = digits(other), digits(planned)
    return "the same" if then == now else f"{then} instead of {now}"


def other_way(studies: Collection[Study], form: OtherForm | None) -> tuple[str, ...]:
    """Return a sentence about the other form as a whole; none beside a best effort, which is no answer yet."""
    if form is None or any(study.plan.verdict.reason is Reason.BestEffort for study in studies):
        return ()
    cost = _instead_of(form.cost, whole_cost(studies))
    lacks = f"; {form.lacks}" if form.lacks else ""
    return (f"as {_article(form.name)} it would cost {cost}{_of_less(form.served)}: {form.shapes}{lacks}",)


def with_devices(studies: Collection[Study], form: OtherForm) -> str:
    """Return what a split over TCP would cost over RDMA."""
    return f"it would cost {_instead_of(form.cost, whole_cost(studies))}{_of_less(form.served)}, {form.shapes}"


def _of_less(served: float) -> str:
    """Say that a form serves only a part of the rate; empty if it serves all."""
    return "" if served >= ENOUGH else f" and serve {part(served)} of the rate, as more replicas are not allowed"


def breakdown_page(study: Study, steps: tuple[DomainStep, ...], useful: int | None) -> RenderableType:
    """Show where the time of both kinds of step goes, and what larger domains buy."""
    point = study.operating_point
    parts: list[RenderableType] = []
    if point is not None and point.decode is not None:
        parts.append(_step_table(f"a decode step of {digits(point.batch)} requests", point.decode))
    if point is not None and study.request.spec.role.value != "Decode":
        parts.append(_step_table("a prompt of mean length", point.prefill))
    parts.append(_domain_table(steps, useful))
    return Group(*parts)


def _step_table(title: str, step: StepTime) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0))  # not `headed_table`: its first heading is a sentence
    table.add_column(f"{title}: {seconds(step.seconds)}, bound by {step.limit}", header_style="bold")
    table.add_column("TIME", header_style="dim", justify="right")
    table.add_column("", header_style="dim", justify="right")
    for name, share, value in shares(step):
        table.add_row(PARTS[name], seconds(value), f"{share:.0%}")
    return Group(Text(""), table)


def shares(step: StepTime) -> list[tuple[str, float, float]]:
    """Return (part, share of the step, seconds), the largest first, without negligible ones."""
    whole = sum(step.parts)
    scale = step.seconds / whole if whole else 0.0
    found = [(name, value / whole, value * scale) for name, value in step.parts._asdict().items() if whole]
    return sorted((each for each in found if each[1] >= _NEGLIGIBLE), key=lambda each: -each[1])


def _domain_table(steps: tuple[DomainStep, ...], useful: int | None) -> RenderableType:
    found = headed_table("NVLink domain", "cost", "shape", right={"NVLink domain", "cost"}, wraps={"shape"})
    for sizes, step in _alike(steps):
        found.add_row(sizes, digits(step.cost) if step.shape else "-", str(step.shape or "nothing meets the SLO"))
    said = "no domain is large enough"
    if useful is not None:
        said = f"an NVLink domain of more than {counted(useful, 'GPU')} buys nothing here"
    return Group(Text(""), found, Text(said, style="dim"))


def _alike(steps: tuple[DomainStep, ...]) -> list[tuple[str, DomainStep]]:
    """Put neighbouring domain sizes with the same outcome into one line: `8 to 72`."""
    groups = [list(group) for _, group in itertools.groupby(steps, key=lambda step: (step.shape, step.cost))]
    ends = [(group[0], group[-1]) for group in groups]
    return [
        (f"{low.domain_gpus} to {high.domain_gpus}" if low is not high else str(low.domain_gpus), low)
        for low, high in ends
    ]


def form_data(form: OtherForm | None, name: str = "otherForm") -> dict[str, Any]:
    """Return the other form as data, under this name: null where there is none."""
    return {name: asdict(form) if form else None}


def study_data(study: Study) -> dict[str, Any]:
    """Return the study as data; in seconds, relative costs, and requests per second."""
    point = study.operating_point
    steps = {"decode": point.decode, "prefill": point.prefill} if point is not None else {}
    return {
        "bill": asdict(study.bill),
        "ratePerReplica": study.rate,
        "kneeRequestsPerSecond": study.knee,
        "sensitivity": [
            {
                "with": each.wish,
                "shape": str(each.shape) if each.shape else None,
                "gpus": each.gpus,
                "cost": each.cost,
                "shortfall": each.shortfall or None,
            }
            for each in study.variations
        ],
        "otherEngines": [
            {"engine": each.engine.value, "shape": str(each.shape), "gpus": each.gpus, "cost": each.cost}
            for each in study.engines
        ],
        "breakdown": {
            name: {"seconds": step.seconds, "limit": step.limit.value, "parts": step.parts._asdict()}
            for name, step in steps.items()
            if step is not None
        },
    }


def _article(name: str) -> str:
    return f"an {name}" if name[0] in "AEIOU" else f"a {name}"
