"""What a team does with its namespace: apply resources, look at them, send requests."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from kubernetes import client

from e2e.cluster.waiting import eventually
from e2e.operator_process import kubectl
from weft.domain import labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from e2e.cluster.node import RealNode

Json = dict[str, Any]
CLAIM = "tiny-llama"
MODEL = "weft/tiny-llama"
_PLURALS = {"wpool": "inferencepools", "pds": "pdsplits"}
VERSION = "0.32.0"
ENGINE_START_SECONDS = 240.0
LEAVING_SECONDS = 180.0  # usually a few; beside engines that start, one pod took more than a minute once
SMALL: Json = {
    "engine": {"name": "VLLM", "version": VERSION, "args": ["--enforce-eager"]},
    "workload": {"requestsPerSecond": 1, "inputTokens": {"mean": 64}, "outputTokens": {"mean": 32}},
    "scaling": {"minReplicas": 1, "maxReplicas": 1},
    "rollout": {"drainTimeout": "60s"},
}
# The process of a rank beside the core's, as engines of several GPUs have; without it an image of ours gives them none.
WITH_A_WORKER = {"name": "VLLM_ENABLE_V1_MULTIPROCESSING", "value": "1"}


def tiny_model(folder: Path) -> Json:
    """The section of a model of one's own: weights from the team's claim, architecture inline."""
    return {
        "id": MODEL,
        "servedNames": ["tiny"],
        "source": {"pvc": {"claimName": CLAIM}},
        "config": {"inline": json.loads((folder / "config.json").read_text())},
        "precision": "FP32",
        "maxModelLen": 1024,
    }


@dataclass(frozen=True, slots=True)
class Team:
    """A namespace on the real node."""

    node: RealNode
    api: client.ApiClient
    namespace: str

    def tiny_model(self) -> Json:
        """The model section of a spec."""
        assert self.node.engine is not None
        return tiny_model(self.node.engine.model)

    def pool(self, name: str, **spec: Any) -> Json:  # noqa: ANN401 - any part of the spec
        """An InferencePool of the tiny model; keyword arguments replace whole sections."""
        body = {"model": self.tiny_model(), **SMALL}
        return self._resource("InferencePool", name, body | spec)

    def split(self, name: str, **spec: Any) -> Json:  # noqa: ANN401 - any part of the spec
        """A PDSplit of the tiny model."""
        body = self.pool(name)["spec"]
        return self._resource("PDSplit", name, body | spec)

    def _resource(self, kind: str, name: str, spec: Json) -> Json:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": labels.API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}

    def apply(self, body: Json) -> None:
        """Kubectl apply, with the strict validation that it sends."""
        path = self.node.directory / f"{body['metadata']['name']}.json"
        path.write_text(json.dumps(body))
        kubectl(self.node.cluster, "apply", "-f", path)

    def kubectl(self, *words: str) -> str:
        """Kubectl in this namespace."""
        return kubectl(self.node.cluster, "-n", self.namespace, *words)

    def get(self, kind: str, name: str) -> Json:
        """A resource of ours as JSON; `kind` is its short name."""
        return self._read("apis/weft.dev/v1alpha1", f"{_PLURALS[kind]}/{name}")

    def _read(self, group: str, path: str, **query: str) -> Json:
        """The answer to a GET in this namespace. Tests ask again and again: a kubectl for each takes 50 times as much.

        Raises RuntimeError with the API server's own words.
        """
        asked = f"/{group}/namespaces/{self.namespace}/{path}"
        answer = self.api.call_api(*self.api.param_serialize("GET", asked, query_params=[*query.items()]))
        found: Json = json.loads(answer.read())
        if answer.status != http.HTTPStatus.OK:
            raise RuntimeError(f"GET {asked}: {found.get('message')}")
        return found

    def condition(self, kind: str, name: str, condition: str) -> Json:
        """One condition, or nothing yet."""
        conditions = self.get(kind, name).get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == condition), {})

    def wait_for(self, kind: str, name: str, condition: str, status: str = "True", seconds: float = 0.0) -> Json:
        """Wait for a condition's status; gives the condition."""

        def holds() -> Json:
            found = self.condition(kind, name, condition)
            assert found.get("status") == status, json.dumps(self.get(kind, name).get("status", {}).get("conditions"))
            return found

        return eventually(holds, f"{condition}={status} of {name}", timeout_seconds=seconds or ENGINE_START_SECONDS)

    def pods(self, pool: str | None = None) -> list[Json]:
        """Engine pods, oldest replica first."""
        selector = f"{labels.MANAGED_BY}={labels.MANAGED_BY_WEFT},{labels.REPLICA}"
        if pool is not None:
            selector += f",{labels.POOL}={pool}"
        items: list[Json] = self._read("api/v1", "pods", labelSelector=selector)["items"]
        return sorted(items, key=lambda pod: int(pod["metadata"]["labels"][labels.REPLICA]))

    def version_now(self) -> str:
        """The moment, for `changes`."""
        listed = json.loads(self.kubectl("get", "--raw", f"/api/v1/namespaces/{self.namespace}/pods"))
        return str(listed["metadata"]["resourceVersion"])

    def changes(self, kind: str, since: str) -> list[Json]:
        """Every version of the objects of a kind since a moment, in order, as a watch tells it afterwards."""
        path = {"pods": "api/v1", "inferencepools": "apis/weft.dev/v1alpha1"}[kind]
        query = f"watch=true&resourceVersion={since}&timeoutSeconds=2"
        told = self.kubectl("get", "--raw", f"/{path}/namespaces/{self.namespace}/{kind}?{query}")
        return [json.loads(line)["object"] for line in told.splitlines()]

    def service_address(self, name: str) -> tuple[str, int]:
        """Cluster address and port of a Service, once the node forwards to it: a moment after a pod of it is Ready."""
        spec = json.loads(self.kubectl("get", "service", name, "-o", "json"))["spec"]
        address = spec["clusterIP"], spec["ports"][0]["port"]
        eventually(lambda: takes_connections(address), f"the node forwards to Service {name}")
        return address


@contextlib.contextmanager
def a_team_on(node: RealNode) -> Iterator[Team]:
    """A namespace with the tiny model in a claim; being deleted, and without pods, at the end."""
    namespace = f"team-{uuid.uuid4().hex[:8]}"
    kubectl(node.cluster, "create", "namespace", namespace)
    node.offer_model(namespace, CLAIM)
    with node.cluster.api_client() as api:
        yield Team(node, api, namespace)
        client.CoreV1Api(api).delete_namespace(namespace)
    kubectl(node.cluster, "-n", namespace, "delete", "pods", "--all", "--now", "--wait=false")
    there = ("-n", namespace, "get", "pods", "-o", "name")
    eventually(lambda: not kubectl(node.cluster, *there), "no pod is left", timeout_seconds=LEAVING_SECONDS)


def takes_connections(address: tuple[str, int]) -> bool:
    """Whether somebody accepts at this address."""
    try:
        socket.create_connection(address, timeout=2.0).close()
    except OSError:
        return False
    return True


def gates(pod: Json) -> list[str]:
    """What still keeps a pod from the scheduler."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]


def version(body: Json) -> int:
    """Comparable between kinds: one etcd gives them all."""
    return int(body["metadata"]["resourceVersion"])


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Something that answers completions."""

    host: str
    port: int
    timeout_seconds: float = 120.0

    def complete(self, prompt: str = "Weft is", max_tokens: int = 4, **more: object) -> Json:
        """One completion; raises on anything but 200. `more` goes into the request."""
        body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0}
        request = urllib.request.Request(
            f"http://{self.host}:{self.port}/v1/completions",
            data=json.dumps(body | more).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=self.timeout_seconds) as answer:  # noqa: S310 - the same
            found: Json = json.load(answer)
            return found

    def stream(self, prompt: str, max_tokens: int, headers: dict[str, str] | None = None) -> Iterator[Json]:
        """Chunks of a streamed completion as they come."""
        body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "stream": True}
        body["stream_options"] = {"include_usage": True}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout_seconds)
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request("POST", "/v1/completions", json.dumps(body), sent)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        for line in response:
            text = line.decode().strip()
            if text.startswith("data: ") and text != "data: [DONE]":
                yield json.loads(text.removeprefix("data: "))
        connection.close()

    def metrics(self) -> str:
        """The text of `/metrics`."""
        with urllib.request.urlopen(f"http://{self.host}:{self.port}/metrics", timeout=10) as answer:
            text: str = answer.read().decode()
            return text


@dataclass(slots=True)
class Load:
    """Bounded open-loop load: a request each `interval_seconds`, at most `most` in flight, until stopped."""

    address: Callable[[], tuple[str, int]]
    interval_seconds: float
    most: int = 12
    max_tokens: int = 32
    answered: int = 0
    failed: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        """Start sending."""
        self._threads = [threading.Thread(target=self._send, args=(index,)) for index in range(self.most)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop and wait for what is in flight."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _send(self, index: int) -> None:
        self._stop.wait(index * self.interval_seconds)
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                Endpoint(*self.address()).complete("x" * 48, self.max_tokens)
                self.answered += 1
            except (OSError, urllib.error.URLError, http.client.HTTPException) as error:
                self.failed.append(repr(error))
            self._stop.wait(max(0.0, began + self.most * self.interval_seconds - time.monotonic()))
