"""`python -m bench growth`: what would grow faster than its input, if it were worked out pair by pair.

A first pass of `decide` over 1,000 pools with tolerations of their own, beside 1,000 nodes with their taints; one over
a pool with a replica in each of 1,000 zones; what a replica's metrics cost in a round, with a minute of a recorded page
of vLLM 0.32 in memory; and how long a round takes in which 1,000 of 2,000 engines let us wait, once all were asked.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING

from bench.records import START, exactly, node_record, pool_record, pool_spec
from bench.result import Result
from weft.catalog import load
from weft.control.deciding.garbage import collected_afterwards
from weft.decide import decide
from weft.domain.cluster import NodeRecord, Taint
from weft.domain.shape import EngineName
from weft.domain.snapshot import PoolRecord, Snapshot
from weft.domain.spec import PlacementSpec, ShapePins, Toleration
from weft.engines import series_for
from weft.observe.samples.scrape_target import EngineTarget
from weft.observe.signals.observation import observe_pool
from weft.observe.sources.direct import DirectSource
from weft.observe.sources.exposition import parse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

PAGES = Path(__file__).parents[1] / "tests" / "fixtures" / "metrics" / "vllm-0.32.0"
SERIES = series_for(EngineName.VLLM, "0.32.0")
GPUS = 8
MANY = 1_000
SCRAPES, INTERVAL_SECONDS = 13, 5.0
REPLICAS_READ = 100
ROUNDS_BEFORE, STARTS_WITHIN_SECONDS = 12, 60.0
LIMIT_FIRST_SECONDS, LIMIT_READING_MS, LIMIT_ROUND_SECONDS = 3.0, 3.0, 5.0


def measure() -> tuple[Result, ...]:
    """All of it."""
    asked: dict[str, float | str] = {"pools": MANY, "nodes": MANY}
    tolerations, zones = _first_pass(*tainted()), _first_pass(*zoned())
    return (
        Result("growth-tolerations-first-processor", tolerations, "s", LIMIT_FIRST_SECONDS, asked),
        Result("growth-zones-first-processor", zones, "s", LIMIT_FIRST_SECONDS, {"replicas": MANY, "zones": MANY}),
        Result("growth-reading-processor", reading_ms(), "ms", LIMIT_READING_MS, {"scrapes_in_memory": SCRAPES}),
        Result("growth-silent-round-wall", silent_round_seconds(), "s", LIMIT_ROUND_SECONDS, {"silent": MANY}),
    )


def tainted() -> tuple[list[PoolRecord], list[NodeRecord]]:
    """Each pool tolerates the taint of one node, and each node has another one."""
    nodes = [replace(_board(index), taints=(Taint("team", f"t{index}", "NoSchedule"),)) for index in range(MANY)]
    pools = [
        _pool(index, 1, PlacementSpec(tolerations=(Toleration("team", value=f"t{index}"),))) for index in range(MANY)
    ]
    return pools, nodes


def zoned() -> tuple[list[PoolRecord], list[NodeRecord]]:
    """A pool with a replica in every zone."""
    return [_pool(0, MANY, PlacementSpec(spread="Zone"))], [_board(index, f"zone-{index}") for index in range(MANY)]


def reading_ms() -> float:
    """Processor time of a round for each replica: its page read, its window built, and what it tells of its pool."""
    clock = [0.0]
    source = DirectSource(clock=lambda: clock[0])
    targets = [
        EngineTarget(f"u{one}", "team", f"p{one}", "", 1, "/", SERIES.names, series=SERIES)
        for one in range(REPLICAS_READ)
    ]
    spent = 0.0
    for page in _pages(SCRAPES + 1):
        clock[0] += INTERVAL_SECONDS
        with collected_afterwards():
            began = process_time()
            for target in targets:
                source.remember(target.uid, parse(page, target.names))
            observe_pool(targets, source.windows())
            spent = process_time() - began
    return 1000.0 * spent / REPLICAS_READ


def silent_round_seconds() -> float:
    """The wall's time of the longest of three rounds, once everybody was asked."""
    with _engines() as port:
        return asyncio.run(_longest_round(port))


async def _longest_round(port: int) -> float:
    paths = [f"/{'silent' if index % 2 else 'metrics'}-{index}" for index in range(2 * MANY)]
    targets = [EngineTarget(path, "team", path, "127.0.0.1", port, path, SERIES.names, series=SERIES) for path in paths]
    source, seconds = DirectSource(), list[float]()
    for _ in range(ROUNDS_BEFORE):
        await source.collect(targets)
    for _ in range(3):
        began = perf_counter()
        await source.collect(targets)
        seconds.append(perf_counter() - began)
    await source.close()
    return max(seconds)


@contextmanager
def _engines() -> Iterator[int]:
    """A process that answers for all engines at one port, or does not."""
    ours, theirs = multiprocessing.Pipe()
    serving = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs,), daemon=True)
    serving.start()
    try:
        if not ours.poll(STARTS_WITHIN_SECONDS):
            raise RuntimeError("the engines did not start")
        yield int(ours.recv())
    finally:
        serving.terminate()
        serving.join()


def _serve(ready: Connection) -> None:
    asyncio.run(_serve_forever(ready))


async def _serve_forever(ready: Connection) -> None:
    page = (PAGES / "second.txt").read_bytes()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(page)}\r\n\r\n".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):  # whoever asked has had enough
            while asked := await reader.readuntil(b"\r\n\r\n"):
                if b"silent" not in asked.partition(b"\r\n")[0]:
                    writer.write(head + page)

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4 * MANY)
    ready.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def _pages(count: int) -> Iterator[str]:
    """What an engine shows between two recorded pages, evenly."""
    first, second = ((PAGES / name).read_text(encoding="utf-8").splitlines() for name in ("first.txt", "second.txt"))
    for step in range(count):
        part = step / (count - 1)
        yield "\n".join(_between(*lines, part) for lines in zip(first, second, strict=True)) + "\n"


def _between(first: str, second: str, part: float) -> str:
    """A line of one page on its way to the other."""
    series, _, value = first.rpartition(" ")
    if first == second or first.startswith("#"):
        return first
    return f"{series} {float(value) + part * (float(second.rpartition(' ')[2]) - float(value))}"


def _first_pass(pools: list[PoolRecord], nodes: list[NodeRecord]) -> float:
    """Processor time in seconds; everybody has to be placed."""
    catalog = load()
    with collected_afterwards():
        began = process_time()
        found = decide(Snapshot(START, tuple(pools), (), tuple(nodes), ()), catalog)
        spent = process_time() - began
    assert all(len(each.status.assignments) == each.status.desired_replicas for each in found.pools)
    return spent


def _board(index: int, zone: str = "one") -> NodeRecord:
    return node_record(f"board-{index:05}", "NVIDIA-H200", GPUS, {"topology.kubernetes.io/zone": zone})


def _pool(index: int, replicas: int, placement: PlacementSpec) -> PoolRecord:
    spec = pool_spec(
        shape=ShapePins(tensor_parallel=GPUS, pipeline_parallel=1, data_parallel=1),
        placement=replace(placement, accelerators=("H200",)),
        scaling=exactly(replicas),
    )
    return pool_record(index, spec)
