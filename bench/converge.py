"""`python -m bench.converge`: rendering and converging one pool of 1,000 replicas of two pods each.

The pool is decided on as in the operator, on racks of 18 trays. Then it is converged from nothing, pass by pass, in a
cluster that carries every action out at once, until it stands; and once more every minute of an hour in which nothing
happens. Only the passes count: what the API server and the caches would do takes its time beside.

Processor time, which neighbours on the machine change less, is what the floors are about; a pass waits for nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from bench.records import START, exactly, in_clique, node_record, pool_record, pool_spec
from bench.result import Result
from bench.scale_bench.measuring import peak_bytes
from weft.api import converge_status
from weft.catalog import load
from weft.control.deciding.garbage import collected_afterwards
from weft.control.statuses.status import needs_write
from weft.converge import Heard, converge_pool
from weft.converge.pool import wanted_objects
from weft.converge.replicas import replicas_of
from weft.decide import decide
from weft.domain import labels
from weft.domain.action import Action, ApplyObject, CreatePod, ReleasePods
from weft.domain.cluster import NodeRecord, PodPhase, PodRecord
from weft.domain.snapshot import PoolRecord, Snapshot
from weft.domain.spec import PlacementSpec, PoolSpec, ShapePins
from weft.fabric import build_fabric
from weft.observe.objects.records import read_object, read_pod
from weft.render import render_pods

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.domain.cluster import ObjectRecord
    from weft.domain.pool_memory import ScaleMemory
    from weft.domain.status import PoolProgress
    from weft.render import Json

REPOSITORY = Path(__file__).parents[1]
REPLICAS, TRAYS_PER_RACK, GPUS = 1_000, 18, 4
QUIET_PASSES = 60
LIMIT_SECONDS, LIMIT_BYTES, ANY_WRITE = 1.0, 300e6, 1.0
Row = dict[str, Any]


@dataclass
class Spent:
    """Seconds of each pass, on the wall's clock and of the processor."""

    wall: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def on(self, work: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever the work gives
        """Do it and note how long that took."""
        with collected_afterwards():
            began, begun = perf_counter(), process_time()
            done = work()
            self.processor.append(process_time() - begun)
            self.wall.append(perf_counter() - began)
        return done


@dataclass
class Stand:
    """The pool, its cluster and what was written."""

    pool: PoolRecord
    nodes: tuple[NodeRecord, ...]
    pods: dict[str, PodRecord] = field(default_factory=dict)
    objects: dict[tuple[str, str], ObjectRecord] = field(default_factory=dict)
    memory: dict[str, ScaleMemory] = field(default_factory=dict)
    body: Row = field(default_factory=lambda: {"metadata": {}})
    writes: int = 0

    def look(self, spent: Spent) -> int:
        """One pass of converging, carried out; gives how much there was to do."""
        pods, objects = tuple(self.pods.values()), tuple(self.objects.values())
        fabric = build_fabric(self.nodes, pods, load())
        done = spent.on(lambda: converge_pool(self.pool, fabric, pods, objects, Heard(START)))
        for action in done.actions:
            self._carry_out(action)
        self._tell(done.progress)
        self._note_complete()
        return len(done.actions)

    def decide_again(self) -> None:
        """One pass of deciding: a status that it would change is a write."""
        known = tuple(self.pods.values())
        found = decide(Snapshot(START, (self.pool,), (), self.nodes, known, memory=self.memory), load())
        self.memory = found.memory
        self.writes += found.pools[0].status != self.pool.status

    def _tell(self, progress: PoolProgress) -> None:
        """Write the progress into the status, where that changes anything."""
        wanted = converge_status(progress, self.body.get("status", {}), START)
        if needs_write(self.body, wanted, labels.CONVERGE_MANAGER):
            self.body["status"] = wanted
            self.writes += 1

    def _carry_out(self, action: Action) -> None:
        self.writes += 1
        match action:
            case CreatePod():
                record = read_pod(_made(action.body, "Pending"))
                assert record is not None
                self.pods[record.name] = record
            case ReleasePods():
                for name, _ in action.pods:
                    self._start(name)
            case ApplyObject():
                known = read_object(_made(action.body, ""))
                self.objects[known.kind, known.name] = known
            case _:
                raise AssertionError(f"a pool that only grows has no use for {action}")

    def _start(self, name: str) -> None:
        pod = self.pods[name]
        assert pod.identity is not None
        assigned = self.pool.status.assignments[pod.identity.replica]
        node = assigned.nodes[pod.identity.rank]
        self.pods[name] = replace(pod, gated=False, node=node, phase=PodPhase.Running, ready=True, released=START)

    def _note_complete(self) -> None:
        """What deciding notes between two passes: replicas whose pods were all there."""
        whole = {each.number for each in replicas_of(self.pool, self.pods.values()) if each.whole}
        status = self.pool.status
        noted = tuple(replace(each, complete=each.replica in whole) for each in status.assignments)
        self.pool = replace(self.pool, status=replace(status, assignments=noted))


def measure() -> tuple[Result, ...]:
    """For `python -m bench converge`: in a process of its own, whose memory is its own."""
    command = [sys.executable, "-m", "bench.converge"]
    ended = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
    return results(json.loads(ended.stdout))


def results(row: Row) -> tuple[Result, ...]:
    """The figures against their floors."""
    size = {name: row[name] for name in ("replicas", "pods", "nodes", "load_average_before")}
    times = [
        Result(f"converge-{name}-processor", row[name]["processor"], "s", LIMIT_SECONDS, {**size, **row[name]})
        for name in ("render", "build", "steady")
    ]
    return (
        *times,
        Result("converge-steady-writes", row["steady_writes"], "", ANY_WRITE, {**size, "passes": QUIET_PASSES}),
        Result("converge-peak-resident", row["peak_bytes"], "bytes", LIMIT_BYTES, size),
    )


def measured(replicas: int = REPLICAS, quiet: int = QUIET_PASSES) -> Row:
    """One row: all pods rendered, a pool built pass by pass, and `quiet` passes over one that stands; in seconds."""
    load_average = os.getloadavg()[0]
    stand = decided(replicas)
    rendering, building, steady = Spent(), Spent(), Spent()
    rendering.on(lambda: _everything(stand.pool))
    while stand.look(building):
        pass
    writes = stand.writes
    for _ in range(quiet):
        stand.look(steady)
        stand.decide_again()
    return {
        "replicas": replicas,
        "pods": len(stand.pods),
        "nodes": len(stand.nodes),
        "load_average_before": round(load_average, 2),
        "render": _summed(rendering),
        "build": _summed(building),
        "steady": _longest(steady),
        "build_writes": writes,
        "steady_writes": stand.writes - writes,
        "peak_bytes": peak_bytes(),
    }


def decided(replicas: int) -> Stand:
    """The pool with places for all of its replicas, and nothing else."""
    racks = -(-replicas // (TRAYS_PER_RACK // 2))
    nodes = tuple(_tray(rack, tray) for rack in range(racks) for tray in range(TRAYS_PER_RACK))
    pool = pool_record(0, _spec(replicas))
    found = decide(Snapshot(START, (pool,), (), nodes, ()), load())
    return Stand(replace(pool, status=found.pools[0].status), nodes, memory=found.memory)


def _everything(pool: PoolRecord) -> list[Json]:
    """All pods and all that stands around them."""
    pods = (pod for each in pool.status.assignments for pod in render_pods(pool, each))
    return [*pods, *wanted_objects(pool, (), None)]


def _tray(rack: int, tray: int) -> NodeRecord:
    return node_record(f"rack-{rack:03}-tray-{tray:02}", "NVIDIA-GB200", GPUS, in_clique(f"rack-{rack:03}.1"))


def _spec(replicas: int) -> PoolSpec:
    return pool_spec(
        shape=ShapePins(tensor_parallel=2 * GPUS, pipeline_parallel=1, data_parallel=1),
        placement=PlacementSpec(accelerators=("GB200",)),
        scaling=exactly(replicas),
    )


def _made(body: Json, phase: str) -> Json:
    """An object as the API server gives it once it is there."""
    meta = {**body["metadata"], "uid": f"uid-{body['metadata']['name']}", "creationTimestamp": "2027-01-15T08:00:00Z"}
    return {**body, "metadata": meta, "status": {"phase": phase} if phase else {}}


def _summed(spent: Spent) -> Row:
    """All passes together."""
    return {"passes": len(spent.wall), "wall": round(sum(spent.wall), 3), "processor": round(sum(spent.processor), 3)}


def _longest(spent: Spent) -> Row:
    """The longest pass."""
    return {"passes": len(spent.wall), "wall": round(max(spent.wall), 3), "processor": round(max(spent.processor), 3)}


if __name__ == "__main__":
    print(json.dumps(measured(), allow_nan=False))
