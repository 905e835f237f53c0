"""Plans whose engines exchange no KV with those that run: taken where the spec asks for them, as another pair.

KV of GPUs of two generations differs, as engines choose other attention backends (Hopper and Blackwell here).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.decide.test_splits import half, over_rdma, split_world
from tests.decide.world import World, pool_spec
from tests.fabric.cluster import board, rack, with_rdma
from weft.domain.spec import PlacementSpec, PoolSpec, ShapePins
from weft.domain.workload import Role
from weft.render import pair_of

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord

NAMES = ("pd-prefill", "pd-decode")
BOARDS = [with_rdma(board(f"b-{index}")) for index in range(4)]


def open_half(role: Role) -> PoolSpec:
    """Of any GPU, and any shape."""
    return replace(over_rdma(half(role)), placement=PlacementSpec(()), shape=ShapePins())


def on(*nodes: NodeRecord) -> World:
    world = split_world(open_half(Role.Prefill), open_half(Role.Decode))
    world.nodes = list(map(with_rdma, nodes))
    world.turn(6)
    return world


def running() -> World:
    """On the only GPUs there are."""
    world = on(*rack("a.1"))
    assert kinds(world) == ["GB200", "GB200"]
    return world


def kinds(world: World) -> list[str]:
    plans = [world.status(name).plan for name in NAMES]
    return [plan.shape.accelerator for plan in plans if plan is not None]


def edited(world: World, placement: PlacementSpec) -> None:
    """In the split and its children, as these follow within the second."""
    record = world.splits["pd"]
    assert record.spec is not None
    sides = (replace(each, placement=placement) for each in (record.spec.prefill, record.spec.decode))
    prefill, decode = sides
    world.splits["pd"] = replace(record, spec=replace(record.spec, prefill=prefill, decode=decode))
    for name in NAMES:
        spec = world.pools[name].spec
        assert spec is not None
        world.pools[name] = replace(world.pools[name], spec=replace(spec, placement=placement))


def renamed(world: World) -> None:
    """Converge writes the pair of the split onto its children."""
    for name in NAMES:
        spec = world.pools[name].spec
        assert spec is not None
        world.pools[name] = replace(world.pools[name], spec=replace(spec, pair=pair_of(world.splits["pd"])))


def test_what_runs_stays_where_only_the_planner_likes_other_gpus_better() -> None:
    """New splits take H200; this one would have to start all anew, and its spec asks for nothing."""
    world = running()
    world.nodes += BOARDS
    world.turn(6)
    assert kinds(world) == ["GB200", "GB200"]
    assert world.splits["pd"].status.kv_layouts == 0
    assert kinds(on(*world.nodes)) == ["H200", "H200"]


def test_an_edit_that_forbids_what_runs_is_followed_once_the_children_are_another_pair() -> None:
    """Until then no replica on the new GPUs comes, as its pods would name the pair of those that run."""
    world = running()
    world.nodes += BOARDS
    renamed(world)
    for pod in list(world.pods.values()):
        world.pods[pod.name] = replace(pod, pair=pair_of(world.splits["pd"]))
    edited(world, PlacementSpec(("H200",)))
    renamed(world)
    for _ in range(3):
        world.decide()
        assert (kinds(world), world.splits["pd"].status.kv_layouts) == (["GB200", "GB200"], 1)
    renamed(world)
    world.decide()
    assert (kinds(world), world.splits["pd"].status.kv_layouts) == (["H200", "H200"], 1)


def test_sizes_that_go_together_with_what_runs_are_taken_at_once() -> None:
    """TP 4 to TP 2 in prefill, beside TP 4 in decode."""
    world = split_world(half(Role.Prefill), half(Role.Decode))
    world.turn(5)
    prefill = pool_spec(2, role=Role.Prefill)
    record = world.splits["pd"]
    assert record.spec is not None
    world.splits["pd"] = replace(record, spec=replace(record.spec, prefill=prefill))
    world.edit("pd-prefill", prefill)
    world.decide()
    plan = world.status("pd-prefill").plan
    assert plan is not None
    assert (plan.shape.tensor_parallel, world.splits["pd"].status.kv_layouts) == (2, 0)
