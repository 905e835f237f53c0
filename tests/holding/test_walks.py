"""Whatever happens between deciding, creating, releasing and binding: nothing is promised twice and all comes to rest.

Walks over everything that may happen to a cluster, with the operator's passes, the scheduler and the kubelets in any
order between, and an operator that dies after any of its writes. Rules of docs/rules.md: S1, S2, S3, S9, L1, L5.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.holding.cluster import CLIQUE, GPU, boards, bound_to, gpus_of, rack
from tests.holding.operation import Died, Operation, pool_body
from weft.decide.replicas.health import NODE_LOST_SECONDS
from weft.domain import labels
from weft.domain.moves import MoveBudget
from weft.fabric.faults import XID_TAINT

if TYPE_CHECKING:
    from weft.domain.status import Assignment

Json = dict[str, Any]
TRAYS, BOARDS = [*rack("a.1", 6), *rack("b.1", 3)], boards(3)
NODES = [node["metadata"]["name"] for node in (*TRAYS, *BOARDS)]
DESIRED = {"chat": 2, "wide": 1, "pair": 2, "small": 2}
UNAVAILABLE = {"wide": 1}
SPOT = "aws-node-termination-handler/spot-itn"


def operation() -> Operation:
    """Boards for one kind of pool, racks for three that contend; one of them drains before it replaces."""
    cautious = {"rollout": {"maxSurge": 0, "maxUnavailable": 1}}
    return Operation.of(
        [*rack("a.1", 6), *rack("b.1", 3), *boards(3)],
        pool_body("chat", "H200", 8, DESIRED["chat"]),
        pool_body("wide", "GB200", 16, DESIRED["wide"], **cautious),
        pool_body("pair", "GB200", 8, DESIRED["pair"]),
        pool_body("small", "GB200", 2, DESIRED["small"]),
    )


nodes = st.sampled_from(NODES)
pools = st.sampled_from(sorted(DESIRED))
events = st.one_of(
    st.tuples(st.just("occupy"), nodes, st.integers(1, 8)),
    st.tuples(st.just("vacate"), nodes, st.none()),
    st.tuples(st.just("silence"), nodes, st.booleans()),
    st.tuples(st.just("cordon"), nodes, st.booleans()),
    st.tuples(st.just("taint"), nodes, st.sampled_from([(), (XID_TAINT,), (SPOT,), ("team/other",)])),
    st.tuples(st.just("lose"), nodes, st.integers(0, 4)),
    st.tuples(st.just("label"), nodes, st.sampled_from(["a.1", "b.1", "c.1"])),
    st.tuples(st.just("remove"), nodes, st.booleans()),
    st.tuples(st.just("bring back"), nodes, st.none()),
    st.tuples(st.just("wedge"), nodes, st.booleans()),
    st.tuples(st.just("delete"), pools, st.integers(0, 7)),
    st.tuples(st.just("crash"), pools, st.integers(0, 7)),
    st.tuples(st.just("edit"), pools, st.integers(0, 3)),
    st.tuples(st.just("restart"), pools, st.integers(0, 3)),
)
passes = st.one_of(
    st.tuples(st.just("decide"), st.none(), st.none()),
    st.tuples(st.just("converge"), pools, st.none()),
    st.tuples(st.just("schedule"), st.none(), st.none()),
    st.tuples(st.just("run"), st.none(), st.none()),
    st.tuples(st.just("die"), st.integers(1, 12), st.none()),
    st.tuples(st.just("conflict"), pools, st.booleans()),
    st.tuples(st.just("turn"), st.integers(1, 3), st.sampled_from([1.0, 5.0, 40.0])),
)
Step = tuple[str, Any, Any]
walks = st.lists(st.one_of(events, passes), max_size=40)


@dataclass
class Walk:
    """An operation with all that must hold at every moment of it."""

    world: Operation = field(default_factory=operation)
    seen: dict[tuple[str, int], tuple[str, ...]] = field(default_factory=dict)  # nodes by pool and replica, for ever
    given_up: set[tuple[str, int]] = field(default_factory=set)
    gone_since: dict[str, float] = field(default_factory=dict)  # by node, as passes of deciding found it

    def __post_init__(self) -> None:
        self.world.released_into = slot_is_whole

    def take(self, step: Step) -> None:
        """One thing that happens, or one pass of somebody."""
        what, first, second = step
        try:
            if what in ("decide", "turn"):
                self._turn(first, second) if what == "turn" else self._decide()
            else:
                STEPS[what](self.world, first, second)
        except Died:
            self.world.restart()
        self._follow()

    def _turn(self, turns: int, seconds: float) -> None:
        for _ in range(turns):
            self.world.cluster.now += seconds
            self._decide()
            for name in self.world.bodies:
                self.world.converge(name)
            self.world.cluster.step()

    def _decide(self) -> None:
        world = self.world
        before = {name: (set(world.serving(name)) | self._answering(name)) - self._urged(name) for name in DESIRED}
        known = {(name, each.replica) for name in DESIRED for each in world.assignments(name)}
        try:
            world.decide()
        finally:
            fresh = [each for name in DESIRED for each in world.assignments(name) if (name, each.replica) not in known]
            nothing_is_promised_twice(world, fresh)
            for name in DESIRED:
                enough_serve(world, name, before[name])

    def _answering(self, name: str) -> set[int]:
        """Replicas that answer, also those with nodes that are gone, but not for long since a pass first found so."""
        cluster = self.world.cluster
        for node in NODES:
            if node in cluster.away:
                self.gone_since.setdefault(node, cluster.now)
            elif cluster.is_ready(node):
                self.gone_since.pop(node, None)
        in_time = {node for node, since in self.gone_since.items() if cluster.now - since < NODE_LOST_SECONDS}
        return {
            each.replica
            for each in self.world.assignments(name)
            if in_time.issuperset(set(each.nodes) & cluster.away.keys())
            and len(pods := self.world.pods_of(name, each.replica)) == each.pods
            and all(map(cluster.answers, pods))
        }

    def _urged(self, name: str) -> set[int]:
        """Replicas that leave at once, whoever else serves: a cloud takes a node of theirs back before others could."""
        notice = {"key": SPOT, "effect": "NoSchedule"}
        found = self.world.cluster.nodes.items()
        taken_back = {node for node, body in found if notice in body["spec"].get("taints", ())}
        return {each.replica for each in self.world.assignments(name) if not taken_back.isdisjoint(each.nodes)}

    def _follow(self) -> None:
        """Ids: each has its nodes once and for ever, and one that was given up never comes back."""
        now = {(name, each.replica): each.nodes for name in DESIRED for each in self.world.assignments(name)}
        self.given_up |= self.seen.keys() - now.keys()
        assert not self.given_up & now.keys()
        assert all(self.seen.get(key, where) == where for key, where in now.items())
        self.seen |= now


def nothing_is_promised_twice(world: Operation, fresh: list[Assignment]) -> None:
    """S2 and S9, counted from the JSON alone: what was assigned just now has its GPUs beside everyone's.

    What a pool's own leaving pods hold may be promised once more, to that pool alone.
    """
    promised = world.held()
    for name in DESIRED:
        ours: Counter[str] = Counter()
        for each in world.assignments(name):
            bound = {rank_of(pod) for pod in world.pods_of(name, each.replica) if bound_to(pod)}
            ours.update({each.nodes[rank]: 0 for rank in range(each.pods)})
            for rank in set(range(each.pods)) - bound:
                ours[each.nodes[rank]] += each.gpus_per_pod
        staying = set(world.replicas(name))
        for pod in world.pods_of(name):
            if bound_to(pod) and replica_of(pod) not in staying and pod["status"]["phase"] in {"Pending", "Running"}:
                ours[bound_to(pod)] -= gpus_of(pod)
        promised += Counter({node: count for node, count in ours.items() if count > 0})
    for each in fresh:
        assert one_domain(world, each.nodes), each
        assert all(promised[node] <= offered(world, node) for node in each.nodes), (each, promised)


def enough_serve(world: Operation, name: str, served: set[int]) -> None:
    """S1: only what happens to replicas takes the serving count below desired minus maxUnavailable."""
    desired = world.pool(name).status.desired_replicas
    least = desired - UNAVAILABLE.get(name, 0)
    assert len(served & set(world.replicas(name))) >= min(least, len(served))


def slot_is_whole(world: Operation, assignment: Assignment) -> None:
    """S2 and S9 once more at the moment of release: every pod that is not bound yet finds its GPUs, in one domain."""
    assert one_domain(world, assignment.nodes), f"released over two domains: {assignment}"
    assert all(world.cluster.is_ready(node) for node in assignment.nodes)


def one_domain(world: Operation, where: tuple[str, ...]) -> bool:
    """Whether nodes share a clique, or are one board."""
    bodies = [world.cluster.nodes[node] for node in where]
    return len({body["metadata"]["labels"].get(CLIQUE, body["metadata"]["name"]) for body in bodies}) == 1


def offered(world: Operation, node: str) -> int:
    return int(world.cluster.nodes[node]["status"]["allocatable"][GPU])


def rank_of(pod: Json) -> int:
    return int(pod["metadata"]["labels"][labels.RANK])


def replica_of(pod: Json) -> int:
    return int(pod["metadata"]["labels"][labels.REPLICA])


# what may happen


def _known(act: Any) -> Any:  # noqa: ANN401 - what acts on a node that is there
    def on_a_node(world: Operation, node: str, value: Any) -> None:  # noqa: ANN401 - values of one step
        if node in world.cluster.nodes:
            act(world.cluster, node, value)

    return on_a_node


def _on_a_pod(act: Any) -> Any:  # noqa: ANN401 - as above
    def on_a_pod(world: Operation, name: str, index: int) -> None:
        found = world.pods_of(name)
        if found:
            act(world.cluster, found[index % len(found)]["metadata"]["name"])

    return on_a_pod


def _bring_back(world: Operation, node: str, _: None) -> None:
    if node in world.cluster.away:
        world.cluster.bring_back(node)


def _wedge(world: Operation, node: str, on: bool) -> None:  # noqa: FBT001 - as above
    (world.cluster.wedged.add if on else world.cluster.wedged.discard)(node)


def _edit(world: Operation, name: str, replicas: int) -> None:
    scaling = world.bodies[name]["spec"]["scaling"]
    world.edit(name, scaling={**scaling, "replicas": max(1, replicas)})


def _restart(world: Operation, name: str, value: int) -> None:
    world.edit(name, engine={"env": [{"name": "VERSION", "value": str(value)}]})


def _crash(cluster: Any, name: str) -> None:  # noqa: ANN401 - as above
    if bound_to(cluster.pods[name]):
        cluster.crash(name)


def _die(world: Operation, writes: int, _: None) -> None:
    world.writes_left = writes


def _conflict(world: Operation, name: str, on: bool) -> None:  # noqa: FBT001 - as above
    (world.edited.add if on else world.edited.discard)(name)


STEPS: dict[str, Any] = {
    "occupy": _known(lambda cluster, node, gpus: cluster.occupy(node, gpus)),
    "vacate": lambda world, node, _: world.cluster.vacate(f"job-{node}"),
    "silence": _known(lambda cluster, node, on: cluster.silence(node, ready=on)),
    "cordon": _known(lambda cluster, node, on: cluster.cordon(node, on=on)),
    "taint": _known(lambda cluster, node, keys: cluster.taint(node, *keys)),
    "lose": _known(lambda cluster, node, gpus: cluster.lose(node, gpus)),
    "label": _known(lambda cluster, node, clique: cluster.label(node, CLIQUE, clique)),
    "remove": _known(lambda cluster, node, on: cluster.remove(node, runs_on=on)),
    "bring back": _bring_back,
    "wedge": _wedge,
    "delete": _on_a_pod(lambda cluster, name: cluster.delete(name)),
    "crash": _on_a_pod(_crash),
    "edit": _edit,
    "restart": _restart,
    "converge": lambda world, name, _: world.converge(name),
    "schedule": lambda world, *_: world.cluster.schedule(),
    "run": lambda world, *_: (world.cluster.collect(), world.cluster.run()),
    "die": _die,
    "conflict": _conflict,
}


@settings(max_examples=12, deadline=None)
@given(first=st.integers(0, 3), moves=st.sampled_from([0, 2, 50]), walk=walks)
@example(first=2, moves=0, walk=[("remove", "b.1-t0", False), ("wedge", "a.1-t1", True), ("restart", "wide", 0)])
@example(first=6, moves=0, walk=[("taint", "b-0", (SPOT,)), ("decide", None, None)])
@example(first=6, moves=0, walk=[("remove", "b-0", True), ("turn", 3, 5.0), ("bring back", "b-0", None)])
@example(first=6, moves=0, walk=[("remove", "a.1-t0", True), ("turn", 3, 5.0), ("turn", 3, 40.0)])
@example(first=3, moves=0, walk=[("silence", "a.1-t0", False)])
def test_whatever_happens_the_rules_hold_and_all_comes_to_rest(first: int, moves: int, walk: list[Step]) -> None:
    """At the end everybody is left alone, and what is assigned serves; who has no place is told so, and has none."""
    course = Walk()
    course.world.budget = MoveBudget(moves)
    for step in (("turn", first, 5.0), *walk):
        course.take(step)
    course.world.restart()
    course.world.rest()
    course.take(("decide", None, None))
    for name in DESIRED:
        assert_settled(course.world, name)


def assert_settled(world: Operation, name: str) -> None:
    """Every assigned replica serves or waits, nothing else is left, and who is short has really no room.

    While the fabric is too small for any plan, nothing is given up either.
    """
    record, told = world.pool(name), world.condition(name, "Placed")
    if told[1] == "NothingToPlace":
        assert not has_room(world, name), world.describe()
        return
    waiting = [each.replica for each in record.status.assignments if waits_for_leaving_pods(world, name, each)]
    silent = [each.replica for each in record.status.assignments if waits_for_its_node(world, each)]
    assert sorted({*world.serving(name), *waiting, *silent}) == world.replicas(name), world.describe()
    assert not (silent and has_room(world, name)), world.describe()
    if waiting:
        assert "waits until pods that leave" in told[2], told
        assert not has_room(world, name), world.describe()
    stuck = any(wedged(world, pod) for pod in world.cluster.pods.values())
    assert told[0] == "True" or told[1] == "NoSlot" or (stuck and told[1] == "MovesUnderWay"), told
    if len(record.status.assignments) < record.status.desired_replicas:
        assert not has_room(world, name), world.describe()


def waits_for_leaving_pods(world: Operation, name: str, assignment: Assignment) -> bool:
    """Whether it is behind its gates, and a kubelet that ends no pod keeps a predecessor where it shall go.

    Workers stay while their leader has not ended.
    """
    gated = all(pod["spec"].get("schedulingGates") for pod in world.pods_of(name, assignment.replica))
    lasting = {replica_of(pod) for pod in world.pods_of(name) if wedged(world, pod)}
    stuck = {bound_to(pod) for pod in world.pods_of(name) if replica_of(pod) in lasting}
    return gated and bool(stuck & set(assignment.nodes))


def waits_for_its_node(world: Operation, assignment: Assignment) -> bool:
    """Whether a node of it is there and does not answer."""
    return any(node in world.cluster.nodes and not world.cluster.is_ready(node) for node in assignment.nodes)


def wedged(world: Operation, pod: Json) -> bool:
    """Whether it goes away, on a node whose kubelet ends no pod."""
    return "deletionTimestamp" in pod["metadata"] and bound_to(pod) in world.cluster.wedged


def has_room(world: Operation, name: str) -> bool:
    """Whether any domain has enough nodes with room for one more replica, by counting alone.

    What a replica of another pool waits for behind its gates is not free, though no pod is bound there.
    """
    others = [(other, each) for other in DESIRED if other != name for each in world.pool(other).status.assignments]
    awaited = {node for other, each in others if waits_for_leaving_pods(world, other, each) for node in each.nodes}
    tensor: int = world.bodies[name]["spec"]["shape"]["tensorParallel"]
    accelerator = world.bodies[name]["spec"]["placement"]["accelerators"][0]
    per_pod = min(tensor, 8 if accelerator == "H200" else 4)
    fitting: Counter[str] = Counter()
    for node, body in world.cluster.nodes.items():
        tags = body["metadata"]["labels"]
        is_open = node not in awaited and world.cluster.takes(node, per_pod)
        if tags["nvidia.com/gpu.product"].endswith(accelerator) and is_open:
            fitting[tags.get(CLIQUE, node)] += 1
    return max(fitting.values(), default=0) >= tensor // per_pod
