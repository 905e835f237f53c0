"""What is remembered from pass to pass saves work and changes no answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from bench.scale_bench.cluster import Size
from bench.scale_bench.days import Days
from tests.counting import counted
from tests.decide.test_splits import OLDER, half, split, split_world
from tests.decide.world import World, external, pool, pool_spec
from tests.fabric.cluster import board, rack
from tests.forgetting import forget_everything
from weft.catalog import load
from weft.decide import decide
from weft.domain.cluster import Taint
from weft.domain.spec import EngineSpec
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.decision import Decisions
    from weft.domain.snapshot import Snapshot

SMALL, LARGE = Size(250), Size(500)


def test_a_cold_pass_decides_what_a_warm_one_does() -> None:
    """Over scaling, edits, failures and traffic: with all memories and with none the decisions are the same."""
    days = Days.of(Size(100))
    decisions = decide(days.snapshot, load())
    for index in range(6):
        days.go_on(decisions, index)
        decisions = decide(days.snapshot, load())
        forget_everything()
        assert decide(days.snapshot, load()) == decisions


def test_another_cluster_in_between_changes_nothing() -> None:
    """Pools and nodes with the same names are told apart by what they are."""
    ours = World.of([*rack("a.1", 3), board("b-0")], pool("chat", pool_spec(4, external(3))))
    theirs = World.of([board("b-0"), board("b-1")], pool("chat", pool_spec(8, external(2))))
    for world in (ours, theirs):
        world.turn(4)
    expected = decide(ours.snapshot(), load()), decide(theirs.snapshot(), load())
    forget_everything()
    for _ in range(2):
        assert expected == (decide(ours.snapshot(), load()), decide(theirs.snapshot(), load()))


@pytest.mark.parametrize("trouble", ["cordon", "silence", "gone", "taint"])
def test_trouble_with_a_node_is_seen_by_pools_that_stood_well(trouble: str) -> None:
    """A pass that had nothing to look at in a pool looks at it once its node has trouble, as from nothing."""
    days = Days.of(Size(100))
    decisions = decide(days.snapshot, load())
    days.go_on(decisions, 1)
    decide(days.snapshot, load())
    hit = _in_trouble(days.snapshot, trouble)
    warm = decide(hit, load())
    forget_everything()
    assert decide(hit, load()) == warm
    assert decide(days.snapshot, load()) != warm


def test_work_grows_with_the_cluster_and_no_faster() -> None:
    """Twice the nodes, pools and pods take at most a tenth more than twice the calls, in every kind of pass."""
    few, many = _calls(SMALL), _calls(LARGE)
    for kind, calls in few.items():
        assert many[kind] <= 2.2 * calls, kind


def test_what_has_not_changed_is_not_looked_at_again() -> None:
    """A pass over the very snapshot of the pass before makes less than 800 calls for each pool, with its replicas."""
    days = Days.of(LARGE)
    decisions = decide(days.snapshot, load())
    for index in range(3):
        days.go_on(decisions, index)
        decisions = decide(days.snapshot, load())
    _, calls = _counted(days.snapshot)
    assert 800 > calls / LARGE.pools


def test_a_pair_is_not_chosen_again_while_nothing_changes() -> None:
    """A pass over a split that stands makes fewer calls than one of its two pools may make, and learns of an edit."""
    prefill, decode = half(Role.Prefill), half(Role.Decode)
    world = split_world(prefill, decode)
    world.turn(4)
    decide(world.snapshot(), load())
    _, steady = _counted(world.snapshot())
    world.splits["pd"] = split(prefill, replace(decode, engine=EngineSpec(version=OLDER.version)))
    decisions, edited = _counted(world.snapshot())
    assert 800 > steady < edited
    assert decisions.splits[0].engine == OLDER


def test_what_others_would_do_is_not_worked_out_beside_a_plan_that_stays() -> None:
    """A new process that finds its plans in the statuses predicts what runs, and none of the alternatives again."""
    days = Days.of(Size(100))
    forget_everything()
    decisions, at_first = _counted(days.snapshot, "ranking.py:expected")
    days.go_on(decisions, 0)
    forget_everything()
    again, anew = _counted(days.snapshot, "ranking.py:expected")
    assert 2 * len(days.snapshot.pools) >= 2 * anew < at_first
    plans = [each.status.plan for each in decisions.pools]
    assert plans == [each.status.plan for each in again.pools]


def test_replicas_that_stand_are_not_judged_while_another_one_starts() -> None:
    """One more that runs adds less than 75 calls to a pass over a pool whose youngest replica nobody has bound yet."""
    few, many = (_calls_while_one_starts(replicas) for replicas in (5, 15))
    assert 75 > (many - few) / 10


def test_who_comes_is_judged_and_who_stood_before_is_not() -> None:
    """While one more replica is placed and starts, the pods of the nine that run are not judged again."""
    world = World.of([board(f"b-{index}") for index in range(10)], pool("chat", pool_spec(8, external(9))))
    world.turn(6)
    world.edit("chat", pool_spec(8, external(10)))
    _, judged = counted(partial(world.turn, 4), "standing.py:_is_sound")
    assert world.serving("chat") == 10
    assert 9 > judged > 0


def test_lengths_that_come_back_predict_nothing_anew() -> None:
    """Capacities for lengths that were in force before are known, also where others were in force in between."""
    days = Days.of(Size(100))
    decide(days.snapshot, load())
    days.go_on(decide(days.snapshot, load()), 0)
    found = [_predicted_for_lengths(days, times) for times in (1.3, 1.7, 1.15, 2.6) * 2]
    assert sum(found[:4]) > 0
    assert sum(found[4:]) == 0


def _predicted_for_lengths(days: Days, times: float) -> int:
    """Capacities that a pass predicts, ten minutes on, for prompts so many times as long as declared."""
    snapshot, observations = days.snapshot, {}
    for each in snapshot.pools:
        if each.spec is not None:
            # Too full a cache for calibration to learn from, which would ask for other predictions.
            observations[each.key.uid] = replace(
                snapshot.observations[each.key.uid], input_tokens=each.spec.workload.input_tokens * times, kv_usage=0.9
            )
    days.snapshot = replace(snapshot, now=snapshot.now + 600.0, observations=observations)
    decisions, predicted = _counted(days.snapshot, "choice.py:_capacity_of")
    days.snapshot = replace(days.snapshot, memory=decisions.memory)
    return predicted


def _calls_while_one_starts(replicas: int) -> int:
    world = World.of(
        [board(f"b-{index:02}") for index in range(replicas + 1)], pool("chat", pool_spec(8, external(replicas)))
    )
    world.turn(4)
    world.scheduler_works = False
    world.edit("chat", pool_spec(8, external(replicas + 1)))
    world.turn(4)
    assert replicas == world.serving("chat")
    decide(world.snapshot(), load())
    return _counted(world.snapshot())[1]


def _in_trouble(snapshot: Snapshot, trouble: str) -> Snapshot:
    """The node of the first pod of ours, with something amiss."""
    name = next(pod.node for pod in snapshot.pods if pod.identity is not None)
    at = next(index for index, node in enumerate(snapshot.nodes) if node.name == name)
    node = snapshot.nodes[at]
    hit: dict[str, Any] = {
        "cordon": {"cordoned": True},
        "silence": {"ready": False},
        "taint": {"taints": (Taint("karpenter.sh/disrupted", "", "NoSchedule"),)},
    }
    instead = () if trouble == "gone" else (replace(node, **hit[trouble]),)
    return replace(snapshot, nodes=(*snapshot.nodes[:at], *instead, *snapshot.nodes[at + 1 :]))


def _calls(size: Size) -> Counter[str]:
    """Calls of Python functions in two passes of each kind, once all is planned: one may predict more by chance."""
    days, found = Days.of(size), Counter[str]()
    decisions = decide(days.snapshot, load())
    for index in range(9):
        kind = days.go_on(decisions, index)
        if index < 3:
            decisions = decide(days.snapshot, load())
        else:
            decisions, calls = _counted(days.snapshot)
            found[kind] += calls
    return found


def _counted(snapshot: Snapshot, function: str = "") -> tuple[Decisions, int]:
    """What is decided, and the calls that it took: of all functions, or of one (`file.py:function`)."""
    return counted(partial(decide, snapshot, load()), function)
