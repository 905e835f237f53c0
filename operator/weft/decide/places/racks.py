"""Splits whose KV goes over NVLink: all replicas of a generation are in one NVLink domain, whichever half they are of.

The domain follows from where replicas are, and is chosen with the first of them: nothing of it is persisted beside
their assignments. A split that outgrows it is refused more, as KV from elsewhere would go over TCP without a word.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from weft.decide.plans.nvlink_domains import forms, within
from weft.domain.values.changed import changed
from weft.engines.kv.host_memory import pod_needs
from weft.engines.kv.nvlink import over_nvlink
from weft.placement import eligible_domains, natural
from weft.render import shared_by

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from weft.decide.course import Course
    from weft.domain.fabric import Fabric
    from weft.placement import EligibleDomain, FreeMap

    _Together = Sequence[Course]  # both halves of a split


def keep_halves_together(units: Sequence[_Together], free: FreeMap) -> None:
    """Bind each such split to its NVLink domain; of those without a replica the first in order choose first."""
    found = [together for together in units if over_nvlink(together[0].growth.planned.spec)]
    if found:
        _bind_all(found, free)


def _bind_all(splits: Sequence[_Together], free: FreeMap) -> None:
    promised: Counter[str] = Counter()  # nodes by domain that splits bound to it have yet to get
    homeless = []
    for together in splits:
        home = _home(together, free.fabric)
        if home is None:
            homeless.append(together)
        else:
            _bind(together, home, promised)
    for together in homeless:
        home = _chosen(together, free, promised)
        if home is not None:
            _bind(together, home, promised)


def _home(together: _Together, fabric: Fabric) -> str | None:
    """The domain in which most replicas of the planned pair are, as they were assigned; None where there are none."""
    known = fabric.nodes()
    places = Counter(
        known[node].domain
        for course in together
        for each in (*course.growth.kept, *course.growth.added)
        if each.shared_domain == _name(course)
        for node in each.nodes
        if node in known
    )
    return min(places, key=lambda domain: (-places[domain], natural(domain)), default=None)


def _name(course: Course) -> str | None:
    planned = course.growth.planned
    return shared_by(planned.pool, planned.spec.pair)


def _bind(together: _Together, home: str, promised: Counter[str]) -> None:
    for course in together:
        bound = within(home, course.growth.planned)
        course.growth.planned = bound
        course.turn = changed(course.turn, planned=bound)
        promised[home] += max(0, course.growth.desired - course.have) * bound.plan.shape.pods


def _chosen(together: _Together, free: FreeMap, promised: Mapping[str, int]) -> str | None:
    """The tightest domain that holds all of both halves, at best without another ComputeDomain; else the roomiest.

    Two ComputeDomains in one clique disturb each other now and then (issue 892 of the driver).
    """
    wanted = sum(course.growth.desired * course.growth.planned.plan.shape.pods for course in together)
    rooms = {name: room - promised[name] for name, room in _rooms(together, free).items()}
    shared = {domain.name: any(free.has_joined(node.name) for node in domain.nodes) for domain in free.fabric.domains}
    enough = [name for name, room in rooms.items() if room >= wanted]
    if enough:
        return min(enough, key=lambda name: (shared[name], rooms[name], natural(name)))
    one = next((domain.name for domain in free.fabric.domains if forms(domain)), None)  # full: it says what lacks
    return min(rooms, key=lambda name: (-rooms[name], shared[name], natural(name)), default=one)


def _rooms(together: _Together, free: FreeMap) -> dict[str, int]:
    """Nodes that both halves may use and that are free, or that leave with the split's own replicas, by domain."""
    own = {node for course in together for node in _own_nodes(course)}
    halves = [_nodes_for(course, own, free) for course in together]
    both = set.intersection(*(set(half) for half in halves))
    spares = max(course.growth.planned.spec.placement.spare_nodes_per_domain for course in together)
    found = {name: len(set().union(*(half[name] for half in halves))) - spares for name in both}
    return {name: room for name, room in found.items() if room > 0}


def _nodes_for(course: Course, own: set[str], free: FreeMap) -> dict[str, set[str]]:
    planned = course.growth.planned
    spec, shape = planned.spec, planned.plan.shape
    domains = eligible_domains(shape, spec.placement, free, pod_needs(spec, planned.plan))
    found = {
        each.domain.name: set(_usable(each, shape.gpus_per_pod, own, free)) for each in domains if forms(each.domain)
    }
    return {name: nodes for name, nodes in found.items() if nodes}


def _usable(each: EligibleDomain, gpus: int, own: set[str], free: FreeMap) -> Iterable[str]:
    return (name for name in each.names if name in own or (free.on(name) >= gpus and not free.has_joined(name)))


def _own_nodes(course: Course) -> Iterator[str]:
    """Nodes of the replicas that are there: those of an earlier pair leave while this one comes."""
    return (node for replica in course.turn.survivors.replicas for node in replica.nodes)
