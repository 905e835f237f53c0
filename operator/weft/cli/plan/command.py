"""`weft plan`: reads, decides, studies, and prints, draws or exports."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.catalog import load
from weft.cli.cluster.rules import rules_of, unknown_classes
from weft.cli.ends.failure import CommandFailure
from weft.cli.files.resources import the_resources
from weft.cli.files.strict_yaml import as_yaml
from weft.cli.files.whole import refuse_unwritable, write_whole
from weft.cli.plan.exporting import exported_pool, exported_split
from weft.cli.plan.page import Beside, as_data, as_page, is_a_yes
from weft.cli.plan.picture import Picture, picture_of
from weft.cli.plan.planning import plan_all
from weft.cli.plan.plotting import file_ending, write_plot
from weft.cli.plan.study import OtherForm, Study, domains, other_form, over_rdma, studied, whole_cost, whole_served
from weft.cli.plan.study_page import Money, breakdown_page
from weft.cli.plan.terminal_plot import terminal_plot
from weft.cli.telling.terminal import Format, console, print_data, remark, show, working
from weft.domain.texts.figures import digits
from weft.domain.workload import Role
from weft.fabric import build_fabric
from weft.placement import left_out
from weft.shaping.ranking import ENOUGH, SIMPLER_WITHIN, part

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from weft.catalog import Catalog
    from weft.cli.cluster.rules import Rules
    from weft.cli.cluster.world import World
    from weft.cli.plan.page import LeftOut
    from weft.cli.plan.planning import PlannedResource
    from weft.cli.plan.study import Form
    from weft.domain.fabric import Fabric
    from weft.domain.shape import EngineName

CHART_COLUMNS, CHART_LINES = 110, 28
_ROUNDING = 1e-9
_ASSUMED = "no --fabric and no --context: planned for an empty cluster with every accelerator that may be used"

_HOW_TO_CHOOSE = (
    "the lowest cost that meets the targets wins (H100 = 1): name yours in spec.placement.accelerators or with "
    "--accelerator, or give nodes as --fabric 4xH100"
)


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How to show and export a plan."""

    form: Format
    breakdown: bool
    export: Path | None
    money: Money
    plot: Path | None = None
    chart: bool = False


@dataclass(frozen=True, slots=True)
class PlanReport:
    """One planned resource with its studies, its other form, and the accelerators left out, by pool.

    `over_rdma` is a split over TCP as it would be over RDMA.
    """

    planned: PlannedResource
    studies: dict[str, Study]
    form: Form | None
    left_out: LeftOut
    over_rdma: OtherForm | None = None

    def beside(self, money: Money, *, with_nodes: bool) -> Beside:
        """What is shown beside the plan."""
        form = self.form.told if self.form else None
        return Beside(self.studies, form, money, self.left_out, with_nodes, self.over_rdma)


def run_plan(options: PlanOptions, documents: list[dict[str, Any]], world: World) -> bool:
    """Plan, print, draw and export; returns whether every pool has a shape that meets its SLO, and a place."""
    catalog = load()
    if options.plot is not None:
        file_ending(options.plot)
    refuse_unwritable(options.plot, options.export)
    with working("planning"):
        rules = rules_of(documents, world)
        planned = plan_all(documents, world, catalog, time.time(), rules)
        told = [_told(one, world, catalog) for one in planned]
    _say_which_classes_are_unknown(planned, rules)
    if options.export is not None:
        _export(options.export, told, documents, world)
    if options.plot is not None:
        write_plot(_picture(told, catalog), options.plot)
    if options.form is not Format.table:
        shown = [as_data(one.planned, one.beside(options.money, with_nodes=not world.imagined)) for one in told]
        print_data(shown, options.form)
    else:
        show(*(_assumed(planned, catalog) if world.imagined else ()), *_pages(told, options, world, catalog))
    return all(is_a_yes(one) for one in planned)


def _assumed(planned: Sequence[PlannedResource], catalog: Catalog) -> Iterator[str]:
    """Yield what was planned for, and how to choose where some pool may use any accelerator."""
    yield _ASSUMED
    specs = [pool.spec for one in planned for pool, _ in one.pools if pool.spec is not None]
    wishes = [spec.engine.name for spec in specs if not spec.placement.accelerators]
    if wishes:
        engines = {engine for wish in wishes for engine in ([wish] if wish is not None else catalog.automatic)}
        yield f"considered: {', '.join(_served(engines, catalog))}; {_HOW_TO_CHOOSE}"


def _served(engines: Collection[EngineName], catalog: Catalog) -> Iterator[str]:
    """Yield the names of accelerators that one of these engines runs on."""
    for each in catalog.accelerators:
        if each.vendor != "cpu" and any(catalog.precisions(each, engine) for engine in engines):
            yield each.name


def _say_which_classes_are_unknown(planned: Sequence[PlannedResource], rules: Rules) -> None:
    pools = [pool for one in planned for pool, _ in one.pools]
    for unknown in unknown_classes(pools, (), rules.classes):
        remark(f"{unknown}, which is not known here and counts as 0: add it with --file")


def _told(planned: PlannedResource, world: World, catalog: Catalog) -> PlanReport:
    studies = studied(planned, world, catalog)
    other, wide = other_form(studies, catalog), over_rdma(studies, catalog)
    fabric = build_fabric(world.nodes, world.pods, catalog, world.reports)
    if other is not None and not world.imagined:
        other = other.beside(fabric)
    return PlanReport(planned, studies, other, _left_out(planned, fabric), wide)


def _left_out(planned: PlannedResource, fabric: Fabric) -> LeftOut:
    return {pool.key.name: left_out(fabric, pool.spec.placement) for pool, _ in planned.pools if pool.spec is not None}


def _pages(told: Sequence[PlanReport], options: PlanOptions, world: World, catalog: Catalog) -> list[RenderableType]:
    pages: list[RenderableType] = []
    for one in told:
        pages.append(as_page(one.planned, one.beside(options.money, with_nodes=not world.imagined)))
        if options.breakdown:
            pages += [breakdown_page(study, *domains(study, catalog)) for study in one.studies.values()]
        if options.chart:
            width = min(console().width, CHART_COLUMNS)
            pages.append(terminal_plot(_picture([one], catalog), width=width, height=CHART_LINES))
    return pages


def _picture(told: Sequence[PlanReport], catalog: Catalog) -> Picture:
    """Return the picture of the first pool that generates answers."""
    studies = [study for one in told for study in one.studies.values()]
    drawn = next((study for study in studies if study.request.spec.role is not Role.Prefill), None)
    if drawn is None:
        raise CommandFailure("there is nothing to draw: no pool has a plan")
    return picture_of(drawn.request, catalog)


def _export(file: Path, told: Sequence[PlanReport], documents: list[dict[str, Any]], world: World) -> None:
    """Write what is recommended for each resource, and say on stderr where that is the other form."""
    bodies = dict(the_resources(documents, world.namespace))
    recommended = [_recommendation(each, bodies[each.planned.title]) for each in told]
    write_whole(file, as_yaml(recommended).encode())
    for each, document in zip(told, recommended, strict=True):
        asked = bodies[each.planned.title]["kind"]
        if each.form is not None and document["kind"] != asked:
            remark(f"{file} holds {each.planned.title} as {_why_the_other(each, each.form.told, asked)}")


def _why_the_other(told: PlanReport, other: OtherForm, asked: str) -> str:
    cost, served = whole_cost(told.studies.values()), whole_served(told.studies.values())
    then, now = digits(other.cost), digits(cost)
    if other.served - served > _ROUNDING:
        return f"{other.name}, not {asked}: that serves {_share(other.served)}, and not {part(served)} of the rate"
    cheaper = other.cost < cost and then != now
    why = "" if cheaper else f", and within {SIMPLER_WITHIN - 1:.0%} a pool is simpler"
    return f"{other.name}, not {asked}: that costs {then} instead of {now}{why}"


def _share(served: float) -> str:
    return "all" if served >= ENOUGH else part(served)


def _recommendation(told: PlanReport, body: dict[str, Any]) -> dict[str, Any]:
    """Return the form that serves more, then the cheaper one; within 10 % the aggregated one, as simpler.

    Never one for which the fabric has too few GPUs, unless that is what was asked for.
    """
    plans = [study.plan for study in told.studies.values()]
    if not plans:
        raise CommandFailure(f"nothing to export: {told.planned.title} has no plan")
    other = told.form if told.form is not None and _is_better(told.form.told, told) else None
    plans = plans if other is None else list(other.plans)
    return exported_pool(body, plans[0]) if len(plans) == 1 else exported_split(body, plans[0], plans[1])


def _is_better(other: OtherForm, told: PlanReport) -> bool:
    if other.lacks is not None:
        return False
    studies = told.studies.values()
    cost, more = whole_cost(studies), other.served - whole_served(studies)
    if abs(more) > _ROUNDING:
        return more > 0
    return other.cost <= cost * SIMPLER_WITHIN if len(studies) > 1 else other.cost * SIMPLER_WITHIN < cost
