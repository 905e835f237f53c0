"""The operator of a simulated cluster: its real `decide` and `converge`, run in turn as its loops would.

The two communicate through the status of each resource, of which each of them owns its part.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.api import parse_pool
from weft.converge import Heard, converge_pool, converge_split
from weft.decide import decide, in_safe_order
from weft.domain.action import ApplyObject, DeleteObject, ForgetWorker, LabelPod
from weft.domain.decision import PoolDecision
from weft.domain.moves import MoveBudget
from weft.domain.relaxations import permitting_all
from weft.domain.snapshot import Snapshot
from weft.domain.status import PoolProgress
from weft.domain.values.changed import changed
from weft.domain.workload import Role
from weft.fabric import build_fabric
from weft.twin.cluster.objects import SimulatedObjects
from weft.twin.cluster.pods import EPOCH
from weft.twin.operating.standstill import asks_for_more, stands_still
from weft.twin.outcome import DecisionEvent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.catalog import Catalog
    from weft.domain.action import Action
    from weft.domain.cluster import PodRecord
    from weft.domain.decision import Decisions, SplitDecision
    from weft.domain.fabric import Fabric
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.snapshot import PoolObservation, PoolRecord, SplitRecord
    from weft.domain.spec import PoolSpec
    from weft.domain.status import Condition, SplitProgress
    from weft.twin.cluster.cluster import SimulatedCluster

Classes = Mapping[str, tuple[int, bool]]  # PriorityClasses by name: their value, and whether they preempt
MOST_TURNS = 8  # rounds of the loops at one moment: work that is left then waits for the next wake-up
POOL = "InferencePool"


class SimulatedOperation:
    """Pools and splits by UID, and the loops that serve them. Times are seconds of the trace."""

    def __init__(
        self,
        pools: Iterable[PoolRecord],
        splits: Iterable[SplitRecord],
        cluster: SimulatedCluster,
        catalog: Catalog,
        classes: Classes,
    ) -> None:
        """Start with nothing decided."""
        self._classes = classes
        self.pools = {each.key.uid: self._ranked(each) for each in pools}
        self.splits = {each.key.uid: self._ranked_split(each) for each in splits}
        self.told: list[DecisionEvent] = []
        self._cluster, self._catalog = cluster, catalog
        self._objects = SimulatedObjects()
        self._decided: dict[str, tuple[Condition, ...]] = {}
        self._progress: dict[str, PoolProgress | SplitProgress] = {}
        self._memory: dict[str, ScaleMemory] = {}
        self._stale = {*self.pools, *self.splits}  # UIDs that have to be converged
        self._fabric: tuple[int, Fabric] | None = None

    # for callers

    def ready(self, uid: str) -> int:
        """Return the number of ready replicas in a pool's status."""
        found = self._progress.get(uid)
        return found.ready_replicas if isinstance(found, PoolProgress) else 0

    def is_up(self, single: int) -> bool:
        """Return whether all replicas that are wanted serve: of so many single pools, and of the halves of splits."""
        whole = len(self.pools) >= single + 2 * len(self.splits)
        return whole and all(0 < pool.status.desired_replicas <= self.ready(uid) for uid, pool in self.pools.items())

    def forget(self) -> None:
        """Forget what only the process knows, as after a restart; statuses stay."""
        self._memory = {}

    def edit(self, uid: str, spec: PoolSpec) -> None:
        """Write the spec of a pool that belongs to no split, as a user would."""
        pool = self.pools[uid]
        self.pools[uid] = changed(pool, spec=spec, generation=pool.generation + 1)
        self._stale.add(uid)

    def edit_split(self, split: SplitRecord) -> None:
        """Write a split, as a user would."""
        self.splits[split.key.uid] = changed(split, generation=split.generation + 1)
        self._stale.add(split.key.uid)

    def scale(self, uid: str, replicas: int) -> None:
        """Write the replica count of a pool through `/scale`."""
        pool = self.pools[uid]
        if pool.spec is None or pool.spec.scaling.replicas == replicas:
            return
        record = self._objects.at(pool.key.namespace, POOL, pool.key.name)
        if record is not None:
            body = copy.deepcopy(record.body)
            body["spec"]["scaling"]["replicas"] = replicas
            self._objects.rewrite(record, body)
        self.edit(uid, replace(pool.spec, scaling=replace(pool.spec.scaling, replicas=replicas)))

    # the loops

    def turn(self, now: float, observations: Mapping[str, PoolObservation]) -> float | None:
        """Decide and converge until nothing changes; returns the seconds after which time alone changes the decision.

        Every write wakes the loops again, so that its consequences happen at the same moment.
        """
        wake = None
        for _ in range(MOST_TURNS):
            decisions = self._decide(now, observations)
            wake = decisions.wake_after_seconds
            if not self._converge(now):
                break
        return wake

    @property
    def has_settled(self) -> bool:
        """Whether no loop has anything to do before something changes, or time does."""
        return not self._stale and not self._cluster.touched

    def rest(self, now: float, observations: Mapping[str, PoolObservation]) -> bool:
        """Let a pass at a later time be the next one, if it changes nothing; returns whether it was."""
        decisions = self._decisions(now, observations)
        if not stands_still(decisions, self.pools, self._decided, self._memory):
            return False
        self._keep(decisions, now)
        return self.has_settled

    def _decide(self, now: float, observations: Mapping[str, PoolObservation]) -> Decisions:
        decisions = self._decisions(now, observations)
        self._keep(decisions, now)
        return decisions

    def _decisions(self, now: float, observations: Mapping[str, PoolObservation]) -> Decisions:
        snapshot = Snapshot(
            EPOCH + now,
            tuple(self.pools.values()),
            tuple(self.splits.values()),
            self._cluster.nodes,
            self._cluster.pods,
            dict(observations),
            dict(self._memory),
            budget=MoveBudget(),
            quotas=self._cluster.quotas,
        )
        return decide(snapshot, self._catalog)

    def _keep(self, decisions: Decisions, now: float) -> None:
        """Write what was decided into the statuses."""
        self._memory = decisions.memory
        for each in in_safe_order(decisions.pools, tuple(self.pools.values())):
            if isinstance(each.decision, PoolDecision):
                self._write_pool(each.decision, now)
        for split in decisions.splits:
            self._write_split(split, now)

    def _write_pool(self, decision: PoolDecision, now: float) -> None:
        uid, status = decision.key.uid, decision.status
        pool = self.pools[uid]
        conditions = (*decision.conditions, *_conditions(self._progress.get(uid)))
        if asks_for_more(pool.status, status) or not _alike(self._decided.get(uid, ()), decision.conditions):
            self._stale.update((uid, pool.split_uid) if pool.split_uid else (uid,))
        self._decided[uid] = decision.conditions
        self.pools[uid] = changed(pool, status=status, conditions=conditions)
        self.told += [DecisionEvent(now, decision.key.name, event, pool.split_uid or uid) for event in decision.events]

    def _write_split(self, decision: SplitDecision, now: float) -> None:
        uid = decision.key.uid
        split = self.splits[uid]
        conditions = (*decision.conditions, *_conditions(self._progress.get(uid)))
        if split.status != decision.status or not _alike(self._decided.get(uid, ()), decision.conditions):
            self._stale.add(uid)
        self._decided[uid] = decision.conditions
        self.splits[uid] = changed(split, status=decision.status, conditions=conditions)
        self.told += [DecisionEvent(now, decision.key.name, event, uid) for event in decision.events]

    # converging

    def _converge(self, now: float) -> bool:
        """Converge everything that is stale until nothing is; returns whether any action was taken."""
        acted = False
        for _ in range(MOST_TURNS):
            stale = self._take_stale()
            if not stale:
                break
            for uid in stale:
                acted |= self._look_at(uid, now)
        return acted

    def _take_stale(self) -> list[str]:
        """Return the stale UIDs, pools first; once any pods changed, pools with gated pods are stale too."""
        touched, self._cluster.touched = self._cluster.touched, set()
        if touched:
            self._stale |= {pod.identity.pool_uid for pod in self._cluster.pods if pod.gated and pod.identity}
        self._stale |= touched | {pool.split_uid or "" for uid, pool in self.pools.items() if uid in touched}
        found = [uid for uid in (*self.pools, *self.splits) if uid in self._stale]
        self._stale = set()
        return found

    def _look_at(self, uid: str, now: float) -> bool:
        return self._look_at_pool(self.pools[uid], now) if uid in self.pools else self._look_at_split(uid, now)

    def _look_at_pool(self, pool: PoolRecord, now: float) -> bool:
        uid, objects = pool.key.uid, self._objects.of(pool.key.namespace)
        done = converge_pool(pool, self._fabric_now(), self._pods_of({uid}), objects, Heard(EPOCH + now))
        self._progress[uid] = done.progress
        self.pools[uid] = changed(pool, conditions=(*self._decided.get(uid, ()), *done.progress.conditions))
        return self._carry_out(uid, done.actions, now)

    def _look_at_split(self, uid: str, now: float) -> bool:
        split = self.splits[uid]
        children = tuple(each for each in self.pools.values() if each.split_uid == uid)
        pods, objects = self._pods_of({each.key.uid for each in children}), self._objects.of(split.key.namespace)
        done = converge_split(split, children, objects, pods, EPOCH + now)
        self._progress[uid] = done.progress
        self.splits[uid] = changed(split, conditions=(*self._decided.get(uid, ()), *done.progress.conditions))
        self.told += [DecisionEvent(now, split.key.name, event, uid) for event in done.events]
        return self._carry_out(uid, done.actions, now)

    def _pods_of(self, uids: set[str]) -> tuple[PodRecord, ...]:
        return tuple(pod for pod in self._cluster.pods if pod.identity is not None and pod.identity.pool_uid in uids)

    def _fabric_now(self) -> Fabric:
        if self._fabric is None or self._fabric[0] != self._cluster.revision:
            fabric = build_fabric(self._cluster.nodes, self._cluster.pods, self._catalog)
            self._fabric = self._cluster.revision, fabric
        return self._fabric[1]

    def _carry_out(self, uid: str, actions: Iterable[Action], now: float) -> bool:
        """Carry the actions out in order, and converge the resource again if there were any."""
        acted = False
        for action in actions:
            acted = True
            self._stale.add(uid)
            match action:
                case ApplyObject():
                    self._apply(action)
                case DeleteObject():
                    self._objects.delete(action)
                case LabelPod() | ForgetWorker():
                    pass  # nobody edits labels in a simulation, and its front is no pod
                case _:
                    self._cluster.carry_out(action, now)
        return acted

    def _apply(self, action: ApplyObject) -> None:
        record = self._objects.apply(action)
        if record.kind != POOL:
            return
        read = self._ranked(self._with_config(parse_pool(record.body)))
        if read.spec is not None:
            read = changed(read, spec=permitting_all(read.spec))
        known = self.pools.get(record.uid)
        if known is not None:
            read = changed(read, status=known.status, conditions=known.conditions)
        self.pools[record.uid] = read
        self._stale.add(record.uid)

    def _with_config(self, pool: PoolRecord) -> PoolRecord:
        """Give a half of a split the config.json of the ConfigMap that its model names, which the split has."""
        split = self.splits.get(pool.split_uid or "")
        if split is None or split.spec is None or pool.spec is None or pool.spec.model.config_map is None:
            return pool
        half = split.spec.prefill if pool.spec.role is Role.Prefill else split.spec.decode
        model = replace(pool.spec.model, config_json=half.model.config_json)
        return changed(pool, spec=replace(pool.spec, model=model))

    def _ranked(self, pool: PoolRecord) -> PoolRecord:
        value, preempts = self._class_of(pool.spec)
        return changed(pool, priority=value, preempts=preempts)

    def _ranked_split(self, split: SplitRecord) -> SplitRecord:
        return changed(split, priority=self._class_of(split.spec.prefill if split.spec else None)[0])

    def _class_of(self, spec: PoolSpec | None) -> tuple[int, bool]:
        name = spec.pod.priority_class if spec is not None else None
        return self._classes.get(name or "", (0, True))


def _conditions(progress: PoolProgress | SplitProgress | None) -> tuple[Condition, ...]:
    return progress.conditions if progress is not None else ()


def _alike(old: tuple[Condition, ...], new: tuple[Condition, ...]) -> bool:
    """Whether both have the same false Planned and Placed conditions: converging depends on no other condition."""
    return _refusals(old) == _refusals(new)


def _refusals(conditions: tuple[Condition, ...]) -> list[Condition]:
    return [each for each in conditions if each.status == "False" and each.kind in {"Planned", "Placed"}]
