"""Replicas that run in several NVLink domains at once."""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import TYPE_CHECKING

from weft.domain.crews import REMEMBERED, crews_of
from weft.domain.reasons import Explanation, Reason
from weft.domain.values.remembered import LastAnswers
from weft.fabric.contradictions import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from weft.domain.cluster import PodRecord
    from weft.fabric.layout import FabricLayout

    _Which = tuple[str, str, int]  # namespace, pool and replica
    _Question = tuple[tuple[PodRecord, ...], FabricLayout]
    _Answer = tuple[tuple[_Which, Explanation], ...]

_LAST: LastAnswers[_Question, _Answer] = LastAnswers(REMEMBERED)


def replicas_apart(pods: tuple[PodRecord, ...], layout: FabricLayout) -> Iterator[Explanation]:
    """Explain our replicas whose bound pods are in different domains: by choice, or because labels changed."""
    crews = ((uid, crew) for uid, crew in crews_of(pods).items() if crew[0].identity is not None)
    found = (each for uid, crew in crews for each in _LAST.ask(uid, (crew, layout), _apart))
    yield from (explanation for _, explanation in sorted(found, key=itemgetter(0)))


def _apart(question: _Question) -> _Answer:
    crew, layout = question
    replicas: dict[_Which, list[tuple[str, str]]] = defaultdict(list)
    for pod in _of_several(crew):
        if pod.identity is not None and pod.holds_devices and (home := layout.home.get(pod.node or "")) is not None:
            replicas[pod.namespace, pod.identity.pool_uid, pod.identity.replica].append((pod.name, home))
    return tuple((which, _told_apart(which[0], found)) for which, found in replicas.items() if _are_apart(found))


def _are_apart(found: list[tuple[str, str]]) -> bool:
    return len({home for _, home in found}) > 1


def _told_apart(namespace: str, found: list[tuple[str, str]]) -> Explanation:
    homes = listed({home for _, home in found})
    return Explanation(
        Reason.DomainChanged,
        f"the replica of pod {namespace}/{min(found)[0]} runs in the NVLink domains "
        f"{homes}: spec.placement.domain allows "
        "that, or labels of its nodes changed while it ran; it keeps running",
    )


def _of_several(pods: Iterable[PodRecord]) -> Iterator[PodRecord]:
    """Yield the pods of replicas with more than one pod; a replica of one pod is always in one domain."""
    first: dict[tuple[str, int], PodRecord] = {}
    told = set()
    for pod in pods:
        identity = pod.identity
        if identity is not None:
            key = identity.pool_uid, identity.replica
            before = first.setdefault(key, pod)
            if before is not pod:
                if key not in told:
                    told.add(key)
                    yield before
                yield pod
