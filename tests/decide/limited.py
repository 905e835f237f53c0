"""A world whose namespace has quotas, counted as the API server counts them."""

from __future__ import annotations

from dataclasses import replace
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


def limited(boards: int, hard: dict[str, int], *pools: PoolRecord, used: dict[str, int] | None = None) -> Limited:
    world = Limited.of([board(f"b-{i}") for i in range(boards)], *pools)
    assert isinstance(world, Limited)
    world.quotas = (QuotaRecord("team", "gpus", tuple(hard.items()), tuple((used or {}).items())),)
    return world


def desired(world: World, *names: str) -> tuple[int, ...]:
    return tuple(world.status(name).desired_replicas for name in names)


def paired(boards: int, gpus: int, prefill: int, decode: int) -> Limited:
    """A split of replicas of eight GPUs that wants so many of each, and a quota of so many GPUs."""
    wanted = ((Role.Prefill, prefill), (Role.Decode, decode))
    sides = [pool_spec(8, external(count), role=role) for role, count in wanted]
    key = ResourceKey("PDSplit", "team", "pair", "uid-pair")
    split = SplitRecord(key, 1, SplitSpec(sides[0], sides[1], RouterSpec(), "{}", "{}"), SplitStatus())
    halves = [pool(f"pair-{side.role.value.lower()}", side, split_uid="uid-pair") for side in sides]
    world = limited(boards, {GPUS: gpus}, *halves)
    world.splits = {"pair": split}
    return world
