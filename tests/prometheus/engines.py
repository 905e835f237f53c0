"""vLLM as far as its metrics go: pages whose counters grow with time, served where the pod of a replica would be.

A scrape is answered up to its timeout after it began, on a busy machine, and when it began is what Prometheus takes for
the time of its samples: a tenth of what a window of ten scrapes counts. Pages for it say of which time they are.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import socket
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PORT = 8000  # of every vLLM; each engine has a loopback address of its own
PROMETHEUS = "Prometheus/"  # begins its User-Agent
SCRAPE_SECONDS = 0.5
# What a restart loses: half of what is answered from one scrape to the next, and no more because a scrape was late.
LOST_SECONDS = 0.25
INPUT_TOKENS, OUTPUT_TOKENS = 1000.0, 200.0
LATENCY_BUCKETS = (0.002, 0.01, 0.1, 1.0, 100.0)
TOKEN_BUCKETS = (200.0, 1000.0)

_hosts = itertools.count()


@dataclass(frozen=True, slots=True)
class Load:
    """Requests per second, seconds to the first token and from each to the next, and the part of KV memory in use."""

    rate: float
    ttft: float = 0.06
    tpot: float = 0.006
    kv_usage: float = 0.0

    @property
    def inside(self) -> float:
        """Requests inside on average, by Little's law."""
        return self.rate * (self.ttft + self.tpot * OUTPUT_TOKENS)


def page(load: Load, answered: float, seconds_are: float = 1.0) -> str:
    """The page of an engine that has answered so many requests; `seconds_are` is in which unit it tells latencies."""
    histograms = (
        ("time_to_first_token_seconds", load.ttft * seconds_are, LATENCY_BUCKETS),
        ("request_time_per_output_token_seconds", load.tpot * seconds_are, LATENCY_BUCKETS),
        ("request_prompt_tokens", INPUT_TOKENS, TOKEN_BUCKETS),
        ("request_prefill_kv_computed_tokens", INPUT_TOKENS, TOKEN_BUCKETS),
        ("request_generation_tokens", OUTPUT_TOKENS, TOKEN_BUCKETS),
    )
    lines = [
        _line("num_requests_running", load.inside),
        _line("num_requests_waiting", 0.0),
        _line("num_requests_waiting_by_reason", 0.0, reason="capacity"),
        _line("num_requests_waiting_by_reason", 0.0, reason="deferred"),
        _line("kv_cache_usage_perc", load.kv_usage),
        _line("request_success_total", answered, finished_reason="stop"),
        _line("prefix_cache_queries_total", answered * INPUT_TOKENS),
        _line("prefix_cache_hits_total", 0.0),
    ]
    for name, each, bounds in histograms:
        lines += _histogram(name, each, bounds, answered)
    return "\n".join(lines) + "\n"


def _histogram(name: str, each: float, bounds: tuple[float, ...], count: float) -> Iterator[str]:
    """A histogram of so many observations, all alike."""
    for bound in (*bounds, math.inf):
        yield _line(f"{name}_bucket", count if each <= bound else 0.0, le=f"{bound:g}".replace("inf", "+Inf"))
    yield _line(f"{name}_sum", count * each)
    yield _line(f"{name}_count", count)


def _line(name: str, value: float, **labels: str) -> str:
    told = ",".join(f'{key}="{text}"' for key, text in {"model_name": "m", "engine": "0", **labels}.items())
    return f"vllm:{name}{{{told}}} {value!r}"


class Counter:
    """Requests answered as one asker sees them: by the asker's own clock alone, however late it is answered."""

    def __init__(self, clock: Callable[[], float], rate: float) -> None:
        """So many requests a second are answered from now on."""
        self._clock, self._rate = clock, rate
        self._answered, self._since = 0.0, clock()
        self._asked = self._since

    def give(self, rate: float) -> None:
        """So many a second are answered from now on."""
        now = self._clock()
        self._answered, self._since, self._rate = self._until(now), now, rate

    def restart(self) -> None:
        """Count from zero, without `LOST_SECONDS` after the asker last asked."""
        self._answered, self._since = 0.0, self._asked + LOST_SECONDS

    def ask(self) -> tuple[float, float]:
        """Seconds on the asker's clock, and the count at that time."""
        self._asked = self._clock()
        return self._asked, max(0.0, self._until(self._asked))

    def _until(self, now: float) -> float:
        return self._answered + self._rate * (now - self._since)


class ScriptedEngine:
    """One engine behind HTTP. `broken` answers 500, `heeds` names who is let in by the start of its User-Agent."""

    def __init__(self, load: Load, clock: Callable[[], float]) -> None:
        """It serves from now on. `clock` is the operator's."""
        self._load = load
        self._for_prometheus, self._for_operator = Counter(_half_seconds, load.rate), Counter(clock, load.rate)
        self._lock = threading.Lock()
        self.broken = False
        self.heeds = ""
        self.seconds_are = 1.0
        self._server = _listening(self)
        self.host = str(self._server.server_address[0])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def give(self, load: Load) -> None:
        """From now on it has this load."""
        with self._lock:
            self._load = load
            for counter in (self._for_prometheus, self._for_operator):
                counter.give(load.rate)

    def restart(self) -> None:
        """It counts from zero."""
        with self._lock:
            for counter in (self._for_prometheus, self._for_operator):
                counter.restart()

    def answer(self, agent: str) -> tuple[int, str]:
        """Status and body of one scrape. Prometheus is told the time, which it takes for the sample's."""
        if self.broken or not agent.startswith(self.heeds):
            return 500, "engine is dead"
        with self._lock:
            if not agent.startswith(PROMETHEUS):
                return 200, page(self._load, self._for_operator.ask()[1], self.seconds_are)
            at, answered = self._for_prometheus.ask()
            text = page(self._load, answered, self.seconds_are)
        return 200, "".join(f"{line} {1000.0 * at:.0f}\n" for line in text.splitlines())

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        """Return the running engine."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()


def _half_seconds() -> float:
    """Epoch seconds, as if all scrapes were in time: a late one just before the next would be a window of its own."""
    return math.floor(time.time() / SCRAPE_SECONDS) * SCRAPE_SECONDS


def _hung_up(connection: socket.socket) -> bool:
    """Whether who asked waits no longer: what is answered now, nobody hears, and it would count as told."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def _listening(engine: ScriptedEngine) -> ThreadingHTTPServer:
    """A server on the next loopback address whose port is free."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if _hung_up(self.connection):
                return
            status, body = engine.answer(self.headers.get("User-Agent", ""))
            with contextlib.suppress(ConnectionError):  # who is told of an error may not wait for the rest
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None:
            """Scrapes are no news."""

    for _ in range(100):
        number = next(_hosts)
        host = f"127.{64 + os.getpid() % 128}.{number // 250 % 250}.{1 + number % 250}"
        with contextlib.suppress(OSError):
            return ThreadingHTTPServer((host, PORT), Handler)
    raise AssertionError(f"port {PORT} of every loopback address is taken")
