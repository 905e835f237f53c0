"""Whatever happens to a split while it rolls: routers only ever find whole pairs, and all comes to rest.

Walks over edits, lost nodes, deleted pods, fronts, Services and children, with the passes of an operator that may die
after any of its writes, and of the split, its halves, the scheduler and the routers in any order. Rules of design
section 9: S1, S3, S6, L1 to L3, L5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.holding.cluster import boards, bound_to
from tests.holding.operation import TEAM, Died
from tests.holding.pairs import HALVES, MADE, Pair, split_body
from tests.holding.picked import PickedPair, picked_body
from weft.domain import labels
from weft.domain.action import Action, DeletePod, UnroutePod

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]
NODES = [f"b-{index}" for index in range(4)]
KINDS = ["Deployment", "Service", "PodDisruptionBudget", "HTTPRoute"]
POOLS = [f"duo-{half}" for half in HALVES]

nodes, halves = st.sampled_from(NODES), st.sampled_from(POOLS)
events = st.one_of(
    st.tuples(st.just("engine"), st.integers(0, 3), st.none()),
    st.tuples(st.just("count"), st.sampled_from(HALVES), st.integers(1, 3)),
    st.tuples(st.just("pause"), st.booleans(), st.none()),
    st.tuples(st.just("strategy"), st.sampled_from(["Surge", "Recreate"]), st.none()),
    st.tuples(st.just("silence"), nodes, st.booleans()),
    st.tuples(st.just("cordon"), nodes, st.booleans()),
    st.tuples(st.just("remove"), nodes, st.booleans()),
    st.tuples(st.just("bring back"), nodes, st.none()),
    st.tuples(st.just("wedge"), nodes, st.booleans()),
    st.tuples(st.just("occupy"), nodes, st.integers(1, 8)),
    st.tuples(st.just("vacate"), nodes, st.none()),
    st.tuples(st.just("delete"), halves, st.integers(0, 7)),
    st.tuples(st.just("crash"), halves, st.integers(0, 7)),
    st.tuples(st.just("delete object"), st.sampled_from(KINDS), st.integers(0, 5)),
    st.tuples(st.just("delete child"), halves, st.none()),
)
passes = st.one_of(
    st.tuples(st.just("decide"), st.none(), st.none()),
    st.tuples(st.just("converge split"), st.none(), st.none()),
    st.tuples(st.just("converge"), halves, st.none()),
    st.tuples(st.just("step"), st.none(), st.none()),
    st.tuples(st.just("route"), st.none(), st.none()),
    st.tuples(st.just("die"), st.integers(1, 12), st.none()),
    st.tuples(st.just("conflict"), halves, st.booleans()),
    st.tuples(st.just("turn"), st.integers(1, 4), st.sampled_from([1.0, 5.0, 40.0])),
)
Step = tuple[str, Any, Any]
walks = st.lists(st.one_of(events, passes), max_size=40)


class Hardships(Pair):
    """A split whose children may be deleted: what they own goes with them, and their successors have other UIDs."""

    def _adopt_children(self) -> None:
        for record in self.cluster.objects_of(TEAM):
            if (record.api_version, record.kind) == (labels.API_VERSION, "InferencePool"):
                known = self.bodies.get(record.name, {})
                body = {**record.body, "metadata": {**MADE, **record.body["metadata"]}}
                self.bodies[record.name] = {**body, **({"status": known["status"]} if "status" in known else {})}

    def lose_child(self, name: str) -> None:
        """Somebody deletes a child, and garbage collection all that it owns."""
        known = self.bodies.pop(name, None)
        if known is None:
            return
        self.parts.pop(name, None)
        uid = known["metadata"]["uid"]
        self.cluster.forget_object("InferencePool", name)
        for record in self.cluster.objects_of(TEAM):
            if record.owner_uid == uid:
                self.cluster.forget_object(record.kind, record.name)
        for pod in list(self.cluster.pods.values()):
            if pod["metadata"]["labels"].get(labels.POOL_UID) == uid and labels.REPLICA in pod["metadata"]["labels"]:
                self.cluster.delete(pod["metadata"]["name"])

    def _check(self, action: Action, name: str) -> None:
        if isinstance(action, DeletePod | UnroutePod):
            pod = self.cluster.pods[action.name]
            assert self.bodies[name]["metadata"]["uid"] == pod["metadata"]["labels"][labels.POOL_UID]
            assert "deletionTimestamp" not in pod["metadata"]

    def _carry_out(self, action: Action, name: str) -> None:
        """What of the serving pairs we take away ourselves leaves enough, and no router with half of its pair."""
        known = self.is_known() and self.sees_what_is_there()
        before, whole = (self.capacity(), self.pairs_of_routers()) if known else (0.0, set())
        try:
            super()._carry_out(action, name)
        finally:
            if known and not self.recreates():
                assert whole <= self.pairs_of_routers(), (action, self.describe())
                assert self.capacity() >= min(1.0, before) - 1e-9, (action, before, self.describe())

    def converge_the_split(self) -> None:
        known = self.is_known() and self.sees_what_is_there()
        before = self.capacity() if known else 0.0
        super().converge_the_split()
        if known and self.is_known() and not self.recreates():
            assert self.capacity() >= min(1.0, before) - 1e-9, self.describe()

    def is_reached(self, pair: str) -> bool:
        return self.routers() == {pair: 2}

    def is_known(self) -> bool:
        """Whether both children are there and were decided on."""
        return set(self.bodies) == set(POOLS) and all(self.pool(each).status.desired_replicas for each in POOLS)

    def sees_what_is_there(self) -> bool:
        """Whether the operator does: of anything else nobody can tell how much it leaves."""
        return True

    def recreates(self) -> bool:
        return bool(self.split["spec"].get("rollout", {}).get("strategy") == "Recreate")

    def pairs_of_routers(self) -> set[str]:
        """Whole pairs before which a router stands, be it one that finishes its streams."""
        tags = [self.cluster.pods[name]["metadata"]["labels"] for name in self._router_pods()]
        return {each[labels.PAIR] for each in tags if labels.PAIR in each and self.is_pair(each[labels.PAIR])}


class Picked(Hardships, PickedPair):
    """The same behind a Gateway: its picker chooses among what it is shown."""

    def pairs_of_routers(self) -> set[str]:
        shown = self.shown_pairs()
        assert len(shown) <= 1
        return {pair for pair in shown if self.is_pair(pair)}

    def is_reached(self, pair: str) -> bool:
        return self.shown_pairs() == {pair}


def routed() -> Hardships:
    return Hardships.on(boards(4), split_body(2, 2, engine={"name": "VLLM"}))


def picked() -> Hardships:
    return Picked.on(boards(4), picked_body(2, 2, engine={"name": "VLLM"}))


@dataclass
class Walk:
    """A split, and what may happen to it."""

    world: Hardships

    def take(self, step: Step) -> None:
        what, first, second = step
        try:
            getattr(self, what.replace(" ", "_"))(first, second)
        except Died:
            self.world.restart()

    def edited(self, **parts: Any) -> None:  # noqa: ANN401 - any section
        self.world.split["spec"] = {**self.world.split["spec"], **parts}
        self.world.split["metadata"]["generation"] += 1

    # the user

    def engine(self, version: int, _: None) -> None:
        self.edited(engine={"name": "VLLM", "args": [f"--max-num-seqs={64 + version}"]})

    def count(self, half: str, count: int) -> None:
        self.edited(**{half: {"scaling": {"minReplicas": count, "maxReplicas": count}}})

    def pause(self, on: bool, _: None) -> None:  # noqa: FBT001 - values of one step
        self.edited(rollout={**self.world.split["spec"].get("rollout", {}), "paused": on})

    def strategy(self, name: str, _: None) -> None:
        self.edited(rollout={**self.world.split["spec"].get("rollout", {}), "strategy": name})

    def delete(self, pool: str, index: int) -> None:
        found = self.world.pods_of(pool)
        if found:
            self.world.cluster.delete(found[index % len(found)]["metadata"]["name"])

    def crash(self, pool: str, index: int) -> None:
        found = [pod for pod in self.world.pods_of(pool) if bound_to(pod)]
        if found:
            self.world.cluster.crash(found[index % len(found)]["metadata"]["name"])

    def delete_object(self, kind: str, index: int) -> None:
        found = [record for record in self.world.cluster.objects_of(TEAM) if record.kind == kind]
        if found:
            self.world.cluster.forget_object(kind, found[index % len(found)].name)

    def delete_child(self, name: str, _: None) -> None:
        self.world.lose_child(name)

    # the cluster

    def silence(self, node: str, ready: bool) -> None:  # noqa: FBT001 - values of one step
        if node in self.world.cluster.nodes:
            self.world.cluster.silence(node, ready=ready)

    def cordon(self, node: str, on: bool) -> None:  # noqa: FBT001 - values of one step
        if node in self.world.cluster.nodes:
            self.world.cluster.cordon(node, on=on)

    def remove(self, node: str, runs_on: bool) -> None:  # noqa: FBT001 - values of one step
        if node in self.world.cluster.nodes:
            self.world.cluster.remove(node, runs_on=runs_on)

    def bring_back(self, node: str, _: None) -> None:
        if node in self.world.cluster.away:
            self.world.cluster.bring_back(node)

    def wedge(self, node: str, on: bool) -> None:  # noqa: FBT001 - values of one step
        (self.world.cluster.wedged.add if on else self.world.cluster.wedged.discard)(node)

    def occupy(self, node: str, gpus: int) -> None:
        self.world.cluster.occupy(node, gpus)

    def vacate(self, node: str, _: None) -> None:
        self.world.cluster.vacate(f"job-{node}")

    # everybody's passes

    def decide(self, *_: None) -> None:
        self.world.decide()

    def converge_split(self, *_: None) -> None:
        self.world.converge_the_split()

    def converge(self, name: str, _: None) -> None:
        if name in self.world.bodies:
            self.world.converge(name)

    def step(self, *_: None) -> None:
        self.world.cluster.step()

    def route(self, *_: None) -> None:
        self.world.route()

    def die(self, writes: int, _: None) -> None:
        self.world.writes_left = writes

    def conflict(self, name: str, on: bool) -> None:  # noqa: FBT001 - values of one step
        (self.world.edited.add if on else self.world.edited.discard)(name)

    def turn(self, turns: int, seconds: float) -> None:
        self.world.turn(turns, seconds)

    def heal(self) -> None:
        """Nothing is wrong any more, and nobody holds anything up."""
        cluster = self.world.cluster
        cluster.wedged.clear()
        for node in NODES:
            self.bring_back(node, None)
            self.silence(node, ready=True)
            self.cordon(node, on=False)
            cluster.vacate(f"job-{node}")
        self.edited(rollout={"strategy": "Surge", "paused": False})
        self.world.restart()


def assert_comes_to_rest(world: Hardships) -> None:
    """Assert that one generation is left, as large as it was declared, with all that stands before it."""
    world.rest(200)
    wanted = [world.split["spec"][half]["scaling"]["minReplicas"] for half in HALVES]
    (pair,) = world.pairs()
    assert wanted == [len(world.engines(half, pair)) for half in HALVES], world.describe()
    assert world.is_reached(pair), world.describe()
    told = {each["type"]: each["status"] for each in world.split["status"]["conditions"]}
    assert told["Ready"] == "True", world.split["status"]
    assert told.keys().isdisjoint({"Stalled", "Reconciling"}), world.split["status"]


@pytest.mark.parametrize("begun", [routed, picked])
@settings(max_examples=8, deadline=None)
@given(first=st.integers(0, 12), walk=walks)
def test_whatever_happens_nobody_is_sent_to_half_a_pair_by_us_and_all_comes_to_rest(
    begun: Callable[[], Hardships], first: int, walk: list[Step]
) -> None:
    """At the end one generation is left, as large as it was declared, with all that stands before it."""
    course = Walk(begun())
    for step in (("turn", first, 5.0), *walk):
        course.take(step)
    course.heal()
    assert_comes_to_rest(course.world)
