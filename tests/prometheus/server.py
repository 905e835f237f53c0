"""A real Prometheus that goes away, comes back, forgets everything, or has a clock that is an hour off."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import yaml
from aiohttp import web

from e2e.cluster.ports import free_port
from e2e.cluster.processes import Supervisor
from e2e.cluster.prometheus import START_TIMEOUT_SECONDS, command, is_ready, require_prometheus, scraping
from tests.listening import listening
from tests.prometheus.engines import SCRAPE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

HOUR = 3600.0


class RealPrometheus:
    """A server of its own for one test, always at the same address."""

    def __init__(self, directory: Path) -> None:
        """Nothing runs yet. Raises `PrometheusMissingError` where there is none."""
        require_prometheus()
        self._directory = directory
        self._address = f"127.0.0.1:{free_port()}"
        self._targets = directory / "targets.json"
        self._processes = Supervisor(directory)
        self.url = f"http://{self._address}"
        self.scrape({})

    def scrape(self, addresses: Mapping[str, str]) -> None:
        """From now on it scrapes these pods of the namespace `team`, and no others."""
        groups = [
            {"targets": [address], "labels": {"namespace": "team", "pod": pod}} for pod, address in addresses.items()
        ]
        half = self._targets.with_suffix(".half")
        half.write_text(json.dumps(groups))
        half.replace(self._targets)

    def start(self) -> None:
        """Start it with the data that it has, and wait until it answers."""
        configuration = self._directory / "prometheus.yaml"
        configuration.write_text(yaml.safe_dump(scraping(self._targets, f"{1000.0 * SCRAPE_SECONDS:.0f}ms")))
        process = self._processes.start("prometheus", command(configuration, self._directory, self._address))
        process.wait_until(lambda: is_ready(self.url), START_TIMEOUT_SECONDS)

    def stop(self) -> None:
        """It is away."""
        self._processes["prometheus"].stop()

    def forget(self) -> None:
        """All its data is lost, while it does not run."""
        shutil.rmtree(self._directory / "data", ignore_errors=True)

    def remember(self, pages: Iterable[tuple[float, str, str]]) -> None:
        """Give it a past, while it does not run: pages by epoch second and pod."""
        lines = [_stamped(line, pod, at) for at, pod, text in sorted(pages) for line in text.splitlines()]
        past = self._directory / "past.txt"
        past.write_text("\n".join([*lines, "# EOF\n"]))
        words = ("promtool", "tsdb", "create-blocks-from", "openmetrics", str(past), str(self._directory / "data"))
        subprocess.run(words, check=True, capture_output=True)

    def close(self) -> None:
        """End it for good."""
        self._processes.stop_all()


def _stamped(line: str, pod: str, at: float) -> str:
    series, _, value = line.rpartition(" ")
    name, _, labels = series.partition("{")
    return f'{name}{{namespace="team",pod="{pod}",{labels} {value} {at:.3f}'


class OddClock:
    """The same Prometheus with another clock. `error` seconds have always been between it and the right one.

    `moved` seconds it was set just now: it answers for that moment, with what it scraped before then.
    """

    def __init__(self, url: str) -> None:
        """The clock is right."""
        self._asked = url
        self.error = 0.0
        self.moved = 0.0

    async def answer(self, request: web.Request) -> web.Response:
        """One instant query."""
        words = dict(request.query)
        if self.moved:
            words["time"] = f"{time.time() + self.moved:.3f}"
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{self._asked}/api/v1/query", params=words) as answer,
            ):
                told = await answer.json()
        except aiohttp.ClientError:
            return web.Response(status=502)
        told["data"]["result"] = self._stamped(told["data"]["result"])
        return web.json_response(told, status=answer.status)

    def _stamped(self, result: list[Any]) -> list[Any]:
        if result and not isinstance(result[0], dict):  # time(), an integer in every thousandth answer
            return [result[0] + self.error, str(float(result[1]) + self.error)]
        return [{**series, "values": [[at + self.error, value] for at, value in series["values"]]} for series in result]

    def served(self) -> AbstractAsyncContextManager[str]:
        """Its URL while it listens."""
        return listening("/api/v1/query", self.answer)
