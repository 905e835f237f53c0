"""Liveness fails when a restart would help, and not otherwise."""

from __future__ import annotations

import asyncio
import threading

import aiohttp
import pytest

from weft.control.health import ProbeServer, Pulse, Vitals, first_broken, first_missing
from weft.control.metrics.telemetry import Telemetry

NOW = 10_000.0


def vitals(
    *,
    watched: float = 1000,
    decided: float = 1,
    converged: float = 1,
    watchers: int = 2,
    silent: float = 1,
    synced: bool = True,
) -> Vitals:
    """An operator of some age whose parts were last alive so many seconds ago."""
    pulse = Pulse(NOW - watched, NOW - decided, NOW - converged)
    return Vitals(pulse, lambda: synced, lambda: silent, lambda: watchers, 2)


def test_a_working_operator_is_alive() -> None:
    assert first_broken(vitals(), NOW) is None


@pytest.mark.parametrize(
    ("broken", "claim"),
    [
        (vitals(watchers=1), "every watcher lives"),
        (vitals(decided=500), "the decide loop turns"),
        (vitals(converged=500), "the converge loop turns"),
        (vitals(silent=1000), "the caches hear the API server"),
    ],
    ids=["watcher", "decide", "converge", "cache"],
)
def test_a_part_that_died_is_named(broken: Vitals, claim: str) -> None:
    assert first_broken(broken, NOW) == claim


def test_watchers_that_die_are_left_to_watching_anew() -> None:
    """F14: an API server that answers every watch with 410 ends all of them, again and again, in any process.

    Each time their resources are listed before, so that all goes on. Whom the kubelet restarts each minute waits five
    minutes in the end, and longer than the fault lasts.
    """
    assert first_broken(vitals(watched=600, watchers=0), NOW) is None


def test_an_outage_of_ten_minutes_is_waited_out() -> None:
    """F13: a restart would not bring the API server back."""
    assert first_broken(vitals(silent=600), NOW) is None


@pytest.mark.parametrize(
    ("starting", "claim"),
    [
        (vitals(watched=1, watchers=1), "every watcher lives"),
        (vitals(watched=1, synced=False), "the caches are synced"),
        (vitals(watched=1), None),
    ],
)
def test_an_operator_that_does_not_see_its_resources_is_not_ready(starting: Vitals, claim: str | None) -> None:
    assert first_missing(starting) == claim


class _Long(Telemetry):
    """Its page is made only once `go_on` is set, for which it waits half a minute at most."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = threading.Event(), threading.Event()

    def text(self) -> bytes:
        """Raises an error if nothing went on meanwhile."""
        self.asked.set()
        if not self.go_on.wait(30.0):
            raise TimeoutError
        return super().text()


async def test_probes_are_answered_while_a_long_page_of_metrics_is_made() -> None:
    """Else a page of thousands of pools would hold up everything that the event loop does."""
    telemetry = _Long()
    server = ProbeServer(telemetry)
    server.vitals = vitals()
    port = await server.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            page = asyncio.create_task(_body(session, "/metrics"))
            await asyncio.to_thread(telemetry.asked.wait, 30.0)
            assert "ok\n" == await _body(session, "/readyz")
            telemetry.go_on.set()
            assert "# TYPE weft_pool_gpus gauge" in await page
    finally:
        telemetry.go_on.set()
        await server.stop()


async def test_one_that_stands_by_is_well_and_says_nothing_that_an_alert_could_count() -> None:
    """`WeftDown` is about a snapshot's age that nobody exports, `WeftNotDeciding` about a count that stands still."""
    server = ProbeServer(Telemetry())
    port = await server.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            assert ["ok\n", "ok\n"] == [await _body(session, path) for path in ("/healthz", "/readyz")]
            page = await _body(session, "/metrics")
    finally:
        await server.stop()
    assert ["weft_leader 0.0"] == [line for line in page.splitlines() if not line.startswith("#")]


async def test_one_that_could_not_go_on_for_the_leader_is_not_ready() -> None:
    """Without the Role for the Lease, say: pods that stand by for ever would look as if all were well."""
    server = ProbeServer(Telemetry(), lambda: "the Lease is forbidden")
    port = await server.start("127.0.0.1", 0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session, session.get("/readyz") as answer:
            assert (503, "not yet: the Lease is forbidden\n") == (answer.status, await answer.text())
            assert "ok\n" == await _body(session, "/healthz")
    finally:
        await server.stop()


async def _body(session: aiohttp.ClientSession, path: str) -> str:
    async with session.get(path) as answer:
        assert 200 == answer.status
        return await answer.text()
