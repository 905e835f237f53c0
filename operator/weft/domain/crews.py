"""Pods grouped by owner into crews, once for all readers of a pass.

What a reader computes from one crew may be cached by its name: from pass to pass most crews are the same records.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.domain.values.remembered import LastAnswers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from weft.domain.cluster import PodRecord
    from weft.domain.snapshot import PoolRecord

    Crews = Mapping[str, tuple[PodRecord, ...]]

REMEMBERED = 16_384  # crews: for caches of what is computed from them
_LAST: LastAnswers[tuple[PodRecord, ...], Crews] = LastAnswers(1)
_ROUTERS: LastAnswers[tuple[PodRecord, ...], Mapping[tuple[str, str], SplitRouters]] = LastAnswers(1)


@dataclass(frozen=True, slots=True)
class SplitRouters:
    """Managed routers of a split: whether any `are_there` that nobody deletes, and of which pairs one answers."""

    are_there: bool
    answering: frozenset[str]


NO_ROUTERS = SplitRouters(are_there=False, answering=frozenset())


def crews_of(pods: tuple[PodRecord, ...]) -> Crews:
    """Pods of replicas by UID of their pool, all others under `of_no_replica`; each crew in the order given."""
    return _LAST.ask("pods", pods, _crews)


def of_no_replica(namespace: str) -> str:
    """The key of the crew of all pods in a namespace that belong to no replica, routers among them."""
    return f"/{namespace}"


def _crews(pods: tuple[PodRecord, ...]) -> Crews:
    found: dict[str, list[PodRecord]] = {}
    for pod in pods:
        identity = pod.identity
        crew = of_no_replica(pod.namespace) if identity is None else identity.pool_uid
        there = found.get(crew)
        if there is None:
            found[crew] = [pod]
        else:
            there.append(pod)
    return {crew: tuple(together) for crew, together in found.items()}


def routers_of_split(split_uid: str, namespace: str, pods: tuple[PodRecord, ...]) -> SplitRouters:
    """The routers of one split; `pods` are all of a pass."""
    return _ROUTERS.ask("pods", pods, _by_split).get((namespace, split_uid), NO_ROUTERS)


def _by_split(pods: tuple[PodRecord, ...]) -> Mapping[tuple[str, str], SplitRouters]:
    found: dict[tuple[str, str], set[str]] = {}
    for pod in pods:
        if pod.front_of is not None and pod.pair and not (pod.terminating or pod.ended):
            answering = found.setdefault((pod.namespace, pod.front_of), set())
            if pod.serves:
                answering.add(pod.pair)
    return {owner: SplitRouters(are_there=True, answering=frozenset(pairs)) for owner, pairs in found.items()}


def routers_before(pool: PoolRecord, pods: Iterable[PodRecord]) -> Iterator[PodRecord]:
    """Router pods that send requests to a pool: its own, or those of the split that it is a half of."""
    owners = {pool.key.uid, pool.split_uid} - {None}
    return (pod for pod in pods if pod.front_of in owners and pod.namespace == pool.key.namespace)
