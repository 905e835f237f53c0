"""Four kinds of crowded histories on three boards of eight GPUs, each drawn from its kind and its number alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from bench.records import GPU, START, ended, exactly, node_record, pool_record, pool_spec
from bench.settling_bench.crowd import Crowd
from weft.domain.cluster import PodPhase, PodRecord
from weft.domain.moves import MoveBudget
from weft.domain.quotas import QuotaRecord
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.snapshot import ResourceKey, SplitRecord
from weft.domain.spec import PlacementSpec, RolloutSpec, RouterSpec, ShapePins, SplitSpec
from weft.domain.status import SplitStatus
from weft.domain.workload import Role, Slo, Workload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from weft.domain.snapshot import PoolRecord
    from weft.domain.spec import PoolSpec

MODEL = "meta-llama/Llama-3.1-8B-Instruct"
NAMESPACE = "team"
BOARDS, GPUS = ("b-0", "b-1", "b-2"), 8
POOLS = 4  # beside the halves of a split
BUDGET = MoveBudget(per_hour=20, per_decision=3)
AUTO = ScalingSpec(max_replicas=2, headroom=0.0)
ROLLOUTS = (RolloutSpec(), RolloutSpec(max_surge=0, max_unavailable=1))
JOBS = (0, 0, 1, 4, 6)  # GPUs of one: none as often as any two others
WAITS = 0.3  # of what happens
PREEMPTING = 0.75  # of pools, as their PriorityClass says
SHORT_SECONDS, LONG_SECONDS, STEPS_IN_LONG = 5.0, 70.0, 3
LEAST_HAPPENS, MOST_HAPPENS = 4, 16
MOST_PRIORITY = 3


@dataclass(frozen=True, slots=True)
class Kind:
    """What is in its histories beside pools, jobs of others, crashes, edits, moves and nodes that do not answer."""

    name: str
    priorities: bool = True
    split: bool = False
    quota: bool = False


KINDS = (Kind("priorities"), Kind("split", split=True), Kind("flat", priorities=False), Kind("quota", quota=True))


def moments(kind: Kind, number: int) -> Iterator[Crowd]:
    """The cluster at each moment at which it is to be decided: whoever looks writes the answer before going on."""
    draw = Random(f"{kind.name}-{number}")
    crowd = _begun(kind, draw)
    yield from _wait(crowd, 4, SHORT_SECONDS)
    happens = _happens_in(kind)
    for _ in range(draw.randint(LEAST_HAPPENS, MOST_HAPPENS)):
        if draw.random() < WAITS:
            yield from _wait(crowd, draw.randint(1, 4), draw.choice((SHORT_SECONDS, LONG_SECONDS)))
        else:
            crowd.now += 1.0
            draw.choice(happens)(crowd, draw)
            yield crowd


def _wait(crowd: Crowd, turns: int, seconds: float) -> Iterator[Crowd]:
    """Turns in which the cluster follows what is decided."""
    for _ in range(turns):
        crowd.now += seconds
        yield crowd
        for _ in range(1 if seconds < LONG_SECONDS else STEPS_IN_LONG):
            crowd.follow()


def _begun(kind: Kind, draw: Random) -> Crowd:
    boards = {name: node_record(name, "NVIDIA-H200", GPUS) for name in BOARDS}
    pools = [_pool(index, _spec(draw), kind, draw) for index in range(POOLS)]
    crowd = Crowd(boards, {pool.key.name: pool for pool in pools}, BUDGET)
    if kind.split:
        _join_a_split(crowd, draw)
    if kind.quota:
        _limited(crowd, draw)
    for name in BOARDS:
        _job(crowd, name, draw)
    return crowd


def _pool(index: int, spec: PoolSpec, kind: Kind, draw: Random) -> PoolRecord:
    priority = draw.randint(0, MOST_PRIORITY) if kind.priorities else 0
    return pool_record(index, spec, NAMESPACE, priority=priority, preempts=draw.random() < PREEMPTING)


def _spec(draw: Random) -> PoolSpec:
    """A pool whose shape is Weft's to choose, or whose GPUs are given, with a count of its own or by its traffic."""
    fixed = draw.choice((None, None, 1, 2, 4, 8))
    counted = replace(exactly(draw.randint(1, 5)), min_replicas=1)
    return pool_spec(
        MODEL,
        workload=Workload(1.0 if fixed else draw.choice((1.0, 100.0)), 1000, 200, 2000, 400),
        slo=Slo() if fixed else Slo(tpot=((95, 0.05),)),
        shape=ShapePins(tensor_parallel=fixed, pipeline_parallel=1, data_parallel=1) if fixed else ShapePins(),
        placement=PlacementSpec(accelerators=("H200",)),
        scaling=draw.choice((AUTO, counted, counted)),
        rollout=draw.choice(ROLLOUTS),
    )


def _join_a_split(crowd: Crowd, draw: Random) -> None:
    """Both of its halves ask for the same, and count by themselves."""
    key, priority, spec = (
        ResourceKey("PDSplit", NAMESPACE, "pair", "uid-pair"),
        draw.randint(0, MOST_PRIORITY),
        _spec(draw),
    )
    sides = {role: replace(spec, role=role, scaling=_spec(draw).scaling) for role in (Role.Prefill, Role.Decode)}
    split = SplitSpec(sides[Role.Prefill], sides[Role.Decode], RouterSpec(), "{}", "{}", engine=spec.engine)
    record = SplitRecord(key, 1, split, SplitStatus(), priority=priority)
    crowd.splits = (record,)
    for index, (role, side) in enumerate(sides.items(), POOLS):
        half = pool_record(index, side, NAMESPACE, priority=priority, split_uid=key.uid)
        named = replace(half, key=replace(half.key, name=record.child_name(role)))
        crowd.pools[named.key.name] = named


def _job(crowd: Crowd, board: str, draw: Random) -> None:
    """Somebody's job there gets as many GPUs as it asks for and pods leave it, or goes."""
    crowd.pods.pop(f"job-{board}", None)
    granted = min(draw.choice(JOBS), GPUS - crowd.held(board))
    if granted > 0:
        job = PodRecord("default", f"job-{board}", f"uid-job-{board}", PodPhase.Running, board, ((GPU, granted),))
        crowd.pods[job.name] = job


def _jobs_change(crowd: Crowd, draw: Random) -> None:
    _job(crowd, draw.choice(BOARDS), draw)


def _crash(crowd: Crowd, draw: Random) -> None:
    """Every engine of a pool ends at once."""
    uid = draw.choice([pool.key.uid for pool in crowd.pools.values()])
    for pod in list(crowd.pods.values()):
        if pod.identity and pod.identity.pool_uid == uid and pod.phase is PodPhase.Running:
            crowd.pods[pod.name] = ended(pod)


def _answers_or_not(crowd: Crowd, draw: Random) -> None:
    """A node."""
    board = draw.choice(BOARDS)
    crowd.nodes[board] = replace(crowd.nodes[board], ready=draw.random() < 0.5)


def _edited(crowd: Crowd, draw: Random) -> None:
    """A pool that is no half of a split."""
    record = _one_of(crowd, draw)
    crowd.pools[record.key.name] = replace(record, spec=_spec(draw), generation=record.generation + 1)


def _reprioritised(crowd: Crowd, draw: Random) -> None:
    record = _one_of(crowd, draw)
    crowd.pools[record.key.name] = replace(record, priority=draw.randint(0, MOST_PRIORITY))


def _another_comes(kind: Kind, crowd: Crowd, draw: Random) -> None:
    """Instead of a pool that is deleted; its name, like its UID, is new."""
    del crowd.pools[_one_of(crowd, draw).key.name]
    record = _pool(int(crowd.now - START), _spec(draw), kind, draw)
    crowd.pools[record.key.name] = record


def _one_of(crowd: Crowd, draw: Random) -> PoolRecord:
    return draw.choice([pool for pool in crowd.pools.values() if pool.split_uid is None])


def _limited(crowd: Crowd, draw: Random) -> None:
    """The namespace may have so many GPUs: fewer than there are, or all of them."""
    hard = draw.randint(GPUS // 2, GPUS * len(BOARDS))
    crowd.quotas = (QuotaRecord(NAMESPACE, "gpus", ((f"requests.{GPU}", hard),)),)


def _happens_in(kind: Kind) -> tuple[Callable[[Crowd, Random], None], ...]:
    """Each as likely as the others."""
    of_all = _crash, _jobs_change, _answers_or_not, _edited, partial(_another_comes, kind)
    return of_all + (_reprioritised,) * kind.priorities + (_limited,) * kind.quota
