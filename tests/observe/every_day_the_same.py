"""A Prometheus that knows of one kind of day, whichever pool it is asked about."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import parse_qs, urlsplit

import numpy as np

from tests.scaling.test_forecast import busy_from_nine

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY = busy_from_nine()


class EveryDayTheSame(BaseHTTPRequestHandler):
    """Answers range queries, and no others."""

    asked: ClassVar[list[dict[str, str]]] = []
    status: ClassVar[int] = 200

    def do_GET(self) -> None:
        if not self.path.startswith("/api/v1/query_range?"):
            self.send_error(404)
            return
        asked = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        self.asked.append(asked)
        times = np.arange(float(asked["start"]), float(asked["end"]) + 1.0, float(asked["step"]))
        values = [[at, str(DAY[int(at % 86_400.0 // 60.0)])] for at in times.tolist()]
        values[7:9] = [[values[7][0], "NaN"], ["soon", "?"]]
        body = json.dumps({"status": "success", "data": {"result": [{"metric": {}, "values": values}]}}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
        """Nothing is said."""


@contextmanager
def listening() -> Iterator[str]:
    """Its URL while it answers."""
    with HTTPServer(("127.0.0.1", 0), EveryDayTheSame) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
