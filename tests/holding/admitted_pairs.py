"""A split whose API server changes, refuses or loses writes, and whose watches lag, repeat themselves or mix times.

Each kind has a watch of its own: pods may be seen as they were, and objects as they are, or the other way round.
"""

from __future__ import annotations

from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self
from zlib import crc32

from tests.holding.admission import LOST, THROTTLED, Admitted, Lagging
from tests.holding.operation import TEAM
from tests.holding.test_split_walks import Hardships
from weft.apply import Unanswered
from weft.control.converging.carrying_out import Carrier
from weft.domain import labels
from weft.domain.action import Action, ApplyObject, DeleteObject, DeletePod, LabelPod
from weft.domain.errors import Blocked, Retry
from weft.domain.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from weft.domain.cluster import ObjectRecord, PodRecord
    from weft.domain.errors import WeftError
    from weft.domain.snapshot import PoolRecord

Json = dict[str, Any]
REMEMBERED = 12  # states of the past that a watch may still deliver


@dataclass
class Delivered(Lagging):
    """A cluster whose pods may be shown as they were some changes ago, all of them or each by itself."""

    past: deque[dict[str, PodRecord]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))

    def note(self) -> None:
        """What is there now may be delivered again later."""
        now = {pod.name: pod for pod in Lagging.pod_records(self)} if self.seen is None else self._truly()
        if not self.past or self.past[-1] != now:
            self.past.append(now)

    def _truly(self) -> dict[str, PodRecord]:
        seen, self.seen = self.seen, None
        now = {pod.name: pod for pod in Lagging.pod_records(self)}
        self.seen = seen
        return now

    def show(self, ago: int) -> None:
        """Events of a while ago are delivered once more, and what came later is not there yet."""
        if self.past:
            then = self.past[max(0, len(self.past) - 1 - ago)]
            self.seen = tuple(then[name] for name in sorted(then))

    def mix(self, seed: int) -> None:
        """Events of different pods come in an order of their own: each pod is as it was at some time."""
        if not self.past:
            return
        mixed = {}
        for name in sorted({name for then in self.past for name in then}):
            pod = self.past[crc32(f"{seed} {name}".encode()) % len(self.past)].get(name)
            if pod is not None:
                mixed[name] = pod
        self.seen = tuple(mixed.values())


@dataclass
class AdmittedPair(Hardships, Admitted):
    """Every write of a pass over the split or a half passes admission, in the order of the operator's own carrier."""

    objects: tuple[ObjectRecord, ...] | None = None  # what is known of objects while their watch stands still
    specs: dict[str, Json] = field(default_factory=dict)  # and of children
    current: dict[str, str] = field(default_factory=dict)  # the generation of each engine pod, by UID
    other_memory: dict[str, Any] = field(default_factory=dict)
    stuck: bool = False  # whether no router is admitted
    misled: bool = False  # whether anything was decided on what is not there any more, or before the strategy changed

    @classmethod
    def on(cls, nodes: list[Json], split: Json) -> Self:
        return cls(Delivered({node["metadata"]["name"]: node for node in nodes}), {}, split=split)

    @property
    def watched(self) -> Delivered:
        assert isinstance(self.cluster, Delivered)
        return self.cluster

    def sees_what_is_there(self) -> bool:
        """Of a process that was told otherwise once: it gave up replicas that serve, and learns that too late."""
        return not self.misled

    # what is seen

    def objects_seen(self) -> tuple[ObjectRecord, ...]:
        return self.cluster.objects_of(TEAM) if self.objects is None else self.objects

    def lag_objects(self, *, on: bool) -> None:
        """The watch of objects and children stands still; statuses of children are ours, and known at once."""
        self.objects = self.cluster.objects_of(TEAM) if on else None
        self.specs = {name: {**body} for name, body in self.bodies.items()} if on else {}

    def pools(self) -> tuple[PoolRecord, ...]:
        return tuple(each for each in super().pools() if self._knows(each.key.name))

    def _read(self, bodies: Iterable[Json]) -> tuple[PoolRecord, ...]:
        return super()._read([self._seen(body["metadata"]["name"]) for body in bodies])

    def _knows(self, name: str) -> bool:
        known = self.specs.get(name)
        return self.objects is None or (known is not None and known["metadata"]["uid"] == self.uid_of(name))

    def _seen(self, name: str) -> Json:
        body = self.bodies[name]
        if self.objects is None or not self._knows(name):
            return body
        return {**self.specs[name], **({"status": body["status"]} if "status" in body else {})}

    def uid_of(self, name: str) -> str:
        uid: str = self.bodies[name]["metadata"]["uid"]
        return uid

    def restart(self) -> None:
        """A new process lists first."""
        super().restart()
        self.see_all()

    def see_all(self) -> None:
        self.watched.lag(on=False)
        self.lag_objects(on=False)

    def another(self) -> None:
        """The lease goes to the other process, which knows what it knew when it lost it."""
        self.memory, self.other_memory = self.other_memory, self.memory

    # what is written

    def converge(self, name: str) -> None:
        if self._knows(name):
            Admitted.converge(self, name)

    def _carry_out_for_the_split(self, actions: tuple[Action, ...]) -> WeftError | None:
        with ThreadPoolExecutor(1) as alone:
            failed = Carrier(self._admit_object, alone, 1).carry_out(actions)
        return None if failed is None else failed.error

    def _admit(self, action: Action, name: str) -> None:
        if isinstance(action, ApplyObject | DeleteObject):
            self._admit_object(action)
        else:
            super()._admit(action, name)

    def _admit_object(self, action: Action) -> None:
        answer = self.answers.pop(0) if self.answers else ""
        if answer == THROTTLED:
            raise Retry(Reason.ApiUnavailable, "429 Too Many Requests")
        if isinstance(action, DeleteObject):
            there = (each.uid for each in self.cluster.objects_of(TEAM) if _is(each, action.kind, action.name))
            if next(there, None) != action.uid:
                return
        if isinstance(action, ApplyObject) and self.ends and not self._is_there(action):
            raise Blocked(Reason.NamespaceTerminating, "the namespace is being deleted")
        self.cluster.carry_out(action)
        self._count()
        if answer == LOST:
            raise Unanswered(Reason.ApiUnavailable, "504 Gateway Timeout")

    def _is_there(self, action: ApplyObject) -> bool:
        kind, name = action.body["kind"], action.body["metadata"]["name"]
        return any(_is(each, kind, name) for each in self.cluster.objects_of(TEAM))

    def _check(self, action: Action, name: str) -> None:
        super()._check(action, name)
        if isinstance(action, DeletePod):
            pod = self.cluster.pods[action.name]
            tags = pod["metadata"]["labels"]
            first = tags.get(labels.RANK) == "0" and tags.get(labels.ROUTED) == "true"
            assert not (first and self.cluster.serves(pod)), (action, self.describe())
        if isinstance(action, LabelPod):
            pod = self.cluster.pods[action.name]
            wanted = dict(action.labels).get(labels.PAIR)
            assert wanted in {None, self.current[pod["metadata"]["uid"]]}, (action, self.describe())

    def _scale(self, deployment: str, replicas: int, template: Json) -> None:
        there = sum(name.rpartition("-")[0] == deployment for name in self._router_pods())
        super()._scale(deployment, min(replicas, there) if self.stuck else replicas, template)

    def look(self) -> None:
        """What holds whenever anybody looks."""
        self.watched.note()
        ranks: Counter[tuple[str, ...]] = Counter()
        for pod in self.cluster.pods.values():
            tags, uid = pod["metadata"]["labels"], pod["metadata"].get("uid", "")
            if labels.REPLICA in tags and labels.PAIR in tags:
                assert self.current.setdefault(uid, tags[labels.PAIR]) == tags[labels.PAIR], self.describe()
                ranks[tags[labels.POOL_UID], tags[labels.REPLICA], tags[labels.RANK]] += 1
        assert set(ranks.values()) <= {1}, self.describe()
        for node, gpus in self.held().items():
            body = self.cluster.nodes.get(node)
            assert body is None or gpus <= int(body["status"]["capacity"]["nvidia.com/gpu"]), self.describe()

    def go_on(self) -> None:
        super().go_on()
        self._collect_orphans()
        self.look()

    def _collect_orphans(self) -> None:
        """Garbage collection takes pods whose owner is gone."""
        owners = {self.uid_of(name) for name in self.bodies}
        for name, pod in list(self.cluster.pods.items()):
            meta, tags = pod["metadata"], pod["metadata"]["labels"]
            is_orphan = labels.REPLICA in tags and tags[labels.POOL_UID] not in owners
            if is_orphan and "deletionTimestamp" not in meta:
                self.cluster.delete(name)


def _is(record: ObjectRecord, kind: str, name: str) -> bool:
    return (record.kind, record.name) == (kind, name)
