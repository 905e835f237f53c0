"""`weft plan --drain`: what would happen is what the operator does, told before it is done."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.cli.terminal import listed, node, weft
from tests.decide.test_kueue import KUEUE
from tests.decide.test_splits import half, split_world
from tests.decide.world import World, external, of_kueue, pool, pool_spec
from tests.fabric.cluster import board, busy
from tests.fabric.cluster import node as unlabelled
from weft.catalog import load
from weft.cli.drain.draining import drain
from weft.cli.drain.following import follow
from weft.cli.drain.page import drain_page
from weft.cli.telling.terminal import console
from weft.domain.reasons import Reason
from weft.domain.spec import RolloutSpec
from weft.domain.workload import Role

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.domain.cluster import NodeRecord

IN_USE = 8
FOLDER = Path(__file__).parents[2] / "examples" / "fabric"
EXAMPLE, BARE = str(FOLDER / "serving.yaml"), str(FOLDER / "one-board.yaml")


def serving(boards: int, *pools: tuple[str, int, int], others: int = 0) -> World:
    """Pools by name, GPUs of a replica and replicas; somebody else holds some GPUs of the first board."""
    pods = [busy("training", "b-0", others)] if others else []
    records = [pool(name, pool_spec(tp, external(count))) for name, tp, count in pools]
    world = World.of([board(f"b-{index}") for index in range(boards)], *records, pods=pods)
    world.turn(IN_USE)
    assert all(world.serving(name) == count for name, _, count in pools)
    return world


def told(world: World, *nodes: str) -> list[tuple[int, str, int, tuple[str, ...], bool]]:
    steps = drain(world.snapshot(), nodes, load()).steps
    return [(each.turn, each.pool.name, each.assignment.replica, each.assignment.nodes, each.starts) for each in steps]


def test_the_replacement_serves_before_the_replica_leaves() -> None:
    world = serving(3, ("chat", 8, 2))
    assert told(world, "b-0") == [(1, "chat", 2, ("b-2",), True), (2, "chat", 0, ("b-0",), False)]
    assert drain(world.snapshot(), ["b-0"], load()).succeeds


def test_it_is_what_then_happens() -> None:
    """The same places, once the node is cordoned in earnest."""
    world = serving(5, ("chat", 8, 2), ("coder", 4, 2))
    forecast = {(name, replica, nodes) for _, name, replica, nodes, starts in told(world, "b-1") if starts}
    assert forecast
    before = {(name, each.replica) for name in world.pools for each in world.status(name).assignments}
    world.nodes = [replace(each, cordoned=each.name == "b-1") for each in world.nodes]
    world.turn(20)
    after = {(name, each.replica, each.nodes) for name in world.pools for each in world.status(name).assignments}
    assert forecast == {each for each in after if each[:2] not in before}


def test_what_finds_no_room_stays_and_says_why() -> None:
    found = drain(serving(2, ("chat", 8, 2)).snapshot(), ["b-0"], load())
    (stays,) = found.stays
    assert (0, ("b-0",), False, Reason.NoSlot) == (stays.replica, stays.nodes, stays.left, stays.why.reason)
    assert "nothing has room for its replacement" in stays.why.message
    assert () == found.steps
    assert not found.succeeds


def test_a_replica_that_may_leave_first_and_finds_nothing_is_told_as_a_loss() -> None:
    """`maxUnavailable` gives it up before its replacement has a place."""
    world = serving(2, ("chat", 8, 2))
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, rollout=RolloutSpec(max_surge=0, max_unavailable=1)))
    world.turn(IN_USE)
    found = drain(world.snapshot(), ["b-0"], load())
    assert [(True, Reason.NoSlot)] == [(each.left, each.why.reason) for each in found.stays]
    assert not found.succeeds


def test_other_pools_and_pods_of_others_are_not_touched() -> None:
    world = serving(3, ("chat", 4, 1), ("coder", 8, 1), others=2)
    assert [("b-0",)] == world.nodes_of("chat")
    found = drain(world.snapshot(), ["b-0"], load())
    assert ["coder"] == [key.name for key in found.untouched]
    assert () == found.elsewhere
    assert (("default/training", 2),) == found.others


@pytest.mark.parametrize(
    "resource",
    ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb", "amd.com/cpx_nps4", "habana.ai/gaudi"],
)
@pytest.mark.parametrize("there", [board("n-0"), unlabelled("n-0", {}, 8)], ids=["known", "without a product"])
def test_every_kind_of_gpu_that_others_hold_is_told(resource: str, there: NodeRecord) -> None:
    """Whether Weft uses the node, or asks for such devices itself, or not."""
    job = replace(busy("job", "n-0", 0), requests=((resource, 2), ("rdma/ib", 8)))
    world = World.of([there, board("b-1")], pool("chat", pool_spec(1)), pods=[job])
    assert (("default/job", 2),) == drain(world.snapshot(), ["n-0"], load()).others
    assert () == drain(world.snapshot(), ["b-1"], load()).others


def test_several_nodes_are_drained_together() -> None:
    """Nothing moves from one of them to another."""
    world = serving(4, ("chat", 8, 2))
    found = drain(world.snapshot(), ["b-0", "b-1"], load())
    assert found.succeeds
    assert {("b-2",), ("b-3",)} == {each.assignment.nodes for each in found.steps if each.starts}


def test_a_node_without_replicas_is_left_by_nobody() -> None:
    found = drain(serving(2, ("chat", 8, 1)).snapshot(), ["b-1"], load())
    assert ((), (), True) == (found.replicas, found.steps, found.succeeds)


def test_what_an_earlier_release_rendered_is_no_part_of_the_drain() -> None:
    """Its rollout would come anyway, and is not told as if the drain did it."""
    world = serving(3, ("chat", 8, 2))
    old = world.pools["chat"].status
    renamed = tuple(replace(each, revision="older") for each in old.assignments)
    world.pools["chat"] = replace(world.pools["chat"], status=replace(old, revision="older", assignments=renamed))
    world.pods = {
        name: replace(pod, identity=replace(pod.identity, revision="older")) if pod.identity else pod
        for name, pod in world.pods.items()
    }
    assert told(world, "b-0") == [(1, "chat", 2, ("b-2",), True), (2, "chat", 0, ("b-0",), False)]


def test_what_is_under_way_comes_to_rest_first() -> None:
    """A replica that was asked for a moment ago has its place before anything is cordoned."""
    world = serving(4, ("chat", 8, 1))
    spec = world.pools["chat"].spec
    assert spec is not None
    world.edit("chat", replace(spec, scaling=external(2)))
    found = drain(world.snapshot(), ["b-0"], load())
    assert 1 == found.earlier
    assert [True, False] == [each.starts for each in found.steps]


def test_a_node_that_is_left_already_says_why() -> None:
    world = serving(3, ("chat", 8, 2))
    world.nodes = [replace(each, cordoned=each.name == "b-0") for each in world.nodes]
    found = drain(world.snapshot(), ["b-0"], load())
    assert [Reason.NodeCordoned] == [why.reason for why in found.already]
    assert [True, False] == [each.starts for each in found.steps]


def test_following_comes_to_rest_and_changes_nothing_from_then_on() -> None:
    """From nothing at all: every replica has its place in the first turn, and is ready afterwards."""
    world = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec(8, external(3))))
    found = follow(world.snapshot(), load())
    assert found.rests
    assert [(1, 0), (1, 1)] == [(each.turn, each.assignment.replica) for each in found.changes]
    assert all(pod.ready for pod in found.snapshot.pods)
    assert () == follow(found.snapshot, load()).changes


def test_a_replica_whose_nodes_another_scheduler_picks_is_asked_for_anew() -> None:
    """Where it goes is not Weft's to say."""
    world = World.of([board("b-0"), board("b-1")], pool("chat", of_kueue(pool_spec(8, external(1)))))
    world.queueing = KUEUE
    world.admitted = {("chat", 0): ("b-0",)}
    world.turn(IN_USE)
    assert 1 == world.serving("chat")
    found = drain(world.snapshot(), ["b-0"], load())
    assert [(1, True, ()), (0, False, ())] == [
        (each.assignment.replica, each.starts, each.assignment.nodes) for each in found.steps
    ]
    assert "starts on nodes that Kueue picks (queue llm)" in text(drain_page(found))


def test_both_halves_of_a_split_are_replaced_before_they_leave() -> None:
    """Each in its own time, as the operator does."""
    world = split_world(half(Role.Prefill, scaling=external(1)), half(Role.Decode, scaling=external(2)))
    world.turn(IN_USE)
    found = drain(world.snapshot(), ["b-0"], load())
    assert found.succeeds
    for name in ("pd-prefill", "pd-decode"):
        assert [True, False] == [each.starts for each in found.steps if each.pool.name == name]


def text(page: RenderableType) -> str:
    printed = console()
    with printed.capture() as captured:
        printed.print(page)
    return captured.get()


def test_the_command_tells_steps_and_what_stays_and_ends_with_one() -> None:
    """Something cannot move."""
    ending = weft("plan", "--drain", "board-0", "--fabric", EXAMPLE)
    assert 1 == ending.code
    assert "1  llm/chat/2  starts on board-2\n2  llm/chat/0  leaves board-0 once 2 serves\n" in ending.out
    assert "llm/llama-70b/0 stays: NoSlot: " in ending.out
    assert "untouched: llm/coder\n" in ending.out


def test_the_command_ends_with_zero_where_everything_moves() -> None:
    ending = weft("plan", "--drain", "board-2", "--fabric", EXAMPLE, "-o", "json")
    found = json.loads(ending.out)
    assert (1, False) == (ending.code, found["succeeds"])
    assert [{"pod": "vision/training", "gpus": 2}] == found["others"]
    empty = listed(*yaml.safe_load(Path(EXAMPLE).read_text())["items"], node("board-3"))
    ending = weft("plan", "--drain", "board-2", "--fabric", "-", "-o", "json", stdin=json.dumps(empty))
    found = json.loads(ending.out)
    assert (0, True) == (ending.code, found["succeeds"])
    assert [(1, "starts", ["board-3"]), (2, "leaves", ["board-2"])] == [
        (each["step"], each["action"], each["nodes"]) for each in found["steps"]
    ]
    assert ["chat", "llama-70b"] == [each["pool"] for each in found["untouched"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--drain", "board-9", "--fabric", EXAMPLE), "there is no node board-9, perhaps board-"),
        (("--drain", "board-0", "--fabric", EXAMPLE, "--model", "x"), "--drain is about what runs"),
        (("--drain", "board-0", "--fabric", BARE), "no InferencePool with a status and a UID is there"),
    ],
)
def test_what_cannot_be_drained_is_told_in_one_sentence(arguments: tuple[str, ...], words: str) -> None:
    ending = weft("plan", *arguments)
    assert words in ending.sentence
    assert 2 == ending.code
