"""What is around a front in its tests: an API server's pods, and engines that count what they are asked."""

from __future__ import annotations

import json
import queue
import threading
import urllib.parse
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]


def pod(name: str, address: str, labels: dict[str, str], *, ready: bool = True) -> Json:
    """A pod as the API server has it, as far as a front looks."""
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return {
        "metadata": {"name": name, "labels": labels},
        "status": {"podIP": address, "conditions": conditions},
    }


class Quick(ThreadingHTTPServer):
    """One that asks nobody for its own name, which takes a second where there is no DNS."""

    server_bind = TCPServer.server_bind
    server_name, server_port = "localhost", 0


class PodsOfACluster(Quick):
    """Lists and watches pods by label; what no longer matches is told as deleted, as the real one does."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.lock = threading.Lock()
        self.pods: dict[str, Json] = {}
        self.watches: list[tuple[str, queue.Queue[Json]]] = []

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[PodsOfACluster]:
        """It answers until the end of the block."""
        with cls() as found:
            threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
            yield found
            found.shutdown()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def put(self, body: Json) -> None:
        """Add or change a pod."""
        name = body["metadata"]["name"]
        with self.lock:
            before, self.pods[name] = self.pods.get(name), body
            self._tell(before, body)

    def remove(self, name: str) -> None:
        with self.lock:
            self._tell(self.pods.pop(name), None)

    def _tell(self, before: Json | None, after: Json | None) -> None:
        for selector, events in self.watches:
            was, now = (body is not None and matches(body, selector) for body in (before, after))
            if now:
                events.put({"type": "MODIFIED" if was else "ADDED", "object": after})
            elif was:
                events.put({"type": "DELETED", "object": before})

    def listed(self, selector: str) -> list[Json]:
        with self.lock:
            return [body for body in self.pods.values() if matches(body, selector)]

    def watched(self, selector: str) -> queue.Queue[Json]:
        """Events from now on; whoever comes first is told all that is there, as between a list and a watch."""
        events: queue.Queue[Json] = queue.Queue()
        with self.lock:
            self.watches.append((selector, events))
            for body in self.pods.values():
                if matches(body, selector):
                    events.put({"type": "MODIFIED", "object": body})
        return events


def matches(body: Json, selector: str) -> bool:
    """Whether a pod has all labels of `key=value,...`."""
    wanted = dict(part.split("=") for part in selector.split(","))
    labels: dict[str, str] = body["metadata"]["labels"]
    return wanted.items() <= labels.items()


class _Answer(BaseHTTPRequestHandler):
    server: PodsOfACluster

    def do_GET(self) -> None:
        where = urllib.parse.urlsplit(self.path)
        asked = dict(urllib.parse.parse_qsl(where.query))
        known = where.path == "/api/v1/namespaces/team/pods"
        self.send_response(200 if known else 404)
        self.end_headers()
        selector = asked["labelSelector"]
        if "watch" not in asked:
            listed = {"metadata": {"resourceVersion": "1"}, "items": self.server.listed(selector)}
            self.wfile.write(json.dumps(listed).encode())
            return
        events = self.server.watched(selector)
        with suppress(queue.Empty, OSError):
            while True:
                self.wfile.write(json.dumps(events.get(timeout=float(asked["timeoutSeconds"]))).encode() + b"\n")
                self.wfile.flush()

    def log_message(self, *_: Any) -> None:  # noqa: ANN401 - as in http.server
        """Nobody reads who asked."""


class Engine(Quick):
    """A server of one half: keeps connections unless it is asked not to, and can hold its answers back."""

    daemon_threads = True
    allow_reuse_address = True
    connections = 0
    requests = 0

    @classmethod
    def at(cls, address: str, port: int) -> Engine:
        found = cls((address, port), _Served)
        found.may_end = threading.Event()
        found.may_end.set()
        threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
        return found

    may_end: threading.Event

    def hold(self) -> None:
        """Answers begin, and do not end."""
        self.may_end.clear()

    def release(self) -> None:
        self.may_end.set()

    def stop(self) -> None:
        """Take no connections any more."""
        self.may_end.set()
        self.shutdown()
        self.server_close()


class _Served(BaseHTTPRequestHandler):
    server: Engine
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        self._answer(b"{}")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.requests += 1
        self.send_response(200)
        self.send_header("Content-Length", "10")
        self.end_headers()
        self.wfile.write(b"begin\n")
        self.wfile.flush()
        self.server.may_end.wait(20)
        self.wfile.write(b"end\n")

    def _answer(self, text: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:  # noqa: ANN401 - as in http.server
        """Nobody reads who asked."""
