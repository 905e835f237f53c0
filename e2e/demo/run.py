"""The demo: a real control plane, simulated GPU nodes, the real operator, and four minutes of traffic."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from e2e.cluster import build, simulated_nodes
from e2e.cluster.control_plane import ControlPlane, ControlPlaneOptions
from e2e.demo import scenario
from e2e.demo.figures import Figures, peak_resident_bytes
from e2e.demo.sampling import new_events, reported_pools, take_sample
from e2e.demo.screen import clock as minutes
from e2e.demo.timeline import Timeline
from e2e.demo.world import WorldReader
from e2e.operator_process import REPOSITORY, OperatorProcess, install, kubectl
from weft.api.parsing import parse_pool
from weft.catalog import load
from weft.twin.engine.modelled import engine_speed
from weft.twin.live.fleet import LivePod, SimulatedFleet
from weft.twin.live.server import ENGINE_PORT, EngineServers

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.demo.screen import Screen
    from e2e.demo.world import World
    from weft.twin.engine.speed import EngineSpeed

STEP_SECONDS = 0.05
LOOK_SECONDS = 1.0
ALL_READY_WITHIN_SECONDS = 90.0
OPERATOR_OPTIONS = ("--tick", "1", "--metrics-interval", "2")
SEED = 7
UNUSED_LOOPBACK = "127.255.255.254"  # what listens there listens on every address


class PortTakenError(RuntimeError):
    """Simulated engines could not answer on the addresses of their pods."""


@dataclass(slots=True)
class Demo:
    """One run, `begun` at that monotonic time; traffic time starts at zero when the pools are Ready."""

    cluster: ControlPlane
    operator: OperatorProcess
    screen: Screen
    begun: float
    fleet: SimulatedFleet = field(default_factory=lambda: SimulatedFleet(scenario.STREAMS, Random(SEED)))
    servers: EngineServers = field(default_factory=EngineServers)
    timeline: Timeline = field(default_factory=Timeline)
    applied: float = field(default_factory=time.monotonic)
    first_ready: float | None = None  # monotonic, as the two above
    _seen: set[str] = field(default_factory=set)
    _speeds: dict[str, EngineSpeed] = field(default_factory=dict)
    _failed_tray: str | None = None

    async def run(self) -> None:
        """Wait for the pools, then drive traffic to the end."""
        try:
            with self.cluster.api_client() as api:
                reader = WorldReader(api)
                world = await self._wait_until_ready(reader)
                await self._drive(reader, world)
        finally:
            await self.servers.stop_all()

    async def _wait_until_ready(self, reader: WorldReader) -> World:
        """Return when every resource is Ready, or after a while with what there is."""
        while True:
            world = await asyncio.to_thread(reader.look)
            ready = self._note_pools(world)
            now = time.monotonic()
            waited = now - self.applied
            if ready and self.first_ready is None:
                self.first_ready = now
                self.screen.say(f"first pool Ready {waited:.0f} s after it was applied")
            if len(ready) == len(scenario.STREAMS) or waited > ALL_READY_WITHIN_SECONDS:
                return world
            await asyncio.sleep(LOOK_SECONDS / 2)

    def _note_pools(self, world: World) -> set[str]:
        """Keep for the report what the pools look like; answers with the names of those that are Ready."""
        names = [stream.name for stream in scenario.STREAMS]
        ready = {name for name in names if world.condition(name, "Ready").get("status") == "True"}
        self.timeline.pools = reported_pools(world)
        self.timeline.became_ready |= ready
        return ready

    async def _drive(self, reader: WorldReader, world: World) -> None:
        start = time.monotonic()
        clock, looked = 0.0, -LOOK_SECONDS
        look: asyncio.Task[World] | None = None
        while clock < scenario.RUN_SECONDS:
            if look is not None and look.done():
                world = look.result()
                look = None
                await self._take_in(clock, world)
            if look is None and clock - looked >= LOOK_SECONDS:
                looked = clock
                look = asyncio.create_task(asyncio.to_thread(reader.look))
            now = time.monotonic() - start
            while clock + STEP_SECONDS <= now:
                clock += STEP_SECONDS
                self.fleet.advance(clock, STEP_SECONDS)
            await self._play_faults(clock, world)
            await asyncio.sleep(STEP_SECONDS / 2)
        if look is not None:
            with contextlib.suppress(Exception):
                await look

    async def _take_in(self, clock: float, world: World) -> None:
        started, ended = self.fleet.sync(self._simulated_pods(world))
        for live in ended:
            await self.servers.stop(live.pod.uid)
        for live in started:
            await self.servers.start(live)
        self._note_pools(world)
        self.timeline.events += new_events(clock, world, self._seen)
        take_sample(clock, world, self.fleet, self.timeline)
        self.screen.show(self.timeline)

    def _simulated_pods(self, world: World) -> list[LivePod]:
        """Leader pods that are ready; one that is terminating goes on until it is gone, but gets nothing new."""
        pods = []
        for engine in world.engines:
            record, speed = engine.record, self._speed(world, engine.pool)
            leads = record.identity is not None and record.identity.rank == 0
            if leads and record.ready and record.ip and speed is not None:
                routed = record.routed and not record.terminating
                pods.append(LivePod(record.uid, record.ip, engine.pool, speed, routed))
        return pods

    def _speed(self, world: World, pool: str) -> EngineSpeed | None:
        """The speed that the plan predicts: the simulation is as fast as the model says."""
        plan = parse_pool(world.pools[pool]).status.plan if pool in world.pools else None
        spec = parse_pool(world.pools[pool]).spec if pool in world.pools else None
        if plan is None or spec is None:
            return None
        key = f"{pool}: {plan.shape}"
        if key not in self._speeds:
            self._speeds[key] = engine_speed(plan, spec, load())
        return self._speeds[key]

    async def _play_faults(self, clock: float, world: World) -> None:
        if self._failed_tray is None and clock >= scenario.TRAY_FAILS_AT:
            self._failed_tray = _busy_tray(world)
            self.timeline.marks.append({"t": clock})
            self._tell(clock, "fabric", "TrayFails", f"{self._failed_tray} stops answering")
            await asyncio.to_thread(simulated_nodes.silence_node, self.cluster, self._failed_tray)
        elif self._failed_tray and self._failed_tray != "back" and clock >= scenario.TRAY_RETURNS_AT:
            tray, self._failed_tray = self._failed_tray, "back"
            self.timeline.marks.append({"t": clock})
            self._tell(clock, "fabric", "TrayReturns", f"{tray} answers again")
            await asyncio.to_thread(simulated_nodes.recover_node, self.cluster, tray)

    def _tell(self, clock: float, what: str, reason: str, message: str) -> None:
        self.timeline.events.append({"t": round(clock, 1), "what": what, "reason": reason, "message": message})


def _busy_tray(world: World) -> str:
    """A tray of the rack that serves something, or any tray."""
    held = {pod.record.node for pod in world.engines}
    trays = [node.name for domain in world.fabric.domains if len(domain.nodes) > 1 for node in domain.nodes]
    return next((name for name in trays if name in held), trays[0])


def require_engine_port(port: int = ENGINE_PORT) -> None:
    """Raise PortTakenError where something listens on the engines' port on all addresses of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the servers of the engines do
        try:
            probe.bind((UNUSED_LOOPBACK, port))
        except OSError as taken:
            raise PortTakenError(
                f"something on this machine listens on port {port} of all addresses, where the simulated engines "
                f"are to answer: end it (`ss -ltnp 'sport = :{port}'` names it) and try again"
            ) from taken


def run_demo(screen: Screen, report: Path, figures: Path) -> Timeline:
    """Everything from nothing to the report and the figures; leaves no process behind."""
    build.ensure((*ControlPlaneOptions().binaries, "kubectl", simulated_nodes.PROCESS))
    require_engine_port()
    begun = time.monotonic()
    screen.say("starting etcd, kube-apiserver, controller manager and scheduler")
    with ControlPlane.start(options=ControlPlaneOptions(node_monitor_grace_seconds=10)) as cluster:
        nodes = scenario.nodes()
        screen.say(f"adding {scenario.FABRIC_WORDS}")
        simulated_nodes.add_nodes(cluster, nodes)
        install(cluster)
        operator = OperatorProcess.start(cluster, OPERATOR_OPTIONS)
        screen.say(f"control plane, {len(nodes)} nodes and operator up after {time.monotonic() - begun:.0f} s")
        kubectl(cluster, "create", "namespace", scenario.NAMESPACE)
        kubectl(cluster, "apply", "-n", scenario.NAMESPACE, "-k", REPOSITORY / "manifests" / "router")
        kubectl(cluster, "apply", "-n", scenario.NAMESPACE, "-f", scenario.POOLS_FILE)
        demo = Demo(cluster, operator, screen, begun)
        screen.say(f"waiting until {', '.join(stream.name for stream in scenario.STREAMS)} are Ready")
        with screen:
            asyncio.run(demo.run())
        measured = _figures(demo)
        measured.write(figures)
        _write_report(demo.timeline, measured, report)
    return demo.timeline


def _figures(demo: Demo) -> Figures:
    def since(start: float, end: float | None) -> float | None:
        return round(end - start, 1) if end is not None else None

    return Figures(
        seconds=round(time.monotonic() - demo.begun, 1),
        first_ready_seconds=since(demo.begun, demo.first_ready),
        first_ready_after_apply_seconds=since(demo.applied, demo.first_ready),
        operator_peak_resident_bytes=peak_resident_bytes(demo.operator.process.pid),
        attainment={pool.name: demo.timeline.attainment(pool) for pool in demo.timeline.pools},
    )


def _write_report(timeline: Timeline, figures: Figures, report: Path) -> None:
    timeline.lead = (
        f"{scenario.FABRIC_WORDS}, simulated, under a real control plane; {scenario.RUN_SECONDS:.0f} s of traffic, "
        f"{figures.seconds:.0f} s in all. Times are minutes:seconds since traffic began. A tray fails at "
        f"{minutes(scenario.TRAY_FAILS_AT)} and returns at {minutes(scenario.TRAY_RETURNS_AT)}."
    )
    timeline.tiles = figures.tiles()
    report.parent.mkdir(parents=True, exist_ok=True)
    timeline.write(report)
