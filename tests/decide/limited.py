"""A world whose namespace has quotas, counted as the API server counts them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tests.decide.world import NVIDIA, World, external, pool, pool_spec
from tests.fabric.cluster import board
from weft.domain.cluster import PodPhase
from weft.domain.quotas import QuotaRecord
from weft.domain.snapshot import PoolRecord, ResourceKey, SplitRecord
from weft.domain.spec import RouterSpec, SplitSpec
from weft.domain.status import SplitStatus
from weft.domain.workload import Role

if TYPE_CHECKING:
    from weft.domain.cluster import PodRecord
    from weft.domain.scaling_spec import ScalingSpec
    from weft.domain.snapshot import Snapshot

GPUS, PODS = f"requests.{NVIDIA}", "pods"


class Limited(World):
    """`used` of its quotas is what others use."""

    quotas: tuple[QuotaRecord, ...] = ()

    def snapshot(self) -> Snapshot:
        return replace(super().snapshot(), quotas=tuple(self._counted(each) for each in self.quotas))

    def _counted(self, quota: QuotaRecord) -> QuotaRecord:
        others = dict(quota.used)
        return replace(quota, used=tuple((limit, others.get(limit, 0) + self.used(limit)) for limit, _ in quota.hard))

    def used(self, limit: str) -> int:
        """By pods of ours, as the quota controller counts them."""
        pods = [pod for pod in self.pods.values() if pod.phase not in {PodPhase.Failed, PodPhase.Succeeded}]
        return len(pods) if limit == PODS else sum(count for pod in pods for _, count in pod.requests)


@dataclass
class CountedLate(Limited):
    """Pods that leave take `drain_seconds`, and their quota counts them for `late_seconds` after they are gone."""

    drain_seconds: float = 30.0
    late_seconds: float = 10.0
    began: dict[str, float] = field(default_factory=dict)  # to leave, by name of the pod
    counts: list[tuple[float, int]] = field(default_factory=list)

    def used(self, limit: str) -> int:
        self.counts.append((self.now, super().used(limit)))
        return max(count for at, count in self.counts if at >= self.now - self.late_seconds)

    def _advance(self, pod: PodRecord) -> None:
        if not pod.terminating or self.now - self.began.setdefault(pod.name, self.now) >= self.drain_seconds:
            super()._advance(pod)


def counted_late(boards: int, gpus: int, one: PoolRecord) -> CountedLate:
    nodes = [board(f"b-{i}") for i in range(boards)]
    world = CountedLate(nodes, {one.key.name: one})
    world.quotas = (QuotaRecord("team", "gpus", ((GPUS, gpus),)),)
    return world


def limited(boards: int, hard: dict[str, int], *pools: PoolRecord, used: dict[str, int] | None = None) -> Limited:
    world = Limited.of([board(f"b-{i}") for i in range(boards)], *pools)
    assert isinstance(world, Limited)
    world.quotas = (QuotaRecord("team", "gpus", tuple(hard.items()), tuple((used or {}).items())),)
    return world


def desired(world: World, *names: str) -> tuple[int, ...]:
    return tuple(world.status(name).desired_replicas for name in names)


def paired(boards: int, gpus: int, prefill: int, decode: int) -> Limited:
    """A split of replicas of eight GPUs that wants so many of each, and a quota of so many GPUs."""
    world = limited(boards, {GPUS: gpus})
    join(world, "pair", external(prefill), external(decode))
    return world


def join(  # noqa: PLR0917 - as many as a split of tests has
    world: World, name: str, prefill: ScalingSpec, decode: ScalingSpec, priority: int = 0, tp: int = 8
) -> None:
    """A split comes, with both of its halves."""
    sides = [pool_spec(tp, each, role=role) for role, each in ((Role.Prefill, prefill), (Role.Decode, decode))]
    key = ResourceKey("PDSplit", "team", name, f"uid-{name}")
    world.splits[name] = SplitRecord(
        key, 1, SplitSpec(sides[0], sides[1], RouterSpec(), "{}", "{}"), SplitStatus(), priority=priority
    )
    for side in sides:
        half = f"{name}-{side.role.value.lower()}"
        world.pools[half] = pool(half, side, priority, split_uid=f"uid-{name}")
