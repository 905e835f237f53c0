"""Fronts of one pool: one, or one for each engine while its replicas run two engines and no router speaks to both.

At best a router of one engine does not see replicas of another; at worst it stalls on them: `vllm-router` 0.1.17 looks
at no other pod while it waits for one that does not answer at its port. So each front then chooses replicas of its own
engine alone, as the front of each generation of a split does (`converge/generations.py`), and requests move over as
replicas do. The first front keeps its name and the engine that it was made for: nothing is taken from a front that
routes (ADR 0064).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from weft.converge.generations import (
    Generation,
    answers,
    counted,
    fronts_wanted,
    last_of_each,
    routers_of,
)
from weft.converge.replicas import every_pod_is_asked
from weft.converge.serving import front_trouble, image_of_front, leads_to_replicas
from weft.domain.shape import EngineName
from weft.domain.spec import RolloutStrategy, RouterKind
from weft.engines import engine_in, engine_label
from weft.render import (
    FrontSpec,
    chooses_front,
    front_engine,
    front_name,
    front_program,
    only_front,
    pool_labels,
    render_front,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from weft.converge.objects import ObjectsAround
    from weft.converge.replicas import Replica
    from weft.domain.cluster import ObjectRecord, PodRecord
    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import PoolRecord
    from weft.domain.spec import PoolSpec
    from weft.render import Json

_BY_LABEL = {engine_label(engine): engine for engine in EngineName}


@dataclass(frozen=True, slots=True)
class EngineFronts:
    """Generations of a pool by engine, the planned one first, with the front that each shall have, if any.

    `first` is the engine whose front has the name of a pool's only front (empty: none of these); `is_there` says that
    its Deployment exists. `trouble` is why the front of each engine does not answer, or None. `lasting` are the engines
    that have an answering replica which is to stay. `serves` says that requests reach replicas of the planned engine.
    """

    current: EngineName
    known: tuple[Generation, ...]
    wanted: Mapping[EngineName, FrontSpec]
    first: str
    is_there: bool
    trouble: Mapping[str, Explanation | None]
    lasting: frozenset[EngineName]
    serves: bool

    @classmethod
    def of(cls, pool: PoolRecord, replicas: Sequence[Replica], around: ObjectsAround) -> EngineFronts | None:
        """The fronts by replicas and Deployments as they are; None without a managed router or a plan."""
        spec, plan = pool.spec, pool.status.plan
        if spec is None or plan is None or spec.router.kind is not RouterKind.Managed:
            return None
        current = plan.engine.name
        known, there = _by_engine(current, replicas), around.mine(*_front(around))
        alone = _stand_apart(pool, spec, known, around)
        if not alone:
            known = (counted(current, [replicas]),)
        first = _first(pool, spec, known, around) if alone else current
        names = {each.pair: _suffix(each.pair, first) for each in known}
        trouble = {engine: front_trouble(around, name) for engine, name in names.items()}
        stay = (each for each in replicas if each.assignment is not None and answers(each))
        lasting = frozenset(engine_of(each, current) if alone else current for each in stay)
        behind = {each for each in lasting if trouble[each] is None and _is_chosen(each, first, around)}
        serving = lasting if leads_to_replicas(around) else behind
        routers = fronts_wanted(known, spec.router.replicas, taken_over=bool(serving))
        wanted = {}
        for engine in map(EngineName, routers):
            own = (each for each in replicas if not alone or engine_of(each, current) is engine)
            plain = replace(_plain(pool, spec, routers[engine]), every_pod=every_pod_is_asked(spec, own))
            front = replace(plain, alone=alone, beside=engine != first)
            wanted[engine] = front if engine is current else replace(front, image=image_of_front(around, names[engine]))
        return cls(current, known, wanted, first, there is not None, trouble, lasting, current in serving)

    @property
    def is_current_there(self) -> bool:
        """Whether replicas of the planned engine answer."""
        return self.known[0].is_pair

    @property
    def serving(self) -> tuple[Generation, ...]:
        """Generations that requests may go to: whose front answers and has a replica that stays, or else any replica.

        So the last replica behind a front that stays itself can leave once nobody chooses that front any more.
        """
        found = [each for each in self.known if each.is_pair and each.pair in self.wanted]
        answering = [each for each in found if self.trouble[each.pair] is None]
        return tuple([each for each in answering if each.pair in self.lasting] or answering or found)

    @property
    def only(self) -> Mapping[str, str]:
        """Labels of the one front that the Service may choose, where not all wanted ones are `serving`; empty: any.

        All may be chosen, too, where no front with a replica answers: routers of an earlier rendering may still.
        """
        serving = self.serving
        answers_nowhere = all(self.trouble[each.pair] is not None for each in serving)
        if answers_nowhere or len(serving) == len(self.wanted):
            return {}
        most = max(serving, key=lambda each: min(each.answering)).pair
        return only_front(EngineName(most), beside=most != self.first)

    @property
    def why_not(self) -> Explanation | None:
        """Why no front with replicas (or without any, that of the planned engine) answers; None where one does."""
        troubles = [self.trouble[each.pair] for each in self.serving or self.known[:1]]
        return None if None in troubles else troubles[0]

    @property
    def awaited(self) -> str | None:
        """Why ready replicas of the planned engine get no requests yet, while another engine serves; None otherwise."""
        trouble = self.trouble[self.current] if len(self.known) > 1 and self.is_current_there else None
        return trouble.message if trouble is not None else None

    def kept(
        self, pool: PoolRecord, replicas: Sequence[Replica], pods: Iterable[PodRecord], now: float
    ) -> tuple[Replica, ...]:
        """Replicas of earlier engines that have to leave but are kept, as nothing could take over from them yet.

        All of them while replicas of the planned engine answer and requests do not reach these yet; then the last one
        of each engine while its routers finish their streams, also where the user meanwhile went back to that engine or
        on to a third one. Nothing is kept where all shall go first (`Recreate`).
        """
        recreated = pool.spec is not None and pool.spec.rollout.strategy is RolloutStrategy.Recreate
        if recreated or len(self.known) == 1:
            return ()
        routers = [(engine, pod) for pod in routers_of(pool, pods, now) for engine in self._chosen_by(pod)]
        placed = {engine_of(each, self.current) for each in replicas if each.has_its_place}
        outlived = {engine for engine, pod in routers if self._outlives(pod, engine, placed)}
        last = last_of_each(replicas, outlived, lambda replica: engine_of(replica, self.current))
        if self.serves or not self.is_current_there:
            return last
        return tuple(each for each in replicas if each in last or (self._is_earlier(each) and answers(each)))

    def _outlives(self, router: PodRecord, engine: str, placed: Collection[str]) -> bool:
        """Whether a router may still need a replica of `engine` while others need none of its GPUs.

        Other engines serve, or have replicas that are `placed` and may miss a probe. Where a successor may need the
        GPUs, only a router that goes counts: it ends in time.
        """
        taken_over = any(each.pair != engine for each in self.serving) or any(each != engine for each in placed)
        goes = router.terminating or engine not in self.wanted
        return taken_over and (goes or (engine != self.current and self.is_current_there))

    def _is_earlier(self, replica: Replica) -> bool:
        return replica.assignment is None and engine_of(replica, self.current) is not self.current

    def _chosen_by(self, router: PodRecord) -> Iterable[str]:
        """Engines whose replicas a router may choose; a router without an engine label was its pool's only front."""
        if router.engine in _BY_LABEL:
            return (_BY_LABEL[router.engine],)
        return (self.first,) if self.is_there else [each.pair for each in self.known]


def engine_at_a_gateway(current: EngineName, replicas: Iterable[Replica]) -> EngineName:
    """The engine whose port an endpoint picker is given for all pods: that of most answering replicas."""
    answering = Counter(engine_of(replica, current) for replica in replicas if answers(replica))
    return max(answering, key=lambda engine: (answering[engine], engine is current), default=current)


def engine_of(replica: Replica, current: EngineName) -> EngineName:
    """The engine that a replica runs; the current one where its pods do not tell."""
    return engine_in(replica.pods[0], current) if replica.pods else current


def _by_engine(current: EngineName, replicas: Sequence[Replica]) -> tuple[Generation, ...]:
    """The current engine and every other one that replicas run, with how many stay and how many answer."""
    found: dict[EngineName, list[Replica]] = {current: []}
    for replica in replicas:
        found.setdefault(engine_of(replica, current), []).append(replica)
    others = sorted(found.keys() - {current})
    return tuple(counted(engine, [found[engine]]) for engine in (current, *others))


def _stand_apart(pool: PoolRecord, spec: PoolSpec, known: Sequence[Generation], around: ObjectsAround) -> bool:
    """Whether each front chooses replicas of one engine alone; once one does, it stays so, and nothing restarts."""
    there = around.mine(*_front(around))
    if there is not None and front_engine(there.body):
        return True
    if any(_is_beside(each, around) for each in known):
        return True
    plain = [_render(pool, spec, EngineName(each.pair), _plain(pool, spec)) for each in known]
    if any(body != plain[0] for body in plain):
        return True
    return there is not None and not _made_for(pool, spec, known, there)


def _first(pool: PoolRecord, spec: PoolSpec, known: Sequence[Generation], around: ObjectsAround) -> str:
    """The engine whose front has the name without an engine; empty where there is none.

    That is the engine that it was made for; while there is no such front, the first engine that has no other one.
    """
    there = around.mine(*_front(around))
    if there is None:
        return next((each.pair for each in known if not _is_beside(each, around)), "")
    if front_engine(there.body):
        return _BY_LABEL.get(front_engine(there.body), "")
    found = _made_for(pool, spec, known, there)
    return max(found, key=lambda each: min(each.answering)).pair if found else ""


def _made_for(
    pool: PoolRecord, spec: PoolSpec, known: Sequence[Generation], there: ObjectRecord
) -> Sequence[Generation]:
    """Generations whose router the front without an engine label runs.

    All of them where it runs no known router, as somebody edited it or an earlier release named it differently: it is
    then corrected in place, by a rolling update.
    """
    runs = {each for each in EngineName if _runs(there, _render(pool, spec, each, _plain(pool, spec)))}
    return [each for each in known if not runs or each.pair in runs]


def _is_chosen(engine: EngineName, first: str, around: ObjectsAround) -> bool:
    """Whether the Service, as it is, may choose the front of an engine."""
    service = around.mine("v1", "Service", around.owner.name)
    return service is not None and chooses_front(service.body, engine, beside=engine != first)


def _is_beside(each: Generation, around: ObjectsAround) -> bool:
    return around.mine(*_front(around, engine_label(EngineName(each.pair)))) is not None


def _runs(there: ObjectRecord, rendered: Json) -> bool:
    return front_program(there.body) == front_program(rendered)


def _suffix(engine: str, first: str) -> str:
    return "" if engine == first else engine_label(EngineName(engine))


def _front(around: ObjectsAround, of: str = "") -> tuple[str, str, str]:
    return "apps/v1", "Deployment", front_name(around.owner, of)


def _plain(pool: PoolRecord, spec: PoolSpec, routers: int = 1) -> FrontSpec:
    return FrontSpec((pool.key,), routers, spec.rollout.drain_timeout_seconds)


def _render(pool: PoolRecord, spec: PoolSpec, engine: EngineName, front: FrontSpec) -> Json:
    return render_front(pool.key, engine, spec.router, front, pool_labels(pool))
