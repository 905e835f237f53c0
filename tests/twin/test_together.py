"""Several resources on one cluster: they share its GPUs and quotas by the operator's own rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from tests.decide.world import pool
from tests.twin.simulated import Written, chat, duo, setting, trace
from weft.domain.quotas import QuotaRecord, QuotaScope
from weft.domain.reasons import Reason
from weft.twin.cluster.start_up import StartPhases
from weft.twin.serving.stream import Route, Stream
from weft.twin.simulation import simulate_together

if TYPE_CHECKING:
    from weft.domain.snapshot import PoolRecord
    from weft.twin.outcome import SimulationOutcome
    from weft.twin.simulation import SimulationSetting
    from weft.twin.traffic.trace import Trace

EVEN = StartPhases(image_seconds=30.0, weights_seconds=60.0, compile_seconds=5.0, capture_seconds=5.0, spread=0.0)
STEADY, RISE = trace((900.0, 6.5), seed=4), trace((300.0, 0.5), (600.0, 7.8))


def named(name: str, priority_class: str | None = None, **scaling: Any) -> PoolRecord:  # noqa: ANN401 - any field
    spec = chat(**scaling).spec
    assert spec is not None
    return pool(name, replace(spec, pod=replace(spec.pod, priority_class=priority_class)))


def together(asked: dict[str, tuple[PoolRecord, Trace]], **more: Any) -> SimulationSetting:  # noqa: ANN401 - any field
    """Pools of one namespace, each with its own requests, on one board unless said otherwise."""
    pools = [record for record, _ in asked.values()]
    streams = tuple(Stream(requests, Route(name, name, namespace="team")) for name, (_, requests) in asked.items())
    return setting(STEADY, *pools, streams=streams, start_up=EVEN, **{"boards": 1, **more})


def rival(**more: Any) -> SimulationSetting:  # noqa: ANN401 - any field
    """Eight GPUs: `batch` fills six with its steady load, and after five minutes `chat` wants eight of its own."""
    asked = {"batch": (named("batch", "low"), STEADY), "chat": (named("chat", "high"), RISE)}
    return together(asked, **more)


def quota(gpus: int, used: int = 0, **more: Any) -> QuotaRecord:  # noqa: ANN401 - any field
    limit = "requests.nvidia.com/gpu"
    return QuotaRecord(**{"namespace": "team", "name": "gpus", **more}, hard=((limit, gpus),), used=((limit, used),))


def most_held(outcomes: tuple[SimulationOutcome, ...]) -> int:
    """GPUs of all pools together, at the fullest moment."""
    moments = [[moment.pools for moment in outcome.timeline] for outcome in outcomes]
    sums: list[int] = [sum(sample.gpus for pools in each for sample in pools) for each in zip(*moments, strict=True)]
    return max(sums)


def paid(outcome: SimulationOutcome, at: float) -> int:
    """Replicas of its pool that held GPUs at a time."""
    return next(moment.pools[0].paid for moment in outcome.timeline if moment.at >= at)


def reasons(outcome: SimulationOutcome) -> set[Reason]:
    told = {each.explanation.reason for each in outcome.told}
    return told | {each.explanation.reason for each in outcome.shortages}


RANKED = {"low": (1, True), "high": (100, True)}


# places


def test_a_pool_of_higher_priority_takes_gpus_of_a_lower_one_and_both_say_why() -> None:
    batch, chat_ = simulate_together(rival(classes=RANKED))
    assert [paid(batch, 240.0), batch.timeline[-1].pools[0].paid] == [7, 1]
    assert chat_.timeline[-1].pools[0].ready == 7
    told = [each.explanation for each in batch.told if each.explanation.reason is Reason.Preempted]
    assert len(told) == 6
    assert all("gives its place to pool team/chat, of higher priority" in each.message for each in told)
    waits = next(each for each in chat_.shortages if each.explanation.reason is Reason.Preempting)
    assert "pods of pool team/batch, of lower priority" in waits.explanation.message
    assert 300.0 < waits.at < waits.until < 450.0
    short = batch.shortages[-1]
    assert (Reason.NoSlot, True) == (short.explanation.reason, short.explanation.message.startswith("1 of "))
    assert short.at < short.worst_at < short.until


@pytest.mark.parametrize("classes", [{}, {"low": (1, True), "high": (100, False)}], ids=["unknown", "polite"])
def test_nobody_is_moved_for_a_pool_that_may_not_preempt(classes: dict[str, tuple[int, bool]]) -> None:
    batch, chat_ = simulate_together(rival(classes=classes))
    assert Reason.Preempted not in reasons(batch)
    assert batch.timeline[-1].pools[0].paid >= 5
    assert chat_.shortages[-1].explanation.reason is Reason.NoSlot
    assert "held by pool team/batch" in chat_.shortages[-1].explanation.message


def test_two_pools_never_share_a_gpu() -> None:
    """The scheduler would refuse to bind a second pod, and the pool would say so."""
    outcomes = simulate_together(rival(classes=RANKED))
    assert most_held(outcomes) == 8
    assert sum(pool.gpu_seconds for each in outcomes for pool in each.pools) <= 8 * 900.0
    assert {Reason.SlotTaken, Reason.SchedulingTimedOut}.isdisjoint(set().union(*map(reasons, outcomes)))


# quotas


def test_a_quota_bounds_the_pools_of_its_namespace_together() -> None:
    outcomes = simulate_together(rival(boards=3, quotas=(quota(5),)))
    assert most_held(outcomes) == 5
    for each in outcomes:
        (short,) = {one.explanation.message.partition(" leaves")[0] for one in each.shortages}
        assert short == "ResourceQuota gpus (requests.nvidia.com/gpu: 5)"


def test_what_others_have_of_a_quota_is_not_left() -> None:
    assert most_held(simulate_together(rival(boards=3, quotas=(quota(7, used=3),)))) == 4


def test_a_quota_of_another_namespace_or_of_other_pods_bounds_nobody() -> None:
    best_effort = quota(1, name="scoped", scopes=(QuotaScope("Terminating"),))
    free = simulate_together(rival(boards=3))
    bounded = simulate_together(rival(boards=3, quotas=(quota(1, namespace="elsewhere"), best_effort)))
    assert most_held(free) == most_held(bounded) > 10


def test_a_quota_of_a_priority_class_counts_its_pods_alone() -> None:
    low = quota(2, scopes=(QuotaScope("PriorityClass", "In", ("low",)),))
    batch, chat_ = simulate_together(rival(boards=3, quotas=(low,)))
    assert max(moment.pools[0].paid for moment in batch.timeline) == 2
    assert max(moment.pools[0].paid for moment in chat_.timeline) > 5


def test_a_pool_of_higher_priority_takes_room_in_a_quota() -> None:
    batch, chat_ = simulate_together(rival(boards=3, classes=RANKED, quotas=(quota(5),)))
    assert [paid(batch, 240.0), batch.timeline[-1].pools[0].paid] == [4, 1]
    assert chat_.timeline[-1].pools[0].paid == 4
    told = [each.explanation.message for each in batch.told if each.explanation.reason is Reason.Preempted]
    assert all("gives its room in the quota to pool team/chat" in each for each in told)


# streams


def test_each_stream_has_its_own_answers_and_pools() -> None:
    outcomes = simulate_together(rival(boards=3))
    assert [each.stream for each in outcomes] == ["batch", "chat"]
    assert [[pool.name for pool in each.pools] for each in outcomes] == [["batch"], ["chat"]]
    assert [len(each.answers.arrived) for each in outcomes] == [len(STEADY), len(RISE)]
    assert all({told.pool for told in each.told} == {each.stream} for each in outcomes)


def test_the_order_of_streams_changes_nothing() -> None:
    found = rival(classes=RANKED)
    forth = simulate_together(found)
    back = simulate_together(replace(found, streams=found.streams[::-1]))[::-1]
    for one, other in zip(forth, back, strict=True):
        assert one.answers.ttft.tobytes() == other.answers.ttft.tobytes()
        assert (one.told, one.timeline, one.pools) == (other.told, other.timeline, other.pools)


def test_it_lasts_as_long_as_the_longest_trace() -> None:
    """Whoever has no more requests shrinks meanwhile."""
    short = trace((200.0, 5.0))
    outcomes = simulate_together(together({"batch": (named("batch"), STEADY), "chat": (named("chat"), short)}))
    assert {each.seconds for each in outcomes} == {900.0}
    assert paid(outcomes[1], 180.0) > outcomes[1].timeline[-1].pools[0].paid == 1


def test_a_pool_that_nobody_asks_stands_beside() -> None:
    nobody = trace((0.0, 0.0)).part(1.0, 2.0)
    assert len(nobody) == 0
    asked = {"idle": (named("idle", min_replicas=3), nobody), "chat": (named("chat"), RISE)}
    idle, chat_ = simulate_together(together(asked))
    assert idle.timeline[-1].pools[0].paid == 3
    assert len(idle.answers.arrived) == 0
    assert "(held by pool team/idle)" in chat_.shortages[-1].explanation.message


def test_pools_of_one_name_in_two_namespaces_are_two() -> None:
    ours = named("chat")
    theirs = replace(ours, key=replace(ours.key, namespace="other", uid="uid-theirs"))
    streams = tuple(Stream(RISE, Route(name, "chat", namespace=name)) for name in ("team", "other"))
    found = setting(RISE, ours, theirs, streams=streams, start_up=EVEN)
    outcomes = simulate_together(replace(found, quotas=(quota(2, namespace="other"),)))
    assert [max(moment.pools[0].paid for moment in each.timeline) > 2 for each in outcomes] == [True, False]


def test_a_split_stands_beside_a_pool() -> None:
    """Its children have the priority of their class, and its own words."""
    pair = duo(RISE)
    streams = (*pair.streams, Stream(STEADY, Route("batch", "batch", namespace="team")))
    both = replace(pair, streams=streams, pools=(named("batch"),), start_up=EVEN)
    halves, batch = simulate_together(both)
    assert [pool.name for pool in halves.pools] == ["duo-prefill", "duo-decode"]
    assert [pool.name for pool in batch.pools] == ["batch"]
    assert halves.answers.completed.all()
    assert batch.answers.completed.all()


def test_each_stream_is_decided_by_a_policy_of_its_own() -> None:
    policies = Written((0.0, 2)), Written((0.0, 3))
    outcomes = simulate_together(rival(), policies)
    assert [each.timeline[-1].pools[0].ready for each in outcomes] == [2, 3]
    assert [{view.name for view in each.seen[-1][1]} for each in policies] == [{"batch"}, {"chat"}]
    with pytest.raises(ValueError, match="a policy of its own"):
        simulate_together(rival(), policies[:1])


def test_two_streams_cannot_ask_one_pool() -> None:
    found = rival()
    with pytest.raises(ValueError, match="chat is asked by two streams"):
        simulate_together(replace(found, streams=(*found.streams, found.streams[1])))
