"""Whatever an API server makes of writes, and however old a view is: nothing is used twice, and all comes to rest.

A mesh injects containers, a LimitRange fills in limits, a quota is full half-way through a gang, answers are lost or
throttled, pods are deleted by force, the namespace ends and is kept, watches stand still, and the operator dies
anywhere between. Rules of docs/rules.md: S3, S10, L1, L5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.holding.admission import CONTAINER, LABELS, LIMITS, LOST, SIDECAR, THROTTLED, Admitted, Lagging
from tests.holding.cluster import boards, bound_to, rack
from tests.holding.operation import Died, pool_body

Json = dict[str, Any]
POOLS = {"chat": 2, "wide": 2}
MOST = 2  # replicas of either that fit
TRAYS = [*rack("a.1", 5), *boards(2)]
NODES = [node["metadata"]["name"] for node in TRAYS]

pools, nodes = st.sampled_from(sorted(POOLS)), st.sampled_from(NODES)
injected = st.frozensets(st.sampled_from([CONTAINER, SIDECAR, LABELS, LIMITS]))
events = st.one_of(
    st.tuples(st.just("room"), st.one_of(st.none(), st.integers(0, 6)), st.none()),
    st.tuples(st.just("inject"), injected, st.none()),
    st.tuples(st.just("answers"), st.lists(st.sampled_from(["", LOST, THROTTLED]), max_size=6), st.none()),
    st.tuples(st.just("lag"), st.booleans(), st.none()),
    st.tuples(st.just("end"), st.booleans(), st.none()),
    st.tuples(st.sampled_from(["force", "delete", "crash"]), pools, st.integers(0, 5)),
    st.tuples(st.just("remove"), nodes, st.booleans()),
    st.tuples(st.just("bring back"), nodes, st.none()),
    st.tuples(st.just("silence"), nodes, st.booleans()),
    st.tuples(st.just("occupy"), nodes, st.integers(1, 4)),
    st.tuples(st.just("vacate"), nodes, st.none()),
    st.tuples(st.just("edit"), pools, st.integers(1, 3)),
    st.tuples(st.just("restart"), pools, st.integers(0, 3)),
)
passes = st.one_of(
    st.tuples(st.just("decide"), st.none(), st.none()),
    st.tuples(st.just("converge"), pools, st.none()),
    st.tuples(st.just("step"), st.none(), st.none()),
    st.tuples(st.just("die"), st.integers(1, 8), st.none()),
    st.tuples(st.just("turn"), st.integers(1, 3), st.sampled_from([1.0, 5.0, 40.0])),
)
walks = st.lists(st.one_of(events, passes), max_size=40)
Step = tuple[str, Any, Any]


class Surrounded(Admitted):
    """Two pools, and what may happen to them: methods are named as the steps."""

    cluster: Lagging

    def inject(self, kinds: frozenset[str], _: None) -> None:
        self.injects = kinds

    def answer(self, answers: list[str], _: None) -> None:
        self.answers = list(answers)

    def remove(self, node: str, runs_on: bool) -> None:  # noqa: FBT001 - values of one step
        if node in self.cluster.nodes:
            self.cluster.remove(node, runs_on=runs_on)

    def bring_back(self, node: str, _: None) -> None:
        if node in self.cluster.away:
            self.cluster.bring_back(node)

    def silence(self, node: str, ready: bool) -> None:  # noqa: FBT001 - values of one step
        if node in self.cluster.nodes:
            self.cluster.silence(node, ready=ready)

    def scale(self, pool: str, replicas: int) -> None:
        self.edit(pool, scaling={**self.bodies[pool]["spec"]["scaling"], "replicas": replicas})

    def roll(self, pool: str, version: int) -> None:
        self.edit(pool, engine={"env": [{"name": "VERSION", "value": str(version)}]})

    def lose(self, how: str, pool: str, index: int) -> None:
        """A pod of a pool is deleted, by force or not, or its engine ends."""
        found = self.pods_of(pool)
        name = found[index % len(found)]["metadata"]["name"] if found else ""
        if how == "crash" and name and bound_to(self.cluster.pods[name]):
            self.cluster.crash(name)
        elif how != "crash" and name:
            (self.cluster.force_delete if how == "force" else self.cluster.delete)(name)

    def heal(self) -> None:
        """Whoever was in the way is not any more."""
        self.room, self.answers, self.ends, self.writes_left = None, [], False, None
        self.cluster.lag(on=False)
        for node in NODES:
            self.bring_back(node, None)
            self.silence(node, ready=True)
            self.cluster.vacate(f"job-{node}")


STEPS: dict[str, Any] = {
    "room": lambda world, room, _: setattr(world, "room", room),
    "end": lambda world, on, _: setattr(world, "ends", on),
    "inject": Surrounded.inject,
    "answers": Surrounded.answer,
    "lag": lambda world, on, _: world.cluster.lag(on=on),
    "force": lambda world, pool, index: world.lose("force", pool, index),
    "delete": lambda world, pool, index: world.lose("delete", pool, index),
    "crash": lambda world, pool, index: world.lose("crash", pool, index),
    "remove": Surrounded.remove,
    "bring back": Surrounded.bring_back,
    "silence": Surrounded.silence,
    "occupy": lambda world, node, gpus: world.cluster.occupy(node, gpus),
    "vacate": lambda world, node, _: world.cluster.vacate(f"job-{node}"),
    "edit": Surrounded.scale,
    "restart": Surrounded.roll,
    "decide": lambda world, *_: world.decide(),
    "converge": lambda world, pool, _: world.converge(pool),
    "step": lambda world, *_: world.cluster.step(),
    "die": lambda world, writes, _: setattr(world, "writes_left", writes),
    "turn": lambda world, turns, seconds: world.turn(turns, seconds),
}


def surrounded() -> Surrounded:
    cluster = Lagging({node["metadata"]["name"]: node for node in [*rack("a.1", 5), *boards(2)]})
    bodies = [pool_body("chat", "H200", 8, POOLS["chat"]), pool_body("wide", "GB200", 8, POOLS["wide"])]
    return Surrounded(cluster, {body["metadata"]["name"]: body for body in bodies})


@dataclass
class Walk:
    """What happens, and the ids that were seen: each has its nodes once and for ever."""

    world: Surrounded = field(default_factory=surrounded)
    seen: dict[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)
    given_up: set[tuple[str, int]] = field(default_factory=set)

    def take(self, step: Step) -> None:
        what, first, second = step
        try:
            STEPS[what](self.world, first, second)
        except Died:
            self.world.restart()
            self.world.cluster.lag(on=False)  # a new process lists first
        now = {(name, each.replica): each.nodes for name in POOLS for each in self.world.assignments(name)}
        self.given_up |= self.seen.keys() - now.keys()
        assert not self.given_up & now.keys()
        assert all(self.seen.get(key, where) == where for key, where in now.items())
        self.seen |= now


@settings(max_examples=12, deadline=None)
@given(first=st.integers(0, 4), walk=walks)
@example(first=0, walk=[("room", 1, None), ("turn", 3, 40.0), ("restart", "wide", 1), ("turn", 2, 5.0)])
@example(first=1, walk=[("lag", True, None), ("turn", 3, 40.0), ("delete", "wide", 0), ("turn", 3, 5.0)])
@example(first=0, walk=[("answers", [LOST] * 6, None), ("turn", 1, 1.0), ("answers", [THROTTLED] * 3, None)])
def test_whatever_becomes_of_writes_all_that_is_wanted_serves_in_the_end(first: int, walk: list[Step]) -> None:
    """No pod is left over, none is lacking, and nobody goes on writing."""
    course = Walk()
    for step in (("turn", first, 5.0), *walk):
        course.take(step)
    world = course.world
    world.heal()
    world.rest()
    for name in POOLS:
        wanted = min(MOST, world.bodies[name]["spec"]["scaling"]["replicas"])
        assert wanted == len(world.serving(name)), world.describe()
        assert world.serving(name) == world.replicas(name), world.describe()
        assert len(world.pods_of(name)) == sum(each.pods for each in world.assignments(name)), world.describe()
