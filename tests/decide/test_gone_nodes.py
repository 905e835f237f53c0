"""A Node object that is deleted while its machine runs on, and comes back with its pods or does not.

Kubernetes deletes pods of a node that is gone after 40 s. A replica whose pods are ready and whose engine answers is
waited for until then, a little less long.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board, rack
from weft.catalog import load
from weft.decide import decide
from weft.decide.replicas.health import ANSWERED_SECONDS, NODE_LOST_SECONDS
from weft.domain.cluster import NodeRecord, PodPhase
from weft.domain.reasons import Reason
from weft.domain.snapshot import PodObservation, PoolObservation
from weft.domain.spec import RolloutSpec


class Gone(World):
    """A world whose engines answer, each so many seconds ago, until somebody says otherwise."""

    def hear(self, name: str = "chat", ago: float = 2.0) -> None:
        """What the engines of a pool tell in the next pass: all that are ready have answered."""
        leaders = [pod for pod in self.pods.values() if pod.ready and pod.identity and pod.identity.rank == 0]
        heard = tuple((pod.name, ago) for pod in leaders if pod.identity and pod.identity.pool_uid == f"uid-{name}")
        self.observations[f"uid-{name}"] = PoolObservation(len(heard), 0, 0.0, heard=heard)

    def take(self, node: str) -> NodeRecord:
        """Somebody deletes the Node object."""
        (found,) = (each for each in self.nodes if each.name == node)
        self.nodes = [each for each in self.nodes if each.name != node]
        return found

    def ids(self, name: str = "chat") -> list[int]:
        return [each.replica for each in self.status(name).assignments]

    def told(self, name: str = "chat") -> list[Reason]:
        return [event.reason for event in self.decision(name).events]


def serving(replicas: int = 1, boards: int = 3) -> Gone:
    world = Gone.of([board(f"b-{i}") for i in range(boards)], pool("chat", pool_spec(8, external(replicas))))
    world.turn(5)
    assert world.serving("chat") == replicas
    world.hear()
    return world


def test_a_node_that_comes_back_within_seconds_costs_nothing() -> None:
    """Nothing is placed, nothing leaves, and the replica has its GPUs when the node is back under another UID."""
    world = serving()
    node = world.take("b-0")
    for _ in range(5):
        world.turn()
        assert world.ids() == [0]
    world.nodes.append(replace(node, uid="another"))
    world.turn(12)
    assert [("b-0",)] == world.nodes_of("chat")
    assert set(world.pods) == {"chat-0-0"}


def test_that_it_is_waited_for_is_told_and_is_an_event_once() -> None:
    world = serving()
    node = world.take("b-0")
    world.turn()
    told = "replica 0 serves though node b-0 is gone, and is replaced unless that is back and ready within 30 s"
    assert [(Reason.NodeGone, told)] == [(each.reason, each.message) for each in world.decision("chat").events]
    for _ in range(2):
        assert world.condition("chat", "Placed")[:2] == ("True", "AllPlaced")
        assert world.condition("chat", "Placed")[2].endswith(told)
        world.turn()
        assert world.told() == []
    world.nodes.append(node)
    world.turn()
    assert "gone" not in world.condition("chat", "Placed")[2]


def test_of_several_on_one_node_the_first_is_named() -> None:
    world = Gone.of([board("b-0"), board("b-1")], pool("chat", pool_spec(2, external(3))))
    world.turn(6)
    world.hear()
    world.take("b-0")
    world.turn()
    assert "replica 0 (and 2 more) serves though node b-0 is gone" in world.condition("chat", "Placed")[2]


def test_a_node_that_stays_away_loses_its_replica_after_thirty_seconds_and_not_before() -> None:
    world = serving()
    world.take("b-0")
    world.turn(6)  # the first of them sees it
    assert world.ids() == [0]
    assert world.last is not None
    assert world.last.wake_after_seconds == NODE_LOST_SECONDS - 25.0
    world.turn()
    assert world.ids() == [1]
    assert world.told() == [Reason.NodeLost]


def test_a_new_process_loses_nothing_and_waits_no_longer_than_the_one_before_would() -> None:
    """It does not know since when: pods of a node that stays away are deleted by Kubernetes before long."""
    world = serving()
    world.take("b-0")
    world.turn(4)
    world.memory = {}
    world.turn(6)
    assert world.ids() == [0]
    world.turn()
    assert world.ids() == [1]


@pytest.mark.parametrize(
    "change",
    [
        {"ready": False},
        {"terminating": True},
        {"phase": PodPhase.Failed, "ready": False},
    ],
    ids=["not ready", "deleted", "ended"],
)
def test_a_replica_whose_pods_tell_otherwise_is_lost_at_once(change: dict[str, object]) -> None:
    world = serving()
    world.take("b-0")
    world.turn()
    assert world.ids() == [0]
    world.pods["chat-0-0"] = replace(world.pods["chat-0-0"], **change)  # type: ignore[arg-type]
    world.turn()
    assert world.ids() == [1]
    assert world.told() == [Reason.NodeLost]


def test_an_engine_that_stopped_answering_is_lost_at_once() -> None:
    """A machine that is gone with its object: no kubelet says that its pods are not ready."""
    world = serving()
    world.take("b-0")
    world.turn()
    assert world.ids() == [0]
    world.hear(ago=ANSWERED_SECONDS)
    world.turn()
    assert world.ids() == [1]


@pytest.mark.parametrize("told", [None, PoolObservation(1, 0, 0.0)], ids=["no metrics", "others answer"])
def test_an_engine_that_nobody_hears_is_lost_at_once(told: PoolObservation | None) -> None:
    world = serving()
    world.observations = {} if told is None else {"uid-chat": told}
    world.take("b-0")
    world.turn()
    assert world.ids() == [1]


def test_what_was_heard_becomes_older_with_all_else_that_was_read() -> None:
    pod = PodObservation("chat-0-0", 3.0)
    seen = PoolObservation(1, 1, 3.0 + 20.0, pods=(pod,), heard=(("chat-0-0", 1.0),))
    assert 21.0 == seen.silent_seconds("chat-0-0")
    assert float("inf") == seen.silent_seconds("chat-1-0")


def test_a_node_that_registers_anew_tells_nothing_of_gpus_at_first() -> None:
    """It is not ready, then has neither labels nor devices, and then labels alone: seconds each."""
    world = serving()
    node = replace(world.take("b-0"), uid="another")
    world.turn(2)
    bare = replace(node, labels=(), capacity=(), allocatable=())
    for state in (replace(bare, ready=False), bare, replace(node, capacity=(), allocatable=())):
        world.nodes = [*world.nodes[:2], state]
        world.turn(3)
        assert world.ids() == [0]
    world.nodes = [*world.nodes[:2], node]
    world.turn(6)
    assert [("b-0",)] == world.nodes_of("chat")
    assert set(world.pods) == {"chat-0-0"}


def test_the_time_that_it_was_gone_counts_on_while_it_is_not_ready() -> None:
    world = serving()
    node = world.take("b-0")
    world.turn(4)
    world.nodes.append(replace(node, ready=False))
    world.turn(2)
    assert world.ids() == [0]
    world.turn()
    assert ("b-0",) not in world.nodes_of("chat")


def test_one_that_is_back_and_stays_not_ready_is_waited_for_as_a_silent_one() -> None:
    """Nothing else has room: what runs there still may serve again, and it does once its node is ready (ADR 0085)."""
    world = serving(boards=1)
    node = world.take("b-0")
    world.turn(4)
    world.nodes.append(replace(node, ready=False))
    world.turn(12)
    assert world.ids() == [0]
    world.nodes = [node]
    world.turn(2)
    assert (world.ids(), world.serving("chat")) == ([0], 1)


def wide(trays: int = 9) -> Gone:
    world = Gone.of(rack("a.1", trays), pool("wide", pool_spec(16, external(1), "GB200")))
    world.turn(6)
    assert world.serving("wide") == 1
    world.hear("wide")
    return world


def test_a_replica_of_several_nodes_waits_for_all_of_them() -> None:
    """Also where one is back, and not ready yet, before another is."""
    world = wide()
    first, second = world.take("a.1-t0"), world.take("a.1-t3")
    world.turn(2)
    world.nodes.append(replace(first, ready=False))
    world.turn(2)
    assert world.ids("wide") == [0]
    world.nodes[-1] = first
    world.nodes.append(second)
    world.turn(6)
    assert world.ids("wide") == [0]
    assert len(world.pods) == 4  # its own


def test_one_pod_that_is_not_ready_is_enough() -> None:
    world = wide()
    world.take("a.1-t3")
    world.turn()
    assert world.ids("wide") == [0]
    world.pods["wide-0-1"] = replace(world.pods["wide-0-1"], ready=False)
    world.turn()
    assert world.ids("wide") == [1]


def test_nobody_else_gets_its_gpus_when_the_node_is_back() -> None:
    """Others wait for just such a place, with a higher priority but without the right to preempt."""
    world = serving(2, 2)
    other = replace(pool("more", pool_spec(8, external(1)), priority=9), preempts=False)
    world.pools["more"] = other
    world.turn()
    node = world.take("b-1")
    for _ in range(3):
        world.turn()
        assert world.status("more").assignments == ()
    world.nodes.append(node)
    world.turn(4)
    assert world.status("more").assignments == ()
    assert world.ids() == [0, 1]


def test_it_counts_for_none_of_those_that_a_pool_of_higher_priority_leaves() -> None:
    """Its node may stay away: then the one that was taken would have been the last."""
    world = serving(2, 2)
    world.take("b-0")
    world.turn()
    world.pools["more"] = pool("more", pool_spec(8, external(1)), priority=9)
    for _ in range(7):
        world.turn()
        assert 1 in world.ids()


def test_who_gives_a_place_to_a_pool_of_higher_priority_is_one_that_has_its_node() -> None:
    """Though the other one would be the first to go."""
    world = serving(3, 3)
    world.take("b-2")
    world.turn()
    world.pools["more"] = pool("more", pool_spec(8, external(1)), priority=9)
    world.turn()
    assert world.ids() == [0, 2]


def rolling(rollout: RolloutSpec | None = None) -> Gone:
    """Two of an old revision, and as many nodes as a surge needs."""
    world = serving(2, 3)
    spec = pool_spec(8, external(2), rollout=rollout)
    world.edit("chat", replace(spec, engine=replace(spec.engine, env=(("VERSION", "2"),))))
    return world


def test_no_other_replica_leaves_for_one_whose_node_is_gone() -> None:
    """The surge of a rollout serves, and of the two old ones that serves which has its node is not taken."""
    world = rolling()
    world.take("b-1")
    world.turn(5)
    world.hear()
    assert world.serving("chat") == 3
    world.turn()
    assert {0, 1, 2} == set(world.ids())


def test_nor_does_a_rollout_take_it_before_as_many_others_serve() -> None:
    world = rolling(RolloutSpec(max_surge=1, max_unavailable=0))
    world.engines_start = False
    world.take("b-1")
    for _ in range(5):
        world.turn()
        world.pods = {name: replace(pod, ready=name in {"chat-0-0", "chat-1-0"}) for name, pod in world.pods.items()}
        assert {0, 1} <= set(world.ids())


def test_it_leaves_first_where_fewer_are_wanted() -> None:
    world = serving(2, 2)
    world.take("b-0")
    world.edit("chat", pool_spec(8, external(1)))
    world.turn()
    assert world.ids() == [1]


@pytest.mark.parametrize("is_back", [False, True])
@pytest.mark.parametrize("replicas", [1, 2])
def test_who_is_starting_in_its_place_is_kept(replicas: int, *, is_back: bool) -> None:
    """Whoever drains a node deletes its object at the end: the successor has begun by then, and starts for minutes."""
    world = serving(replicas)
    world.nodes = [replace(each, cordoned=each.name == "b-0") for each in world.nodes]
    world.turn()
    world.engines_start = False
    successor = replicas
    assert [*range(replicas), successor] == world.ids()
    node = world.take("b-0")
    for _ in range(3):
        _all_but(world, successor)
        world.turn()
        assert [*range(replicas), successor] == world.ids()
    if is_back:
        world.nodes.append(node)
    else:
        world.turn(4)
        assert [*range(1, replicas), successor] == world.ids()
    world.engines_start = True
    world.turn(4)
    assert [*range(1, replicas), successor] == world.ids()
    assert world.serving("chat") == replicas


def _all_but(world: Gone, starting: int) -> None:
    """All engines are ready but those of a replica."""
    found = {name: replace(pod, ready=not name.startswith(f"chat-{starting}-")) for name, pod in world.pods.items()}
    world.pods = found


def test_a_second_look_changes_nothing() -> None:
    world = serving(2)
    world.take("b-0")
    world.turn()
    again = decide(world.snapshot(), load())
    assert world.last is not None
    assert again.memory == world.last.memory
    assert [each.status for each in again.pools] == [each.status for each in world.last.pools]
    assert [each.conditions for each in again.pools] == [each.conditions for each in world.last.pools]


def test_without_a_plan_what_serves_there_stays_however_long() -> None:
    """As nothing could take its place. Once there is a plan, the time that it was gone counts."""
    world = serving()
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, model=replace(spec.model, model_id="nobody/knows")))
    world.take("b-0")
    world.turn(12)
    assert world.ids() == [0]
    world.edit("chat", spec)
    world.turn()
    assert world.ids() == [1]
