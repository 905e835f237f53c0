"""A router as Weft starts it before a pool, but for its addresses: it listens on loopback and is told its engines."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import aiohttp

from e2e.cluster.ports import LOOPBACK, free_port
from e2e.cluster.processes import ProcessFailedError, Supervisor
from weft.domain.shape import EngineName
from weft.domain.spec import RouterSpec
from weft.engines import FrontRequest, adapter_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from e2e.cluster.processes import Process

THRESHOLD = "--balance-abs-threshold"
OWN_THRESHOLD = 64  # of both routers, if they are told nothing
DRAIN_SECONDS = 60
_PLACES = ("--host", "--port", "--prometheus-host", "--prometheus-port")
_DISCOVERY = ("--service-discovery", "--selector")  # how their names begin
_START_SECONDS, _POLL_SECONDS, _SETTLES_SECONDS = 60.0, 0.2, 0.5
_OK, _TAKEN = 200, range(200, 300)


@dataclass(frozen=True, slots=True)
class Router:
    """A program: its name in tables, the engine for whose pools Weft starts it, and how it is run here."""

    name: str
    engine: EngineName
    program: tuple[str, ...]

    def rendered(self) -> tuple[str, ...]:
        """The arguments that Weft gives it before a pool."""
        request = FrontRequest("team", RouterSpec(), (("pool", "a"),), (), DRAIN_SECONDS)
        command = adapter_for(self.engine).front(request).command
        return tuple(dropwhile(lambda word: not word.startswith("--"), command))


def vllm_router(path: Path) -> Router:
    """`vllm-router` at a path."""
    return Router("vLLM", EngineName.VLLM, (str(path),))


def sglang_router(path: Path) -> Router:
    """`sglang-router` at a path, whose first word stands for the module that Weft runs."""
    return Router("SGLang", EngineName.SGLang, (str(path), "launch"))


@dataclass(frozen=True, slots=True)
class Setting:
    """What is changed of Weft's options; None: as Weft has it."""

    threshold: int | None = None
    relative: float | None = None
    policy: str | None = None

    def says(self, router: Router) -> str:
        """A word for tables."""
        told = [self.threshold, self.relative, self.policy]
        changed = [f"{each}" for each in told if each is not None]
        return ", ".join(changed) or f"{_value(router.rendered(), THRESHOLD)} (Weft's)"

    def options(self) -> dict[str, str]:
        """As options of a router, by name."""
        told = {THRESHOLD: self.threshold, "--balance-rel-threshold": self.relative, "--policy": self.policy}
        return {name: str(value) for name, value in told.items() if value is not None}


def with_setting(rendered: Sequence[str], setting: Setting) -> tuple[str, ...]:
    """The same arguments with what is set in place of what they say, or behind them."""
    changed = setting.options()
    kept = (group for group in _groups(rendered) if group[0] not in changed)
    return (*(word for group in kept for word in group), *(word for each in changed.items() for word in each))


def on_loopback(rendered: Sequence[str], ports: tuple[int, int], workers: Sequence[str]) -> tuple[str, ...]:
    """The same without discovery, at two ports of loopback (requests, metrics), before engines at some addresses."""
    kept = [each for each in _groups(rendered) if each[0] not in _PLACES and not each[0].startswith(_DISCOVERY)]
    http, metrics = map(str, ports)
    places = ("--host", LOOPBACK, "--port", http, "--prometheus-host", LOOPBACK, "--prometheus-port", metrics)
    return (*(word for group in kept for word in group), *places, "--worker-urls", *workers)


def _value(arguments: Sequence[str], option: str) -> str:
    return arguments[list(arguments).index(option) + 1]


def _groups(arguments: Sequence[str]) -> list[list[str]]:
    """Each option with its values."""
    starts = [at for at, word in enumerate(arguments) if word.startswith("--")]
    return [[arguments[at], *takewhile(lambda word: not word.startswith("--"), arguments[at + 1 :])] for at in starts]


@asynccontextmanager
async def started(router: Router, setting: Setting, fronts: int, workers: Sequence[str]) -> AsyncIterator[list[str]]:
    """Addresses of so many routers that know all these engines, for as long as the block runs.

    Raises ProcessFailedError, with the end of its log, for one that does not get ready.
    """
    arguments = with_setting(router.rendered(), setting)
    with TemporaryDirectory() as folder:
        supervisor = Supervisor(Path(folder))
        try:
            yield [await _one(supervisor, f"{index}", (router, arguments), workers) for index in range(fronts)]
        finally:
            await asyncio.to_thread(supervisor.stop_all)


async def _one(supervisor: Supervisor, name: str, what: tuple[Router, tuple[str, ...]], workers: Sequence[str]) -> str:
    router, arguments = what
    ports = (free_port(), free_port())
    process = supervisor.start(name, [*router.program, *on_loopback(arguments, ports, workers)])
    address = f"http://{LOOPBACK}:{ports[0]}"
    await _ready(process, address, len(workers))
    return address


async def _ready(process: Process, address: str, workers: int) -> None:
    """Wait until it finds so many engines healthy: in this loop, as the engines that it asks answer in it."""
    until = time.monotonic() + _START_SECONDS
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        while await _healthy(session, address) < workers:
            if not process.running:
                raise ProcessFailedError(process, f"ended with code {process.exit_code} before it was ready")
            if time.monotonic() > until:
                raise ProcessFailedError(process, f"did not find its engines within {_START_SECONDS:g} s")
            await asyncio.sleep(_POLL_SECONDS)
    await asyncio.sleep(_SETTLES_SECONDS)


async def _healthy(session: aiohttp.ClientSession, address: str) -> int:
    """How many engines a router would send to; 0 while it does not answer."""
    try:
        async with session.get(f"{address}/readiness") as answer:
            told: dict[str, Any] = await answer.json() if answer.status == _OK else {}
    except (aiohttp.ClientError, TimeoutError):
        return 0
    return int(told.get("healthy_workers", 0))


async def join(session: aiohttp.ClientSession, front: str, worker: str) -> None:
    """Tell a router of one engine more, as its discovery would; raises RuntimeError if it refuses."""
    async with session.post(f"{front}/workers", json={"url": worker}) as answer:
        if answer.status not in _TAKEN:
            raise RuntimeError(f"the router at {front} did not take an engine: HTTP {answer.status}")
