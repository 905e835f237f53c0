"""What `weft simulate` was asked, as a setting of the twin: resources, their traces, a cluster, and what fails when."""

from __future__ import annotations

import csv
import hashlib
import math
import sys
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.cli import what_if
from weft.cli.cluster_rules import classes_in, quotas_in, refuse_unknown_classes
from weft.cli.failure import CommandFailure
from weft.cli.files import STANDARD_INPUT, shown
from weft.cli.live_trace import Recorded, live_trace
from weft.cli.planning import plan_all, records_of
from weft.cli.simulated_resources import NO_REQUESTS, chosen_resources, the_one
from weft.cli.world import imagined_world
from weft.domain.errors import Invalid
from weft.domain.reasons import Explanation, Reason
from weft.domain.shape import EngineName
from weft.domain.spec import SchedulerName
from weft.domain.units import parse_duration_seconds
from weft.domain.workload import Role, Slo
from weft.engines import series_for
from weft.engines.nvlink import over_nvlink
from weft.twin.front import FrontOptions, FrontRule
from weft.twin.made_up import SHAPES, made_up
from weft.twin.scrapes import ScrapeOptions
from weft.twin.serving import Route, Stream
from weft.twin.simulation import Setting, slo_of
from weft.twin.start_up import Fault, FaultKind, StartUp
from weft.twin.trace import Trace, TraceError
from weft.twin.trace_files import read_trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.catalog import Catalog
    from weft.cli.planning import Planned
    from weft.cli.simulated_resources import Chosen
    from weft.cli.world import World
    from weft.domain.decision import PoolDecision
    from weft.engines import EngineSeries

Json = dict[str, Any]
_NAMED = 3  # nodes in a sentence
STOCK = "--what-if spec.placement.scheduler=null"  # nothing is handed over


@dataclass(frozen=True, slots=True)
class Clients:
    """Who gets their requests, how many seconds they wait for a first token (None: for ever), how often they retry."""

    front: str = FrontRule.LeastLoad.value
    patience: float | None = None
    retries: int = 0

    @property
    def options(self) -> FrontOptions:
        """Raises `CommandFailure` for a rule that there is not."""
        if self.front not in set(FrontRule):
            raise CommandFailure(f"--front {self.front!r:.80} is none of {', '.join(FrontRule)}")
        patience = math.inf if self.patience is None else self.patience
        return FrontOptions(FrontRule(self.front), patience, self.retries)


@dataclass(frozen=True, slots=True)
class Wishes:
    """Options as they were typed. `pool` is a name, or KIND/NAME; `start_up` seconds, None for what is usual.

    `trace` has one for each resource, with its name where there are several. Without any the last `hours` are read from
    the Prometheus at `prometheus`. `blind` are times without metrics.
    """

    trace: tuple[str, ...] = ()
    what_if: tuple[str, ...] = ()
    fail: tuple[str, ...] = ()
    pool: str | None = None
    start_up: float | None = None
    seed: int = 0
    scale: float = 1.0
    warm_up: float = 0.0
    prometheus: str | None = None
    hours: float = 24.0
    clients: Clients = field(default_factory=Clients)
    blind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A resource by kind and name, in a setting, and what would be planned of it alone before any traffic.

    `words` say where its requests are from, `place` which stream of the setting they are.
    """

    resource: str
    words: str
    setting: Setting
    planned: Planned
    place: int = 0

    @property
    def trace(self) -> Trace:
        """Its requests."""
        return self.setting.streams[self.place].trace

    @property
    def slo(self) -> Slo:
        """What is promised to those who ask."""
        return slo_of(pool for pool, _ in self.planned.pools)


@dataclass(frozen=True, slots=True, eq=False)
class _Draft:
    """One resource before all are put together: as it might be, where its requests are from, and the requests."""

    title: str
    body: Json
    words: str
    trace: Trace
    planned: Planned


def cases_of(wishes: Wishes, documents: list[Json], world: World, catalog: Catalog) -> tuple[Case, ...]:
    """Everything that a simulation depends on, with one setting for all resources; in the order of the documents.

    Raises `CommandFailure` for what cannot be simulated.
    """
    chosen = chosen_resources(documents, world.namespace, wishes.pool, wishes.trace or None)
    beside = [each for each in documents if each.get("kind") == "ConfigMap"]
    bodies = _as_they_might_be(chosen, wishes)
    drafts = []
    for each, body in zip(chosen, bodies, strict=True):
        words, trace = _requests(each, wishes, catalog, _seed(each, wishes, alone=len(chosen) == 1))
        (planned,) = plan_all([body, *beside], world, catalog, 0.0)
        _refuse_without_a_place(planned)
        drafts.append(_Draft(each.title, body, words, trace, planned))
    end = max(each.trace.seconds for each in drafts)
    if not any(len(each.trace) for each in drafts):
        less = f" or a larger --scale than {wishes.scale:g}" if wishes.scale < 1.0 else ""
        raise CommandFailure(
            f"nobody gets a request: give a trace{less} to one of {', '.join(each.title for each in drafts)}"
        )
    if wishes.warm_up >= end and wishes.warm_up > 0.0:
        raise CommandFailure(f"--warm-up leaves nothing: the last request comes at {end:g} s")
    setting = _setting(wishes, drafts, documents, world, catalog)
    return tuple(Case(each.title, each.words, setting, each.planned, place) for place, each in enumerate(drafts))


def _setting(
    wishes: Wishes, drafts: Sequence[_Draft], documents: list[Json], world: World, catalog: Catalog
) -> Setting:
    """All of them on one cluster; resources go by their names there, wherever they stand in the files."""
    beside = [each for each in documents if each.get("kind") == "ConfigMap"]
    pools, splits = records_of([*(each.body for each in drafts), *beside], world)
    classes = classes_in(documents, world)
    if len(drafts) > 1:
        refuse_unknown_classes(pools, splits, classes)
    near = _only_what_may_be_used(world, [each.planned for each in drafts], catalog)
    end = max(each.trace.seconds for each in drafts)
    return Setting(
        pools=tuple(sorted(pools, key=lambda pool: (pool.key.namespace, pool.key.name))),
        splits=tuple(sorted(splits, key=lambda split: (split.key.namespace, split.key.name))),
        nodes=near.nodes,
        pods=near.pods,
        catalog=catalog,
        streams=tuple(Stream(each.trace, _route(each.title, each.planned)) for each in drafts),
        classes=classes,
        quotas=quotas_in(documents, world),
        front=wishes.clients.options,
        scrapes=ScrapeOptions(gaps=tuple(_gap(text) for text in wishes.blind)),
        start_up=StartUp() if wishes.start_up is None else StartUp().lasting(wishes.start_up),
        faults=tuple(sorted((_fault(text, near, end) for text in wishes.fail), key=lambda each: each.at)),
        warm_up=wishes.warm_up,
        seed=wishes.seed,
        until_answered=True,
    )


def _as_they_might_be(chosen: Sequence[Chosen], wishes: Wishes) -> list[Json]:
    """The resources with what `--what-if` says of them, or of all."""
    what_if.refuse_twice(wishes.what_if)
    asked = [what_if.addressed(wish) for wish in wishes.what_if]
    resources = [each.resource for each in chosen]
    told = [
        (None if name is None else the_one(resources, name, f"--what-if {name!r:.80}"), wish) for name, wish in asked
    ]
    return [
        what_if.changed(each.body, [wish for one, wish in told if one is None or one is each]) for each in resources
    ]


def _seed(chosen: Chosen, wishes: Wishes, *, alone: bool) -> int:
    """Requests of several resources are drawn apart, so that not all come at the same moments."""
    if alone:
        return wishes.seed
    return int.from_bytes(hashlib.sha256(f"{wishes.seed}/{chosen.resource.full}".encode()).digest()[:8])


def _requests(chosen: Chosen, wishes: Wishes, catalog: Catalog, seed: int) -> tuple[str, Trace]:
    """Where requests are from, and the requests."""
    if chosen.trace == NO_REQUESTS:
        return "no requests", Trace(np.zeros(0), *np.zeros((2, 0), dtype=np.int32))
    if chosen.trace is not None:
        words, trace = shown(chosen.trace), _trace_of(chosen.trace, seed)
    else:
        body = chosen.resource.body
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        pool = f"{name}-decode" if body["kind"] == "PDSplit" else name
        recorded = Recorded(wishes.prometheus or "", wishes.hours, namespace, pool, _series_of(body, catalog))
        words, trace = recorded.words, live_trace(recorded, seed)
    return words, trace if wishes.scale == 1.0 else _scaled(trace, wishes.scale, seed)


def _scaled(trace: Trace, factor: float, seed: int) -> Trace:
    try:
        return trace.scaled(factor, seed)
    except TraceError as error:
        raise CommandFailure(f"--scale: {error}") from None


def _series_of(body: Json, catalog: Catalog) -> EngineSeries:
    """What the engines that a resource names count; vLLM's where it names none."""
    named = body["spec"].get("engine") or {}
    name = EngineName(named["name"]) if named.get("name") in set(EngineName) else EngineName.VLLM
    try:
        return series_for(name, str(named.get("version") or catalog.engine(name).version))
    except Invalid as error:
        raise CommandFailure(f"engine.version: {error.message}") from None


def _trace_of(text: str, seed: int) -> Trace:
    """The requests of a file, or those that a line describes."""
    try:
        if _is_made_up(text):
            return made_up(text, seed)
        if text == STANDARD_INPUT:
            return read_trace(sys.stdin.buffer, shown(text))
        with Path(text).open("rb") as file:
            return read_trace(file, shown(text))
    except (TraceError, csv.Error) as error:
        raise CommandFailure(f"--trace: {error}") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise CommandFailure(_cannot_read(text, error)) from None


def _is_made_up(text: str) -> bool:
    """A shape with its numbers, or a word that can only be meant as one."""
    name, colon, wishes = text.partition(":")
    return name in SHAPES or bool(colon and "=" in wishes and not Path(text).exists())


def _cannot_read(text: str, error: Exception) -> str:
    reason = getattr(error, "strerror", None) or error
    return f"cannot read {shown(text)}: {reason}; a trace is a file, or one of {', '.join(SHAPES)} with its numbers"


def _refuse_without_a_place(planned: Planned) -> None:
    """Nothing runs without a shape and a place for one replica, and only the stock scheduler is simulated.

    Nor is NVIDIA's driver, who forms the ComputeDomain of halves over NVLink.
    """
    if any(pool.spec is not None and over_nvlink(pool.spec) for pool, _ in planned.pools):
        raise CommandFailure(f"{planned.title}: kvTransfer.transport NVLink is not simulated: use Auto, RDMA or TCP")
    schedulers = {pool.spec.placement.scheduler for pool, _ in planned.pools if pool.spec is not None}
    for other in schedulers - {SchedulerName.Default}:
        instead = f"a simulation does not have: {STOCK} says what Weft's own placing would do"
        raise CommandFailure(f"{planned.title} is handed over to {other}, which {instead}")
    reasons = [why for _, decision in planned.pools if (why := _why_nothing_runs(decision)) is not None]
    if reasons:
        why = next((each for each in reasons if each.reason is not Reason.HoldNotPlanned), reasons[0])
        raise CommandFailure(f"{planned.title} cannot run here: {why.reason}: {why.message}")


def _why_nothing_runs(decision: PoolDecision) -> Explanation | None:
    """What its conditions say of a pool without a shape, or without a place for one replica."""
    status = decision.status
    if status.plan is not None and status.assignments:
        return None
    wanted = "Planned" if status.plan is None else "Placed"
    told = (one.explanation for one in decision.conditions if one.kind == wanted)
    return next(told, Explanation(Reason.NoSlot, "there is no place for one replica"))


def _only_what_may_be_used(world: World, planned: Sequence[Planned], catalog: Catalog) -> World:
    """Of an imagined world the nodes of the planned accelerators: no decision looks at thousands of others."""
    if not world.imagined:
        return world
    plans = [decision.status.plan for each in planned for _, decision in each.pools]
    named = {plan.shape.accelerator for plan in plans if plan}
    return imagined_world(catalog, frozenset(named))


def _route(title: str, planned: Planned) -> Route:
    """Raises `CommandFailure` for half of a pair, which answers nobody."""
    names = {pool.spec.role: pool.key.name for pool, _ in planned.pools if pool.spec is not None}
    namespace = planned.pools[0][0].key.namespace
    if len(names) > 1:
        return Route(title, names[Role.Prefill], names[Role.Decode], namespace)
    ((role, name),) = names.items()
    if role.is_half:
        raise CommandFailure(f"{title} has the role {role} and answers no request alone: simulate a PDSplit")
    return Route(title, name, namespace=namespace)


def _gap(text: str) -> tuple[float, float]:
    """`FROM-TO`, in this order."""
    begin, _, end = text.partition("-")
    try:
        found = _moment(begin), _moment(end)
    except Invalid as error:
        raise CommandFailure(f"--blind {text!r:.80} must be FROM-TO, such as 10m-20m: {error.message}") from None
    if found[0] >= found[1]:
        raise CommandFailure(f"--blind {text!r:.80} ends before it begins")
    return found


def _moment(text: str) -> float:
    """Seconds since the trace began, which may be none."""
    return 0.0 if text in {"0", "0s"} else parse_duration_seconds(text)


def _fault(text: str, world: World, end: float) -> Fault:
    """`NODE@TIME`, before the trace ends."""
    name, at, moment = text.rpartition("@")
    if not at:
        raise CommandFailure(f"--fail {text!r:.80} must be NODE@TIME, such as gpu-7@1h30m")
    try:
        seconds = _moment(moment)
    except Invalid as error:
        raise CommandFailure(f"--fail {text!r:.80}: {error.message}") from None
    names: Sequence[str] = [node.name for node in world.nodes]
    if name not in names:
        near = get_close_matches(name, names, 1)
        known = f", perhaps {near[0]}" if near else f": there are {_some_of(names)}"
        raise CommandFailure(f"--fail: there is no node {name!r:.80}{known}")
    if seconds >= end:
        raise CommandFailure(f"--fail {text!r:.80} is too late: the last request comes at {end:g} s")
    return Fault(name, seconds, FaultKind.Fails)


def _some_of(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
