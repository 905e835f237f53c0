"""TensorRT-LLM's front of a pair: which pods its server reaches through Weft's doors, and when it is ready."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pytest

from e2e.cluster.ports import free_port
from tests.engines.front_world import Engine, PodsOfACluster, pod
from tests.eventually import eventually
from weft.catalog import front_program
from weft.domain.shape import EngineName
from weft.domain.spec import RouterSpec
from weft.engines import FRONTS, MARGIN_SECONDS, FrontRequest, adapter_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PREFILL, DECODE = {"half": "p", "pair": "now", "routed": "true"}, {"half": "d", "pair": "now", "routed": "true"}

# What `trtllm-serve disaggregated` does with a list of servers, as openai_disagg_server.py, openai_disagg_service.py
# and openai_client.py of TensorRT-LLM have it in each state that was read (ADR 0054): it waits until each listed server
# answers /health, then listens, asks the context server without a stream and the generation server after it, keeps
# connections for the next request (`force_close=False`), answers 500 where one of them refuses, and at SIGTERM
# finishes what it has (uvicorn).
SERVER = """#!/usr/bin/env python3
import http.client, http.server, json, os, signal, socketserver, sys, threading, time
assert sys.argv[1:3] == ["disaggregated", "-c"], sys.argv
config = json.load(open(sys.argv[3]))
with open(os.environ["NOTES"], "w") as notes:
    json.dump(config, notes)
halves = [config[half]["urls"] for half in ("context_servers", "generation_servers")]
assert [len(urls) for urls in halves] == [config["context_servers"]["num_instances"], 1]
kept, lock = {}, threading.Lock()
def asked(url, method, path):
    with lock:
        wire = kept.pop(url, None) or http.client.HTTPConnection(url)
    wire.request(method, path, body=b"{}" if method == "POST" else None)
    answer = wire.getresponse()
    return wire, answer
def is_up(url):
    try:
        return asked(url, "GET", "/health")[1].status == 200
    except OSError:
        return False
while not all(is_up(url) for urls in halves for url in urls):
    time.sleep(0.05)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        wire, answer = asked(halves[0][0], "POST", self.path)
        said = answer.read()
        if answer.status == 200:
            with lock:
                kept[halves[0][0]] = wire
            wire, answer = asked(halves[1][0], "POST", self.path)
        self.send_response(200 if answer.status == 200 else 500)
        self.end_headers()
        while some := answer.read1():
            self.wfile.write(some)
            self.wfile.flush()
    def log_message(self, *_): pass
class Server(http.server.ThreadingHTTPServer):
    server_bind = socketserver.TCPServer.server_bind
    daemon_threads = False  # whoever closes it waits for what is open
server = Server((config["hostname"], config["port"]), Handler)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
server.server_close()
"""


@dataclass
class World:
    """The program as it runs in the pod of a front, a cluster whose pods it watches, and engines behind addresses."""

    folder: Path
    cluster: PodsOfACluster
    ports: list[int]
    engines: dict[str, Engine] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def add(self, name: str, address: str, labels: dict[str, str], *, ready: bool = True) -> Engine:
        self.engines[name] = Engine.at(address, self.ports[4])
        self.cluster.put(pod(name, address, labels, ready=ready))
        return self.engines[name]

    def start(self) -> None:
        env = {
            **os.environ,
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "NOTES": str(self.folder / "notes"),
            "TMPDIR": str(self.folder),
            "POD_IP": "10.1.2.77",
        }
        selectors = (",".join(f"{k}={v}" for k, v in half.items()) for half in (PREFILL, DECODE))
        program = [sys.executable, str(self.folder / "front.py"), self.cluster.url, "team", *selectors]
        self.process = subprocess.Popen([*program, str(self.ports[4])], env=env, start_new_session=True)

    def told(self, path: str) -> tuple[int, str]:
        wire = http.client.HTTPConnection("127.0.0.1", self.ports[1], timeout=5)
        try:
            wire.request("GET", path)
            answer = wire.getresponse()
        except OSError as error:
            raise AssertionError(error) from error
        return answer.status, answer.read().decode()

    def is_ready(self, status: int = 200, words: str = "") -> None:
        found, said = self.told("/readiness")
        assert (found, words in said) == (status, True), said

    def ask(self) -> http.client.HTTPResponse:
        wire = http.client.HTTPConnection("127.0.0.1", self.ports[0], timeout=20)
        wire.request("POST", "/v1/completions", body=b"{}")
        return wire.getresponse()

    def asks(self) -> int:
        answer = self.ask()
        answer.read()
        return answer.status

    def through(self, half: int, method: str, path: str) -> int:
        """What a door itself answers."""
        wire = http.client.HTTPConnection("127.0.0.1", self.ports[2 + half], timeout=5)
        wire.request(method, path, body=b"{}" if method == "POST" else None)
        return wire.getresponse().status

    def counted(self) -> int:
        (line,) = [line for line in self.told("/metrics")[1].splitlines() if not line.startswith("#")]
        name, count = line.split()
        assert name in FRONTS.names
        return int(count)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    ports = [free_port() for _ in range(5)]
    text = front_program()
    for fixed, free in (
        ("FRONT_PORT, STATUS_PORT = 8000, 29000", f"FRONT_PORT, STATUS_PORT = {ports[0]}, {ports[1]}"),
        ("DOOR_PORTS = (8101, 8102)", f"DOOR_PORTS = ({ports[2]}, {ports[3]})"),
    ):
        assert fixed in text
        text = text.replace(fixed, free)
    (tmp_path / "front.py").write_text(text)
    (tmp_path / "trtllm-serve").write_text(SERVER)
    (tmp_path / "trtllm-serve").chmod(0o755)
    with PodsOfACluster.running() as cluster:
        found = World(tmp_path, cluster, ports)
        yield found
        for engine in found.engines.values():
            engine.stop()
        if found.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(found.process.pid, signal.SIGKILL)  # its own session, so nobody else's
            found.process.communicate()


@pytest.fixture
def pair(world: World) -> World:
    """Two prefill pods and a decode pod that serve."""
    world.add("p-0", "127.0.0.2", PREFILL)
    world.add("p-1", "127.0.0.3", PREFILL)
    world.add("d-0", "127.0.0.4", DECODE)
    world.start()
    eventually(world.is_ready)
    return world


def test_requests_are_spread_over_pods_though_the_server_keeps_its_connections(pair: World) -> None:
    assert [pair.asks() for _ in range(6)] == [200] * 6
    assert [pair.engines[name].requests for name in ("p-0", "p-1", "d-0")] == [3, 3, 6]


def test_a_pod_that_loses_its_label_gets_no_more_requests_and_finishes_its_stream(pair: World) -> None:
    pair.add("d-1", "127.0.0.5", DECODE)
    pair.engines["d-0"].hold()
    pair.engines["d-1"].hold()
    streams: list[http.client.HTTPResponse] = []
    eventually(partial(has_asked_both, pair, streams))
    first = pair.engines["d-0"].requests
    pair.cluster.put(pod("d-0", "127.0.0.4", {**DECODE, "routed": "false"}))
    pair.engines["d-1"].release()

    def only_the_other_is_asked() -> None:
        before = pair.engines["d-0"].requests, pair.engines["d-1"].requests
        assert pair.asks() == 200
        assert (pair.engines["d-0"].requests, pair.engines["d-1"].requests) == (before[0], before[1] + 1)

    eventually(only_the_other_is_asked)
    pair.engines["d-1"].hold()
    busy = [pair.ask() for _ in range(len(streams) + 2)]  # more than the first one has
    assert pair.engines["d-0"].requests == first
    pair.engines["d-1"].release()
    assert all(stream.read().endswith(b"end\n") for stream in busy)
    pair.engines["d-0"].release()
    assert all(stream.read().endswith(b"end\n") for stream in streams)


def has_asked_both(world: World, streams: list[http.client.HTTPResponse]) -> None:
    streams.append(world.ask())
    assert world.engines["d-0"].requests > 0
    assert world.engines["d-1"].requests > 0


def test_a_front_of_half_a_pair_is_not_ready_and_asks_nobody(pair: World) -> None:
    pair.cluster.remove("d-0")
    eventually(partial(pair.is_ready, 503, "no decode server is ready"))
    asked = pair.engines["p-0"].requests, pair.engines["p-1"].requests
    assert pair.asks() == 500
    assert (pair.engines["p-0"].requests, pair.engines["p-1"].requests) == asked
    pair.cluster.put(pod("d-0", "127.0.0.4", DECODE))
    eventually(pair.is_ready)
    assert pair.asks() == 200


def test_a_server_does_not_listen_before_both_halves_are_there(world: World) -> None:
    world.add("p-0", "127.0.0.2", PREFILL)
    world.start()
    eventually(partial(world.is_ready, 503, "no decode server is ready"))
    assert [world.through(half, "GET", "/health") for half in (0, 1)] == [503, 503], "what a server waits for"
    world.add("d-0", "127.0.0.4", DECODE)
    eventually(world.is_ready)
    assert world.asks() == 200


@pytest.mark.parametrize(
    ("labels", "ready"),
    [({**DECODE, "pair": "before"}, True), ({**DECODE, "routed": "false"}, True), (DECODE, False)],
)
def test_pods_of_another_generation_or_out_of_service_are_never_asked(
    pair: World, labels: dict[str, str], *, ready: bool
) -> None:
    other = pair.add("d-9", "127.0.0.9", labels, ready=ready)
    pair.add("d-1", "127.0.0.5", DECODE)

    def is_known() -> None:
        assert pair.asks() == 200
        assert pair.engines["d-1"].requests > 0

    eventually(is_known)  # and so is all that came before it
    assert [pair.asks() for _ in range(4)] == [200] * 4
    assert other.connections == 0


def test_a_pod_that_takes_no_connections_is_passed_over(pair: World) -> None:
    pair.engines["p-0"].stop()
    assert [pair.asks() for _ in range(4)] == [200] * 4
    assert pair.engines["p-1"].requests == 4


def test_each_request_counts_once_whether_or_not_there_is_a_pair(pair: World) -> None:
    assert pair.counted() == 0
    assert pair.asks() == 200
    assert pair.counted() == 1
    pair.cluster.remove("d-0")
    eventually(partial(pair.is_ready, 503))
    assert pair.asks() == 500
    assert pair.counted() == 2


def test_clocks_of_many_servers_are_not_set_as_those_of_one(pair: World) -> None:
    """The server would ask one pod for its clock and set that of another."""
    assert pair.through(0, "GET", "/steady_clock_offset") == 404
    assert pair.through(1, "POST", "/steady_clock_offset") == 404
    assert pair.through(1, "GET", "/server_info") == 200


def test_a_front_that_is_told_to_go_finishes_its_streams(pair: World) -> None:
    pair.engines["d-0"].hold()
    stream = pair.ask()
    assert pair.process is not None
    pair.process.send_signal(signal.SIGTERM)
    threading.Timer(1.0, pair.engines["d-0"].release).start()
    assert stream.read().endswith(b"end\n")
    assert pair.process.wait(timeout=20) == 0


def test_the_server_is_given_the_doors_and_nothing_else(pair: World) -> None:
    settings = json.loads((pair.folder / "notes").read_text())
    doors = [settings[half]["urls"] for half in ("context_servers", "generation_servers")]
    assert doors == [[f"127.0.0.1:{pair.ports[2]}"], [f"127.0.0.1:{pair.ports[3]}"]]
    assert "disagg_cluster" not in settings  # with which anybody could register a server
    assert (settings["node_id"], settings["max_retries"]) == (77, 0)


def test_doors_are_open_to_nobody_but_the_server(pair: World) -> None:
    for port in pair.ports[2:4]:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.8", port), timeout=5)


def test_the_front_of_a_pair_selects_both_halves_and_carries_its_program() -> None:
    request = FrontRequest("team", RouterSpec(), (("a", "1"), ("pair", "x")), (("b", "2"), ("pair", "x")), 60)
    made = adapter_for(EngineName.TensorRTLLM).front(request)
    path, api, *said = made.command[1:]
    assert (path, api) == ("/etc/engine/pair_front.py", "https://kubernetes.default.svc")
    assert said == ["team", "a=1,pair=x", "b=2,pair=x", "8000"]
    assert [(file.path, file.text) for file in made.files] == [(path, front_program())]
    assert made.readiness is not None
    assert (made.readiness.path, made.readiness.port) == ("/readiness", FRONTS.port)
    assert made.grace_seconds == made.pre_stop_seconds + 60 + MARGIN_SECONDS
