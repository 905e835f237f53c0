"""Run TensorRT-LLM's disaggregated server before the replicas of one generation of a split.

The front's only program, in the engine's image: Python 3.10 or later, nothing but its library. Arguments: the URL of
the API server, the namespace, the selectors of prefill and of decode pods (`key=value,...`), the engines' port.

The server knows one prefill and one decode server, which are two doors of this program on loopback. Behind a door are
the pods that its selector chooses and that are Ready, as the API server tells; each request goes to the one with the
fewest. A pod that loses its label gets no more of them, and its streams go on. While a half has no pod, both doors
refuse. Port 29000 tells whether both halves and the server answer (`/readiness`), and how many requests came.
"""

from __future__ import annotations

import asyncio
import ctypes
import ipaddress
import json
import os
import signal
import ssl
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

FRONT_PORT, STATUS_PORT = 8000, 29000
DOOR_PORTS = (8101, 8102)  # of prefill and decode, on loopback
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LOOPBACK = "127.0.0.1"
LONGEST_HEAD = 1 << 18
WATCH_SECONDS, PAUSE_SECONDS, DIAL_SECONDS, ANSWER_SECONDS = 30, 1.0, 2.0, 4.0
FOR_EVER = str(7 * 24 * 3600)  # streams end when they end, and halves start when they start
# Where NVIDIA's images have a driver's library for nodes without one; no GPU is used here, but it is loaded.
DRIVERS = "/usr/local/cuda/compat/lib.real:/usr/local/cuda/compat"


@dataclass
class Half:
    """One side of the pair: addresses of its pods that may be chosen, by name, and the requests open at each."""

    selector: str
    pods: dict[str, str] = field(default_factory=dict)
    open: dict[str, int] = field(default_factory=dict)
    turn: int = 0

    def seen(self, pod: dict[str, Any], *, gone: bool = False) -> None:
        """Heed what the API server says of one pod."""
        name = pod["metadata"]["name"]
        known = {other: address for other, address in self.pods.items() if other != name}
        self.pods = known if gone or not may_be_chosen(pod) else {**known, name: pod["status"]["podIP"]}

    def all_seen(self, pods: list[dict[str, Any]]) -> None:
        """Heed a whole list of them."""
        self.pods = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in pods if may_be_chosen(pod)}

    def in_order(self) -> list[str]:
        """Addresses, the one with the fewest requests first; those with as many take turns."""
        self.turn += 1
        found = sorted(self.pods.values())
        turned = [*found[self.turn % max(1, len(found)) :], *found[: self.turn % max(1, len(found))]]
        return sorted(turned, key=lambda address: self.open.get(address, 0))


def may_be_chosen(pod: dict[str, Any]) -> bool:
    """Whether it is Ready, has an address and is not being deleted; the selector has said the rest."""
    status = pod.get("status") or {}
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())
    return bool(ready and status.get("podIP") and not pod["metadata"].get("deletionTimestamp"))


@dataclass
class Cluster:
    """The API server: what it says of a half is heeded in a thread of its own, as long as the process lives."""

    url: str
    namespace: str

    def follow(self, half: Half) -> None:
        """List and watch, again and again. What was known stays while it does not answer."""
        while True:
            try:
                listed = json.load(self._ask(half))
                half.all_seen(listed["items"])
                for event in self._events(half, listed["metadata"]["resourceVersion"]):
                    half.seen(event["object"], gone=event["type"] == "DELETED")
            except (OSError, ValueError, KeyError) as error:
                print(f"cannot watch pods {half.selector}: {error}", flush=True)  # noqa: T201 - the log is for people
                time.sleep(PAUSE_SECONDS)

    def _events(self, half: Half, since: str) -> Iterator[dict[str, Any]]:
        with self._ask(half, watch="true", resourceVersion=since, timeoutSeconds=str(WATCH_SECONDS)) as lines:
            for line in lines:
                event = json.loads(line)
                if event["type"] == "ERROR":  # too old: list again
                    return
                yield event

    def _ask(self, half: Half, **options: str) -> Any:  # noqa: ANN401 - as urllib has it
        query = urllib.parse.urlencode({"labelSelector": half.selector, **options})
        request = urllib.request.Request(f"{self.url}/api/v1/namespaces/{self.namespace}/pods?{query}")  # noqa: S310 - Weft's URL
        trusted = None
        if self.url.startswith("https:"):
            trusted = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
            request.add_header("Authorization", f"Bearer {(ACCOUNT / 'token').read_text().strip()}")
        return urllib.request.urlopen(request, timeout=2 * WATCH_SECONDS, context=trusted)  # noqa: S310 - as above


@dataclass
class Front:
    """Both halves, prefill first, and how many requests asked for one of them."""

    halves: tuple[Half, Half]
    requests: int = 0

    def missing(self) -> str:
        """Which half has no pod, in words; empty where both have."""
        names = zip(("prefill", "decode"), self.halves, strict=True)
        return " and ".join(name for name, half in names if not half.pods)

    async def enter(self, half: Half, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the server's, with one request, to one pod."""
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, path, *_ = head.split(b" ", 2)
            if half is self.halves[0] and method == b"POST" and path.startswith(b"/v1/"):
                self.requests += 1
            if path.startswith(b"/steady_clock_offset"):  # of one server; here is another each time
                writer.write(answer(404, "not for one of many servers\n"))
            elif self.missing():
                writer.write(answer(503, f"no {self.missing()} server is ready\n"))
            else:
                await self._pass_on(half, once(head), reader, writer)
        await closed(writer)

    async def _pass_on(
        self, half: Half, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        for address in half.in_order():
            half.open[address] = half.open.get(address, 0) + 1
            try:
                engine = await dialled(address)
                if engine is not None:
                    engine[1].write(head)
                    await relayed((reader, writer), engine)
                    return
            finally:
                half.open[address] -= 1
        writer.write(answer(503, "no server of this half takes connections\n"))

    async def tell(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Readiness, and the count of requests in Prometheus' format."""
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1]
            writer.write(await self._told(path.decode()))
        await closed(writer)

    async def _told(self, path: str) -> bytes:
        if path == "/metrics":
            name = "weft_front_requests_total"
            return answer(200, f"# TYPE {name} counter\n{name} {self.requests}\n")
        if path != "/readiness":
            return answer(404, "/readiness or /metrics\n")
        if self.missing():
            return answer(503, f"no {self.missing()} server is ready\n")
        return answer(200, "ready\n") if await server_answers() else answer(503, "the server does not answer yet\n")


def once(head: bytes) -> bytes:
    """The head of a request or an answer, saying that nothing comes after it: the next one goes to another pod."""
    first, *fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    kept = [line for line in fields if not line.lower().startswith((b"connection:", b"keep-alive:"))]
    return b"\r\n".join([first, *kept, b"Connection: close", b"", b""])


def answer(status: int, text: str) -> bytes:
    """A whole answer that ends its connection."""
    kind = "text/plain; version=0.0.4" if status == 200 else "text/plain"  # noqa: PLR2004 - HTTP's own
    head = f"HTTP/1.1 {status} Weft\r\nContent-Type: {kind}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    return (head + text).encode()


async def dialled(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """A connection to an engine, or None where there is nobody."""
    with suppress(OSError, asyncio.TimeoutError):
        return await asyncio.wait_for(asyncio.open_connection(address, engine_port(), limit=LONGEST_HEAD), DIAL_SECONDS)
    return None


async def relayed(
    one: tuple[asyncio.StreamReader, asyncio.StreamWriter], other: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Bytes both ways until either side ends: an answer is over, or nobody waits for it."""
    ways = [asyncio.create_task(copied(one[0], other[1])), asyncio.create_task(answered(other[0], one[1]))]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    await closed(other[1])


async def answered(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An engine's answer, which says that its connection ends with it."""
    with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        writer.write(once(await reader.readuntil(b"\r\n\r\n")))
        await copied(reader, writer)


async def copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """All that comes, as it comes."""
    with suppress(OSError):
        while some := await reader.read(1 << 16):
            writer.write(some)
            await writer.drain()


async def closed(writer: asyncio.StreamWriter) -> None:
    """An end of a connection, whatever became of it."""
    with suppress(OSError):
        writer.close()
        await writer.wait_closed()


async def server_answers() -> bool:
    """Whether the disaggregated server itself says that it is healthy."""
    with suppress(OSError, asyncio.TimeoutError):
        reader, writer = await asyncio.open_connection(LOOPBACK, FRONT_PORT)
        writer.write(b"GET /health HTTP/1.1\r\nHost: front\r\nConnection: close\r\n\r\n")
        line = await asyncio.wait_for(reader.readline(), ANSWER_SECONDS)
        await closed(writer)
        return line.split(b" ")[1:2] == [b"200"]
    return False


def engine_port() -> int:
    """Where engines take requests."""
    return int(sys.argv[5])


def settings() -> str:
    """The server's file; JSON is YAML. Fronts before the same servers count requests under numbers of their own."""
    prefill, decode = ({"num_instances": 1, "urls": [f"{LOOPBACK}:{port}"]} for port in DOOR_PORTS)
    number = ipaddress.ip_address(os.environ["POD_IP"]).packed[-1]
    both = {"context_servers": prefill, "generation_servers": decode}
    return json.dumps({"hostname": "0.0.0.0", "port": FRONT_PORT, "max_retries": 0, "node_id": number, **both})  # noqa: S104 - in a pod


def settings_file() -> str:
    """Where they are written."""
    file = Path(tempfile.gettempdir(), "front.yaml")
    file.write_text(settings())
    return str(file)


def surroundings() -> dict[str, str]:
    """Variables of the server. Where no driver can be loaded, that of the image is found."""
    found = {**os.environ, "TRTLLM_DISAGG_NO_RETRY": "1"}
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        found["LD_LIBRARY_PATH"] = ":".join(filter(None, (found.get("LD_LIBRARY_PATH"), DRIVERS)))
    return found


async def run(cluster: Cluster, front: Front) -> int:
    """Open the doors, start the server between them, and end with it; SIGTERM lets it finish its streams."""
    for half in front.halves:
        threading.Thread(target=cluster.follow, args=(half,), daemon=True).start()
    for half, port in zip(front.halves, DOOR_PORTS, strict=True):
        await asyncio.start_server(door(front, half), LOOPBACK, port, limit=LONGEST_HEAD)
    await asyncio.start_server(front.tell, "", STATUS_PORT)
    command = ("trtllm-serve", "disaggregated", "-c", settings_file(), "-t", FOR_EVER, "-r", FOR_EVER)
    server = await asyncio.create_subprocess_exec(*command, env=surroundings())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.terminate)
    return abs(await server.wait())


def door(front: Front, half: Half) -> Any:  # noqa: ANN401 - what asyncio calls
    """What a door does with each connection."""
    return lambda reader, writer: front.enter(half, reader, writer)


def main() -> int:
    """As the arguments say."""
    url, namespace, prefill, decode, _ = sys.argv[1:]
    return asyncio.run(run(Cluster(url, namespace), Front((Half(prefill), Half(decode)))))


if __name__ == "__main__":
    sys.exit(main())
