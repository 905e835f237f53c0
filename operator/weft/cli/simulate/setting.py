"""Turns the options of `weft simulate` into a setting of the twin: resources, requests, a cluster and its faults."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from weft.cli.cluster.rules import refuse_unknown_classes, rules_of
from weft.cli.ends.failure import CommandFailure
from weft.cli.files import what_if
from weft.cli.files.reading import of_kind
from weft.cli.plan.planning import plan_all, records_of
from weft.cli.simulate.plans import only_what_may_be_used, refuse_what_is_not_simulated, route_of
from weft.cli.simulate.requests import requests_of, seed_of
from weft.cli.simulate.resources import chosen_resources, the_one
from weft.domain.errors import Invalid
from weft.domain.texts.figures import some_of
from weft.domain.texts.units import parse_duration_seconds
from weft.domain.workload import Slo
from weft.twin.cluster.start_up import Fault, FaultKind, StartPhases
from weft.twin.serving.scrapes import ScrapeOptions
from weft.twin.serving.stream import Stream
from weft.twin.simulation import SimulationSetting, slo_of
from weft.twin.traffic.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from weft.catalog import Catalog
    from weft.cli.cluster.rules import Rules
    from weft.cli.cluster.world import World
    from weft.cli.plan.planning import PlannedResource
    from weft.cli.simulate.resources import TracedResource
    from weft.cli.simulate.wishes import SimulationWishes

Json = dict[str, Any]
_SECONDS = re.compile(r"\d+(\.\d+)?")
_NAMED = 3  # most nodes that a message lists


@dataclass(frozen=True, slots=True, eq=False)
class SimulationCase:
    """A simulated resource, by kind and name, with the setting and with what would be planned before any traffic.

    `words` say where its requests are from; `place` is the index of its stream in the setting.
    """

    resource: str
    words: str
    setting: SimulationSetting
    planned: PlannedResource
    place: int = 0

    @property
    def trace(self) -> Trace:
        """The requests of the resource."""
        return self.setting.streams[self.place].trace

    @property
    def slo(self) -> Slo:
        """The SLO of the resource, from the pools that its requests go through."""
        return slo_of(pool for pool, _ in self.planned.pools)


@dataclass(frozen=True, slots=True, eq=False)
class _Draft:
    """One resource before all are put together: its body with `--what-if`, its requests with their source, its plan."""

    title: str
    body: Json
    words: str
    trace: Trace
    planned: PlannedResource


@dataclass(frozen=True, slots=True, eq=False)
class _Surroundings:
    """What resources are decided in, alone and together: ConfigMaps, PriorityClasses and quotas, and the cluster."""

    config_maps: list[Json]
    rules: Rules
    world: World
    catalog: Catalog

    def planned(self, body: Json) -> PlannedResource:
        """Plan a resource as if it were alone; raises `CommandFailure` for what cannot be simulated."""
        (planned,) = plan_all([body, *self.config_maps], self.world, self.catalog, 0.0, self.rules)
        refuse_what_is_not_simulated(planned)
        return planned


def cases_of(
    wishes: SimulationWishes, documents: list[Json], world: World, catalog: Catalog
) -> tuple[SimulationCase, ...]:
    """Return a case for each resource, all with one setting; in the order of the documents.

    Raises `CommandFailure` for what cannot be simulated.
    """
    chosen = chosen_resources(documents, world.namespace, wishes.pool, wishes.trace or None)
    around = _Surroundings(of_kind(documents, "ConfigMap"), rules_of(documents, world), world, catalog)
    bodies = _as_they_might_be(chosen, wishes)
    drafts = []
    for each, body in zip(chosen, bodies, strict=True):
        words, trace = requests_of(each, wishes, catalog, seed_of(each, wishes, alone=len(chosen) == 1))
        drafts.append(_Draft(each.title, body, words, trace, around.planned(body)))
    _refuse_without_requests(drafts, wishes)
    setting = _setting(wishes, drafts, around)
    return tuple(
        SimulationCase(each.title, each.words, setting, each.planned, place) for place, each in enumerate(drafts)
    )


def _refuse_without_requests(drafts: Sequence[_Draft], wishes: SimulationWishes) -> None:
    """Raise unless some resource gets requests, and some of them after the warm-up."""
    if not any(len(each.trace) for each in drafts):
        less = f" or a larger --scale than {wishes.scale:g}" if wishes.scale < 1.0 else ""
        whom = f"{'one of ' if len(drafts) > 1 else ''}{', '.join(each.title for each in drafts)}"
        raise CommandFailure(f"no resource gets a request: give a trace{less} to {whom}")
    if wishes.warm_up >= _end(drafts) and wishes.warm_up > 0.0:
        raise CommandFailure(f"--warm-up leaves nothing: the last request comes at {_end(drafts):g} s")


def _end(drafts: Sequence[_Draft]) -> float:
    """Return the seconds from the beginning of the traces to the last request of all."""
    return max(each.trace.seconds for each in drafts)


def _setting(wishes: SimulationWishes, drafts: Sequence[_Draft], around: _Surroundings) -> SimulationSetting:
    """Put all resources on one cluster, sorted by name: their order in the files does not matter."""
    pools, splits = records_of([*(each.body for each in drafts), *around.config_maps], around.world)
    if len(drafts) > 1:
        refuse_unknown_classes(pools, splits, around.rules.classes)
    near = only_what_may_be_used(around.world, [each.planned for each in drafts], around.catalog)
    end = _end(drafts)
    return SimulationSetting(
        pools=tuple(sorted(pools, key=lambda pool: (pool.key.namespace, pool.key.name))),
        splits=tuple(sorted(splits, key=lambda split: (split.key.namespace, split.key.name))),
        nodes=near.nodes,
        pods=near.pods,
        catalog=around.catalog,
        streams=tuple(Stream(each.trace, route_of(each.title, each.planned)) for each in drafts),
        classes=around.rules.classes,
        quotas=around.rules.quotas,
        front=wishes.clients.options,
        scrapes=ScrapeOptions(gaps=tuple(_gap(text) for text in wishes.blind)),
        start_up=StartPhases() if wishes.start_up is None else StartPhases().lasting(wishes.start_up),
        starts=dict(_expected(drafts)) if wishes.start_up is None else {},
        faults=_faults(wishes.fail, near, end),
        warm_up=wishes.warm_up,
        seed=wishes.seed,
        until_answered=True,
    )


def _expected(drafts: Sequence[_Draft]) -> Iterator[tuple[tuple[str, str], StartPhases]]:
    """Yield the start phases that the plan of each pool expects, by namespace and name."""
    for pool, decision in (each for draft in drafts for each in draft.planned.pools):
        told = decision.status.start_up
        if told is not None:
            yield (pool.key.namespace, pool.key.name), StartPhases().expected(told.image, told.weights, told.engine)


def _as_they_might_be(chosen: Sequence[TracedResource], wishes: SimulationWishes) -> list[Json]:
    """Return the resources with the changes of `--what-if` to each of them, or to all."""
    asked = [(*what_if.addressed(typed), typed) for typed in wishes.what_if]
    resources = [each.resource for each in chosen]
    told = [
        (None if name is None else the_one(resources, name, f"--what-if {name!r:.80}"), wish, typed)
        for name, wish, typed in asked
    ]
    found = []
    for each in resources:
        own = [(wish, typed) for one, wish, typed in told if one is None or one is each]
        what_if.refuse_overwritten(own)
        found.append(what_if.changed(each.body, [wish for wish, _ in own]))
    return found


def _gap(text: str) -> tuple[float, float]:
    """Read `FROM-TO` in seconds; raises `CommandFailure` unless both are times in this order."""
    begin, _, end = text.partition("-")
    try:
        found = _moment(begin), _moment(end)
    except Invalid as error:
        raise CommandFailure(f"--blind {text!r:.80} must be FROM-TO, such as 10m-20m: {error.message}") from None
    if found[0] >= found[1]:
        raise CommandFailure(f"--blind {text!r:.80} ends before it begins")
    return found


def _moment(text: str) -> float:
    """Read seconds since the trace began, as a number or a duration; both may be 0."""
    if text == "0s" or _SECONDS.fullmatch(text):
        return float(text.removesuffix("s"))
    return parse_duration_seconds(text)


def _faults(asked: Sequence[str], world: World, end: float) -> tuple[Fault, ...]:
    """Read all faults, the first one first; raises `CommandFailure` for a node that fails twice, as none comes back."""
    faults = sorted((_fault(text, world, end) for text in asked), key=lambda each: each.at)
    for place, fault in enumerate(faults):
        if any(fault.node == earlier.node for earlier in faults[:place]):
            raise CommandFailure(f"--fail: {fault.node} is to fail twice, and does not come back: remove one")
    return tuple(faults)


def _fault(text: str, world: World, end: float) -> Fault:
    """Read `NODE@TIME`; raises `CommandFailure` for an unknown node, and for a time after the last request."""
    name, _, moment = text.rpartition("@")
    if not name:
        raise CommandFailure(f"--fail {text!r:.80} must be NODE@TIME, such as gpu-7@1h30m")
    try:
        seconds = _moment(moment)
    except Invalid as error:
        raise CommandFailure(f"--fail {text!r:.80}: {error.message}") from None
    names: Sequence[str] = [node.name for node in world.nodes]
    if name not in names:
        near = get_close_matches(name, names, 1)
        known = f", perhaps {near[0]}" if near else f": there are {some_of(names, _NAMED)}"
        raise CommandFailure(f"--fail: there is no node {name!r:.80}{known}")
    if seconds >= end:
        raise CommandFailure(f"--fail {text!r:.80} is too late: the last request comes at {end:g} s")
    return Fault(name, seconds, FaultKind.Fails)
