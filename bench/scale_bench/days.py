"""What a cluster goes through from pass to pass: statuses are written, pods follow, traffic moves, engines end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sin, tau
from random import Random
from typing import TYPE_CHECKING

from bench.records import START, edited, ended
from bench.scale_bench.cluster import Size, foreign_pods, is_external, nodes_of, pod_of, pools_of, scaled
from weft.domain.snapshot import PodObservation, PoolObservation, PoolRecord, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from weft.domain.cluster import PodRecord
    from weft.domain.decision import Decisions
    from weft.domain.workload import Workload

PASS_SECONDS = 10.0
DAY_PASSES = 120
PLACED_AT_ONCE = 100
CYCLE = 3  # passes: more are wanted, nothing happens, as many fewer are wanted
CHANGE_EVERY = 10  # passes between edits and failures
RATE_SWING, TOKEN_SWING, NOISE = 0.25, 0.25, 0.04


@dataclass(slots=True)
class Days:
    """A cluster under way. `snapshot` is what the next pass sees; where all `stands_still`, only who scales acts."""

    size: Size
    snapshot: Snapshot
    traffic: Random = field(default_factory=lambda: Random(7))
    stands_still: bool = False
    _pods: dict[tuple[str, int], tuple[PodRecord, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, size: Size) -> Days:
        """Everything is wanted, and nothing runs yet."""
        nodes = nodes_of(size)
        return cls(size, Snapshot(START, pools_of(size), (), nodes, foreign_pods(nodes)))

    def go_on(self, decisions: Decisions, index: int) -> str:
        """To what pass `index` sees, and its kind: `place`, `quiet` or `shrink`."""
        statuses = {decision.key.uid: decision.status for decision in decisions.pools}
        pools = tuple(replace(pool, status=statuses[pool.key.uid]) for pool in self.snapshot.pools)
        kind, more = (("place", 1), ("quiet", 0), ("shrink", -1))[index % CYCLE]
        pools, pods = self._asked(pools, more), self._followed(pools)
        if index % CHANGE_EVERY == CHANGE_EVERY - 1 and not self.stands_still:
            pools, pods = self._disturbed(pools, pods)
        observations = dict(self._observed(pools, index))
        now = self.snapshot.now + PASS_SECONDS
        self.snapshot = replace(
            self.snapshot, now=now, pools=pools, pods=pods, observations=observations, memory=decisions.memory
        )
        return kind

    def _asked(self, pools: tuple[PoolRecord, ...], sign: int) -> tuple[PoolRecord, ...]:
        """A hundred replicas more or fewer, spread evenly over the pools that somebody else scales."""
        external = [at for at in range(len(pools)) if is_external(at)]
        share, rest = divmod(PLACED_AT_ONCE, len(external))
        more = {at: sign * (share + (place < rest)) for place, at in enumerate(external)} if sign else {}
        return tuple(scaled(pool, more[at]) if at in more else pool for at, pool in enumerate(pools))

    def _followed(self, pools: tuple[PoolRecord, ...]) -> tuple[PodRecord, ...]:
        """Every assigned replica runs within one pass; who ran before is the same record."""
        found: dict[tuple[str, int], tuple[PodRecord, ...]] = {}
        for pool in pools:
            for each in pool.status.assignments:
                key = pool.key.uid, each.replica
                known = self._pods.get(key)
                found[key] = known or tuple(pod_of(pool, each, rank) for rank in range(len(each.nodes)))
        self._pods = found
        others = (pod for pod in self.snapshot.pods if pod.identity is None)
        return (*(pod for pods in found.values() for pod in pods), *others)

    def _disturbed(
        self, pools: tuple[PoolRecord, ...], pods: tuple[PodRecord, ...]
    ) -> tuple[tuple[PoolRecord, ...], tuple[PodRecord, ...]]:
        """One pool gets a new revision, one engine ends."""
        at, lost = self.traffic.randrange(len(pools)), self.traffic.randrange(len(pods))
        pools = (*pools[:at], edited(pools[at], self.traffic.random()), *pools[at + 1 :])
        return pools, (*pods[:lost], ended(pods[lost]), *pods[lost + 1 :])

    def _observed(self, pools: tuple[PoolRecord, ...], index: int) -> Iterator[tuple[str, PoolObservation]]:
        """By UID of the pool; where all stands still the last ones, of as many replicas as there are."""
        for at, pool in enumerate(pools):
            before = self.snapshot.observations.get(pool.key.uid) if self.stands_still else None
            if before is not None and before.expected != (replicas := len(pool.status.assignments)):
                before = replace(before, expected=replicas, answered=replicas)
            if pool.spec is not None:
                yield pool.key.uid, before or self._observation(pool, pool.spec.workload, at, index)

    def _observation(self, pool: PoolRecord, workload: Workload, at: int, index: int) -> PoolObservation:
        """A load that rises and falls over the passes, each pool at its own hour, under noise."""
        replicas, plan = len(pool.status.assignments), pool.status.plan
        wave, other = (sin(tau * (index + at * step) / DAY_PASSES) for step in (7, 11))
        rate = workload.requests_per_second * (1.0 + RATE_SWING * wave) * self._noise()
        ttft, tpot = (plan.prediction.ttft.mean, plan.prediction.tpot.mean) if plan else (0.1, 0.01)
        return PoolObservation(
            expected=replicas,
            answered=replicas,
            age_seconds=5.0,
            requests_per_second=rate,
            input_tokens=workload.input_tokens * (1.0 + TOKEN_SWING * other) * self._noise(),
            output_tokens=workload.output_tokens * self._noise(),
            waiting=self.traffic.choice([0.0, 0.0, 3.0]),
            running=20.0,
            kv_usage=0.5,
            ttft=((95, 0.8 * self._noise()),),
            tpot=((95, 0.04 * self._noise()),),
            prefix_hit=0.0,
            ttft_mean=ttft * self._noise(),
            tpot_mean=tpot * self._noise(),
            pods=tuple(self._of_pod(each, rate / replicas) for each in range(replicas)),
        )

    def _of_pod(self, replica: int, rate: float) -> PodObservation:
        return PodObservation(f"pod-{replica}", 5.0, rate, 1000.0, 200.0, 1000.0, 0.0, 5.0, 0.5)

    def _noise(self) -> float:
        return self.traffic.uniform(1.0 - NOISE, 1.0 + NOISE)
