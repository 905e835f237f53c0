"""How long one pass of `decide` takes: 64 nodes, 20 pools, traffic that never stands still.

Every measured pass sees other traffic than the one before: rates and token counts rise and fall slowly under noise, so
that counts and live workloads move; now and then a spec changes or an engine ends. The first pass, which plans
everything at once, counts like the others.

Wall-clock time is what users wait for. Processor time, which neighbours on the machine hardly change, stands beside
it under the same floor: a pass waits for nothing, so on a quiet machine the two agree. As in the operator, Python's
search for cyclic garbage waits until a pass is over.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import quantiles
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import track

from bench.records import START, edited, ended, in_clique, node_record, pod_record, pool_record, pool_spec
from bench.result import Result
from weft.catalog import load
from weft.control.deciding.garbage import collected_afterwards
from weft.decide import decide
from weft.domain.scaling_spec import ScalingSpec
from weft.domain.snapshot import PoolObservation, PoolRecord, Snapshot
from weft.domain.spec import PoolSpec, RolloutSpec
from weft.domain.workload import Slo, Workload

if TYPE_CHECKING:
    from weft.domain.cluster import NodeRecord, PodRecord
    from weft.domain.decision import Decisions

LIMIT_MS = 100.0
NODES = 64
POOLS = 20
PASSES = 300
PASS_SECONDS = 10.0
CHANGE_EVERY = 25  # passes between edits and failures

MODELS = (
    "meta-llama/Llama-3.1-8B-Instruct",
    "Qwen/Qwen3-32B",
    "meta-llama/Llama-3.3-70B-Instruct",
    "Qwen/Qwen3-30B-A3B",
)


def measure(passes: int = PASSES) -> tuple[Result, ...]:
    """Passes over a busy cluster; milliseconds."""
    traffic = Random(7)
    snapshot = Snapshot(START, _pools(), (), _nodes(), ())
    catalog = load()
    used: list[float] = []
    passed: list[float] = []
    console = Console(stderr=True)
    # Without a thread of its own the bar moves between passes, never inside one.
    bar = track(range(passes), "decide", console=console, auto_refresh=False, disable=not console.is_terminal)
    for index in bar:
        with collected_afterwards():
            began, begun = perf_counter(), process_time()
            decisions = decide(snapshot, catalog)
            used.append((process_time() - begun) * 1000.0)
            passed.append((perf_counter() - began) * 1000.0)
        snapshot = _after(snapshot, decisions, index, traffic)
    size: dict[str, float | str] = {"nodes": NODES, "pools": POOLS, "pods": len(snapshot.pods), "passes": passes}
    return _p99("decide-wall-p99", passed, size), _p99("decide-processor-p99", used, size)


def _after(snapshot: Snapshot, decisions: Decisions, index: int, traffic: Random) -> Snapshot:
    """What the next pass sees: statuses are written, pods have followed, and traffic has moved on."""
    statuses = {decision.key.uid: decision.status for decision in decisions.pools}
    pools = tuple(replace(pool, status=statuses[pool.key.uid]) for pool in snapshot.pools)
    pods = _pods(pools)
    if index % CHANGE_EVERY == CHANGE_EVERY - 1:
        pools, pods = _disturbed(pools, pods, traffic)
    return replace(
        snapshot,
        now=snapshot.now + PASS_SECONDS,
        pools=pools,
        pods=pods,
        observations={pool.key.uid: _observation(pool, index, traffic) for pool in pools},
        memory=decisions.memory,
    )


def _p99(name: str, times: list[float], size: dict[str, float | str]) -> Result:
    cuts = quantiles(times, n=100, method="inclusive")
    spread = {"first_ms": round(times[0], 2), "p50_ms": round(cuts[49], 2), "max_ms": round(max(times), 2)}
    return Result(name, round(cuts[98], 2), "ms", LIMIT_MS, {**size, **spread})


def _nodes() -> tuple[NodeRecord, ...]:
    """28 boards of 8 H200 and two racks of 18 trays of 4 GB200."""
    boards = [node_record(f"board-{index}", "NVIDIA-H200", 8) for index in range(NODES - 36)]
    trays = [
        node_record(f"rack-{rack}-tray-{index}", "NVIDIA-GB200", 4, in_clique(f"rack-{rack}.1"))
        for rack in range(2)
        for index in range(18)
    ]
    return (*boards, *trays)


def _pools() -> tuple[PoolRecord, ...]:
    return tuple(
        pool_record(index, _spec(index), f"team-{index % 3}", priority=index % 4, created=START - index)
        for index in range(POOLS)
    )


def _spec(index: int) -> PoolSpec:
    return pool_spec(
        MODELS[index % len(MODELS)],
        workload=Workload(2.0 + index % 5, 1000, 200, 3000, 500),
        slo=Slo(ttft=((95, 1.0),), tpot=((95, 0.05),)),
        scaling=ScalingSpec(max_replicas=16, scale_down_delay_seconds=60.0),
        rollout=RolloutSpec(max_unavailable=1),
    )


def _pods(pools: tuple[PoolRecord, ...]) -> tuple[PodRecord, ...]:
    """Every assigned replica runs and is ready: pods follow within one pass."""
    return tuple(
        pod_record(pool, assignment, rank)
        for pool in pools
        for assignment in pool.status.assignments
        for rank in range(len(assignment.nodes))
    )


def _observation(pool: PoolRecord, index: int, traffic: Random) -> PoolObservation:
    """A load that rises and falls over the passes, with noise and longer and shorter requests."""
    wave = 1.0 + abs((index + int(pool.key.uid[4:]) * 7) % 120 - 60) / 20.0
    replicas = len(pool.status.assignments)
    return PoolObservation(
        expected=replicas,
        answered=replicas,
        age_seconds=5.0,
        requests_per_second=wave * traffic.uniform(0.9, 1.1) * 3.0,
        input_tokens=1000 * wave * traffic.uniform(0.9, 1.1),
        output_tokens=200 * traffic.uniform(0.9, 1.1),
        waiting=traffic.choice([0.0, 0.0, 3.0]),
        running=20.0,
        kv_usage=0.5,
        ttft=((95, traffic.uniform(0.5, 1.5)),),
        tpot=((95, traffic.uniform(0.02, 0.06)),),
        prefix_hit=0.0,
        ttft_mean=0.1 * wave * traffic.uniform(0.9, 1.1),
        tpot_mean=0.01 * wave * traffic.uniform(0.9, 1.1),
    )


def _disturbed(
    pools: tuple[PoolRecord, ...], pods: tuple[PodRecord, ...], traffic: Random
) -> tuple[tuple[PoolRecord, ...], tuple[PodRecord, ...]]:
    """One pool gets a new revision, one engine ends."""
    chosen = traffic.randrange(len(pools))
    pools = (*pools[:chosen], edited(pools[chosen], traffic.random()), *pools[chosen + 1 :])
    if pods:
        lost = traffic.randrange(len(pods))
        pods = (*pods[:lost], ended(pods[lost]), *pods[lost + 1 :])
    return pools, pods
