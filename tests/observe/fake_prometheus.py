"""A Prometheus server as far as Weft asks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from tests.listening import listening

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from weft.observe.samples.history import SeriesKey

    Scrape = tuple[float, str, dict[SeriesKey, float]]


class FakePrometheus:
    """Prometheus' query endpoint over a list of scrapes: raw samples of the window, and its own clock."""

    def __init__(self, scrapes: list[Scrape]) -> None:
        self.scrapes = scrapes
        self.queries: list[str] = []
        self.status = 200

    async def answer(self, request: web.Request) -> web.Response:
        """One instant query."""
        query = request.query["query"]
        self.queries.append(query)
        now = max(at for at, *_ in self.scrapes)
        result: object = [now, str(now)]
        if query != "time()":
            result = self._matrix()
        return web.json_response({"status": "success", "data": {"result": result}}, status=self.status)

    def _matrix(self) -> list[object]:
        lines: dict[tuple[str, SeriesKey], list[list[object]]] = {}
        for at, uid, values in self.scrapes:
            for key, value in values.items():
                lines.setdefault((uid, key), []).append([at, str(value)])
        return [
            {
                "metric": {"__name__": key[0], **dict(key[1]), "namespace": "team", "pod": f"pod-{uid}", "job": "x"},
                "values": values,
            }
            for (uid, key), values in lines.items()
        ]

    def served(self) -> AbstractAsyncContextManager[str]:
        """Its URL while it listens."""
        return listening("/api/v1/query", self.answer)
