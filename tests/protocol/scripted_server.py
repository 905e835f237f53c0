"""An API server that does what a test tells it: lists, watches, and the ways of failing that we have to survive.

It knows collections by path, keeps objects with UIDs and resource versions, and streams changes to open watches. A test
sets faults, which stay until it lifts them. It runs in a thread, so that operators may live in the test's own loop.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]

WEFT = "/apis/weft.dev/v1alpha1"
POOLS, SPLITS = f"{WEFT}/inferencepools", f"{WEFT}/pdsplits"
KINDS = {
    "inferencepools": "InferencePool",
    "pdsplits": "PDSplit",
    "pods": "Pod",
    "nodes": "Node",
    "namespaces": "Namespace",
    "customresourcedefinitions": "CustomResourceDefinition",
    "resourceslices": "ResourceSlice",
    "computedomains": "ComputeDomain",
    "httproutes": "HTTPRoute",
    "topologies": "Topology",
    "localqueues": "LocalQueue",
    "workloads": "Workload",
    "resourcequotas": "ResourceQuota",
}


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class ScriptedServer:
    """Listens on loopback while its `with` block lasts."""

    def __init__(self) -> None:
        """Nothing is stored and nothing fails."""
        self.url = ""
        self.requests: list[Received] = []
        self.answer: Callable[[web.Request], web.Response | None] = lambda _: None
        self._objects: dict[str, dict[str, Json]] = defaultdict(dict)
        self._streams: dict[str, list[web.StreamResponse]] = defaultdict(list)
        self._version = 100
        self._gone_below = 0
        self._served = dict(_DISCOVERY)
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        """Start and wait until it listens."""
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        """Close every stream and stop."""
        self.cut()
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(10)

    def put(self, path: str, name: str, *, uid: str | None = None, silent: bool = False, **more: object) -> Json:
        """Create or change an object and tell the open watches, unless `silent`."""
        body: Json = self._call(self._put, path, name, uid or f"uid-{name}", silent, more)
        return body

    def remove(self, path: str, name: str, *, silent: bool = False) -> None:
        """Delete an object; `silent` keeps the watches from hearing of it."""
        self._call(self._remove, path, name, silent)

    def serve(self, version: str, plural: str) -> str:
        """Have one more kind from now on; its path."""
        known = [each["name"] for each in self._served.get(f"/apis/{version}", {}).get("resources", ())]
        self._served[f"/apis/{version}"] = _served(version, *known, plural, namespaced=False)
        return f"/apis/{version}/{plural}"

    def fail(self, status: int, reason: str = "", headers: dict[str, str] | None = None) -> None:
        """Answer everything with this status until `heal`, and end the open watches."""
        body = json.dumps({"kind": "Status", "code": status, "reason": reason, "message": "scripted"})
        self.answer = lambda _: web.Response(
            status=status, text=body, content_type="application/json", headers=headers or {}
        )
        self.cut()

    def heal(self) -> None:
        """Answer properly again."""
        self.answer = lambda _: None

    def cut(self, path: str | None = None) -> None:
        """End the open watches of one collection, or all."""
        self._call(self._cut, path)

    def error_in_stream(self, path: str, code: int) -> None:
        """Send an ERROR event into the open watches of a collection."""
        status = {
            "kind": "Status",
            "code": code,
            "reason": "Expired" if code == 410 else "InternalError",
            "message": "",
        }
        self._call(self._send, path, {"type": "ERROR", "object": status})

    def expire(self) -> None:
        """Forget the history: watches that resume get 410, and the open ones end with it."""
        self._gone_below = self._version + 1
        for path in list(self._streams):
            self.error_in_stream(path, 410)
        self.cut()

    def watches(self, path: str) -> int:
        """How many watches of a collection are open."""
        return len(self._streams[path])

    def count(self, method: str, path: str, **query: str) -> int:
        """Requests so far with this method, path and at least this query."""
        wanted = set(query.items())
        return sum(
            seen.method == method and seen.path == path and wanted <= set(seen.query.items()) for seen in self.requests
        )

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._listen())

    async def _listen(self) -> None:
        application = web.Application(client_max_size=8 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._started.set()
        await self._stopped.wait()
        await runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        query, headers = dict(request.query), dict(request.headers)
        self.requests.append(Received(request.method, request.path, query, headers, await request.read()))
        scripted = self.answer(request)
        if scripted is not None:
            return scripted
        if request.path in self._served:
            return web.json_response(self._served[request.path])
        if request.query.get("watch") == "true":
            return await self._watch(request)
        items = sorted(self._objects[request.path].values(), key=lambda body: body["metadata"]["name"])
        limit, start = int(request.query.get("limit", "100000")), int(request.query.get("continue", "0"))
        more = {"continue": str(start + limit)} if start + limit < len(items) else {}
        meta = {"resourceVersion": str(self._version), **more}
        kind = KINDS.get(request.path.rpartition("/")[2], "")
        version = "weft.dev/v1alpha1" if request.path.startswith(WEFT) else "v1"
        return web.json_response(
            {"kind": f"{kind}List", "apiVersion": version, "metadata": meta, "items": items[start : start + limit]}
        )

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        since = int(request.query.get("resourceVersion") or 0)
        if since < self._gone_below:
            await _write(stream, {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}})
            return stream
        for body in self._objects[request.path].values():
            if int(body["metadata"]["resourceVersion"]) > since:
                await _write(stream, {"type": "ADDED", "object": body})
        self._streams[request.path].append(stream)
        while stream in self._streams[request.path]:  # noqa: ASYNC110 - closed from the test's thread
            await asyncio.sleep(0.02)
        return stream

    async def _put(self, path: str, name: str, uid: str, silent: bool, more: Json) -> Json:  # noqa: FBT001 - private
        self._version += 1
        known = self._objects[path].get(name)
        kind = KINDS[path.rpartition("/")[2]]
        meta = {"name": name, "uid": uid, "resourceVersion": str(self._version), "generation": 1}
        if kind != "Node":
            meta["namespace"] = "team"
        version = "weft.dev/v1alpha1" if path.startswith(WEFT) else "v1"
        body = {"apiVersion": version, "kind": kind, **more, "metadata": {**meta, **more.get("metadata", {})}}
        self._objects[path][name] = body
        if not silent:
            await self._send(path, {"type": "MODIFIED" if known else "ADDED", "object": body})
        return body

    async def _remove(self, path: str, name: str, silent: bool) -> None:  # noqa: FBT001 - private
        self._version += 1
        body = self._objects[path].pop(name)
        body["metadata"]["resourceVersion"] = str(self._version)
        if not silent:
            await self._send(path, {"type": "DELETED", "object": body})

    async def _cut(self, path: str | None) -> None:
        for streams in [self._streams[path]] if path is not None else list(self._streams.values()):
            streams.clear()

    async def _send(self, path: str, event: Json) -> None:
        for stream in self._streams[path]:
            await _write(stream, event)

    def _call(self, function: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401 - what the function gives
        return asyncio.run_coroutine_threadsafe(function(*args), self._loop).result(10)


async def _write(stream: web.StreamResponse, event: Json) -> None:
    await stream.write(json.dumps(event).encode() + b"\n")


def _resource(plural: str, *, namespaced: bool) -> Json:
    kind = KINDS[plural]
    verbs = ["get", "list", "watch", "patch"]
    return {"name": plural, "kind": kind, "namespaced": namespaced, "verbs": verbs, "singularName": kind.lower()}


def _group(name: str, version: str) -> Json:
    served = {"groupVersion": f"{name}/{version}", "version": version}
    return {"name": name, "versions": [served], "preferredVersion": served}


def _served(version: str, *plurals: str, namespaced: bool) -> Json:
    return {"groupVersion": version, "resources": [_resource(plural, namespaced=namespaced) for plural in plurals]}


# kopf begins only once it has found namespaces and CRDs, though it is told to watch neither.
_DISCOVERY: dict[str, Json] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": _served("v1", "nodes", "namespaces", "resourcequotas", namespaced=False),
    "/apis": {"groups": [_group("weft.dev", "v1alpha1"), _group("apiextensions.k8s.io", "v1")]},
    "/apis/apiextensions.k8s.io/v1": _served("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False),
    WEFT: _served("weft.dev/v1alpha1", "inferencepools", "pdsplits", namespaced=True),
}
