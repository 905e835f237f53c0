"""A running operator: all parts put together, started in order, stopped in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from weft import catalog
from weft.apply import EventRecorder, Reporter, Sender, TokenBucket, Writer
from weft.control.collecting import keep_collecting, keep_looking_back
from weft.control.connection import connect
from weft.control.context import Context
from weft.control.converging.converge_loop import ConvergeLoop
from weft.control.converging.view import Viewer
from weft.control.deciding.decide_loop import DecideLoop
from weft.control.health import ProbeServer, Pulse, Vitals
from weft.control.leading import ANSWER_SECONDS, AlwaysLeads, Contender, lease_namespace
from weft.control.logs import set_up_logs
from weft.control.metrics.telemetry import Telemetry
from weft.control.wake import Wake
from weft.control.watches.listing import keep_listing
from weft.control.watches.watching import KopfThread, Watched
from weft.domain.errors import Blocked
from weft.domain.reasons import Reason
from weft.observe.api_server.clock import ClusterClock
from weft.observe.api_server.lookups import ConfigFiles, Priorities
from weft.observe.api_server.pod_logs import PodLogs
from weft.observe.api_server.reading import Reader
from weft.observe.collector import MetricsCollector
from weft.observe.custom_resources.cache import ResourceCache
from weft.observe.informers.cluster import ClusterCache
from weft.observe.snapshot_builder import Sources
from weft.observe.sources.direct import DirectSource
from weft.observe.sources.downloads import Downloads
from weft.observe.sources.past import PastTraffic
from weft.observe.sources.pickers import Pickers
from weft.observe.sources.prometheus import PrometheusSource
from weft.observe.sources.source import PreferredSource

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from kubernetes.client import ApiClient

    from weft.control.leading import Leadership
    from weft.control.options import RunOptions
    from weft.observe.sources.source import MetricsSource

SETTLE_SECONDS = 0.3  # changes close together make one decision
STOP_SECONDS = 2.0
HANGING_THREAD_SECONDS = 0.2
WATCH_CHECK_SECONDS = 5.0
THREADS = 24
CLUSTER_REFUSES = 3  # the exit code that the command line has for it
LED_NO_MORE = "the Lease was not renewed in time, or another operator holds it: this one ends"

log = logging.getLogger(__name__)


class _Own(NamedTuple):
    """What this process has whether it leads or stands by."""

    client: ApiClient
    clock: ClusterClock
    telemetry: Telemetry
    leadership: Leadership


class Operator:
    """One operator. Everything is created in `serve`, so that nothing outlives it."""

    def __init__(self, options: RunOptions) -> None:
        """`port` is set once it serves."""
        self._options = options
        self.port = 0

    async def serve(self, stop: asyncio.Event, client: ApiClient | None = None) -> None:
        """Run until `stop` is set. Raises `Blocked` without usable credentials, or if another operator may lead."""
        client, clock = client or connect(self._options), ClusterClock()
        leadership = self._leadership(client, clock)
        own = _Own(client, clock, Telemetry(), leadership)
        probes = ProbeServer(own.telemetry, leadership.trouble)
        self.port = await probes.start(self._options.host, self._options.port)
        log.info("probes and metrics on port %d", self.port)
        async with contextlib.AsyncExitStack() as exits:
            exits.push_async_callback(probes.stop)
            exits.push_async_callback(leadership.resign)
            if await leadership.lead(stop):
                own.telemetry.leads.set(1)
                await self._work(own, probes, stop)
        if not stop.is_set():
            log.error(LED_NO_MORE)
            raise Blocked(Reason.ApiUnavailable, LED_NO_MORE)

    async def _work(self, own: _Own, probes: ProbeServer, stop: asyncio.Event) -> None:
        """Observe, decide and converge for as long as this process leads, or until `stop` is set."""
        served = ", ".join(self._options.namespaces)
        log.info("serving %s of %s", f"only {served}" if served else "all namespaces", own.client.configuration.host)
        async with contextlib.AsyncExitStack() as exits:
            executor = ThreadPoolExecutor(THREADS, thread_name_prefix="weft")
            exits.callback(executor.shutdown, wait=False, cancel_futures=True)
            writing = ThreadPoolExecutor(self._options.writers, thread_name_prefix="weft-write")
            exits.callback(writing.shutdown, wait=False, cancel_futures=True)
            bucket = TokenBucket(self._options.writes_per_second, self._options.burst_writes)
            exits.callback(bucket.stop)
            wake = Wake(SETTLE_SECONDS)
            wants: list[Callable[[str | None], None]] = []
            sender = Sender(own.client, bucket, own.leadership.may_write)
            context = self._context(own, sender, (executor, writing), lambda uid: _spread(wake, wants, uid))
            exits.push_async_callback(context.collector.close)
            exits.push_async_callback(context.downloads.close)
            converge = ConvergeLoop(context, Viewer(context).view)
            wants.append(converge.want)
            told = partial(_spread, wake, wants, None)
            watched = Watched(own.client, context.resources, self._options.namespaces)
            watching = KopfThread(watched)
            probes.vitals = _vitals(context, watching)
            watching.start()
            exits.callback(watching.stop, STOP_SECONDS)
            context.cluster.start()
            exits.callback(context.cluster.stop, STOP_SECONDS / 2)
            loops = (
                DecideLoop(context, wake).run(),
                converge.run(),
                keep_listing(context, own.client, watched.absent),
                keep_collecting(context, told),
                keep_looking_back(context),
            )
            async with _running(*loops, _measure_lag(context), _keep_watching(watching, context.pulse)):
                await own.leadership.keep(stop)
            log.info("stopping")

    def _leadership(self, client: ApiClient, clock: ClusterClock) -> Leadership:
        if not self._options.leader_elect:
            return AlwaysLeads()
        asking = Sender(client, TokenBucket(), timeout=ANSWER_SECONDS)
        return Contender(asking, lease_namespace(), clock.now)

    def _context(
        self,
        own: _Own,
        sender: Sender,
        executors: tuple[ThreadPoolExecutor, ThreadPoolExecutor],
        changed: Callable[[str | None], None],
    ) -> Context:
        options, (executor, writing) = self._options, executors
        clock, telemetry = own.clock, own.telemetry
        reader = Reader(own.client, clock.hear)
        resources = ResourceCache(changed)
        resources.expect(options.namespaces)
        cluster = ClusterCache(reader, options.namespaces, changed, clock.now)
        return Context(
            options=options,
            catalog=catalog.load(),
            clock=clock,
            cluster=cluster,
            resources=resources,
            sources=Sources(
                cluster, resources, ConfigFiles(reader), Priorities(reader), PodLogs(reader), options.relaxations
            ),
            pickers=Pickers(reader),
            collector=MetricsCollector(_source(options, executor)),
            downloads=Downloads(),
            past=PastTraffic(PrometheusSource(options.prometheus_url, executor) if options.prometheus_url else None),
            writer=Writer(sender, options.namespaces, telemetry.count_write),
            events=EventRecorder(sender, Reporter(options.instance), options.namespaces, telemetry.count_write),
            telemetry=telemetry,
            pulse=Pulse(),
            executor=executor,
            writing=writing,
        )


def _vitals(context: Context, watching: KopfThread) -> Vitals:
    return Vitals(
        context.pulse,
        lambda: context.synced,
        lambda: context.cluster.age_seconds,
        watching.watchers,
        watching.expected_watchers,
    )


def run(options: RunOptions) -> None:
    """Run an operator in this process until SIGTERM or SIGINT; raises what `Operator.serve` does."""
    set_up_logs(as_json=options.json_logs)
    try:
        asyncio.run(_until_signal(options))
    except Blocked:
        _end_if_threads_hang(CLUSTER_REFUSES)
        raise
    _end_if_threads_hang(0)


def _end_if_threads_hang(exit_code: int) -> None:
    """End the process if a request has no answer, for which Python would wait: every write is safe to repeat."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(HANGING_THREAD_SECONDS)
    if threading.active_count() > 1:
        logging.shutdown()
        os._exit(exit_code)


async def _until_signal(options: RunOptions) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await Operator(options).serve(stop)


def _spread(wake: Wake, wants: list[Callable[[str | None], None]], uid: str | None) -> None:
    """Wake the global loop, and the converge loop for the resource that changed."""
    wake.ring()
    for want in wants:
        want(uid)


def _source(options: RunOptions, executor: ThreadPoolExecutor) -> MetricsSource:
    direct = DirectSource()
    if options.prometheus_url is None:
        return direct
    return PreferredSource(PrometheusSource(options.prometheus_url, executor), direct)


async def _measure_lag(context: Context) -> None:
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + 1.0
        await asyncio.sleep(1.0)
        context.telemetry.loop_lag.set(max(0.0, loop.time() - due))


async def _keep_watching(watching: KopfThread, pulse: Pulse) -> None:
    while True:
        await asyncio.sleep(WATCH_CHECK_SECONDS)
        if watching.watchers() >= watching.expected_watchers:
            pulse.watched = time.monotonic()
        watching.restart_if_a_watcher_died()


@contextlib.asynccontextmanager
async def _running(*jobs: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run coroutines in the background; the end of any of them ends the block with its error."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(job) for job in jobs]
        yield
        for task in tasks:
            task.cancel()
