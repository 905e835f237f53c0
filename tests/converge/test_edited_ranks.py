"""Labels are anybody's to edit: one that tells another rank gives no GPU away (S2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.converge.world import World
from tests.fabric.cluster import board, busy
from tests.render.pools import changed, plan, pool, shape, spec
from weft.domain import labels
from weft.domain.action import LabelPod, ReleasePods
from weft.domain.texts.times import instant
from weft.render import pod_name

NODES = ("node-a", "node-b")
WIDE = plan(shape(8, pipeline_parallel=2, gpus_per_pod=8))
TWO_PODS = pool(spec(), WIDE, NODES)


@pytest.mark.parametrize("rank", ["7", "-1", "0"], ids=["no rank of it", "below all", "of another pod"])
def test_what_a_released_pod_with_an_edited_rank_waits_for_is_not_free(rank: str) -> None:
    """No node counts its GPUs yet, and another replica of the pool would be released onto them."""
    both = pool(spec(), WIDE, NODES, NODES)
    world = World()
    world.carry_out(*world.look(both).actions)
    (release,) = (each for each in world.look(both).actions if isinstance(each, ReleasePods))
    world.carry_out(release)
    world.pods[pod_name(both.key, 3, 1)]["metadata"]["labels"][labels.RANK] = rank
    leader = world.pods[pod_name(both.key, 3, 0)]
    leader["spec"]["nodeName"] = "node-a"
    moved = replace(both.status.assignments[1], nodes=("node-c", "node-b"))
    record = changed(both, assignments=(both.status.assignments[0], moved))
    world.nodes = (board("node-a"), board("node-b"), board("node-c"))
    assert {LabelPod} == set(map(type, world.look(record).actions))
    assert world.look(record).progress.ready_replicas == 0


@pytest.mark.parametrize("rank", ["1", "7"])
def test_a_bound_pod_with_an_edited_rank_opens_no_gate_of_another(rank: str) -> None:
    """What it has got is at its node, and nowhere else."""
    record, world = TWO_PODS, World()
    world.carry_out(*world.look(record).actions)
    (release,) = world.look(record).actions
    assert isinstance(release, ReleasePods)
    world.carry_out(replace(release, pods=release.pods[:1]))
    world.run()
    world.pods[pod_name(record.key, 3, 0)]["metadata"]["labels"][labels.RANK] = rank
    assert release.pods[1:] == tuple(pod for each in world.look(record).actions for pod in getattr(each, "pods", ()))
    taken = (*world.pod_records(), busy("thief", "node-b", 1))
    world.pod_records = lambda: taken  # type: ignore[method-assign]
    assert not [each for each in world.look(record).actions if isinstance(each, ReleasePods)]


def test_who_was_taken_out_of_its_front_is_not_put_back_into_it() -> None:
    """Whoever took the label off on purpose noted when; without that note somebody edited it."""
    record, world = TWO_PODS, World()
    world.settle(record)
    meta = world.pods[pod_name(record.key, 3, 0)]["metadata"]
    del meta["labels"][labels.ROUTED]
    assert [LabelPod] == [type(each) for each in world.look(record).actions]
    meta.setdefault("annotations", {})[labels.UNROUTED] = instant(1990)
    assert [] == list(world.look(record).actions)


def test_labels_are_put_back_at_once_where_the_clock_was_set_back() -> None:
    record, world = TWO_PODS, World()
    world.settle(record)
    meta = world.pods[pod_name(record.key, 3, 0)]["metadata"]
    del meta["labels"][labels.ROUTED]
    meta.setdefault("annotations", {})[labels.RELABELLED] = instant(1990)
    assert [] == list(world.look(record).actions)
    meta["annotations"][labels.RELABELLED] = instant(2600)
    assert [LabelPod] == [type(each) for each in world.look(record).actions]
