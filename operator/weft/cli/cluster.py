"""Reading a cluster for one command: our resources, nodes and pods as plain JSON. Never writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.cli.failure import CLUSTER_REFUSES, CommandFailure
from weft.domain.labels import API_VERSION
from weft.observe.reading import Reader, resource_path

if TYPE_CHECKING:
    from collections.abc import Callable

Json = dict[str, Any]
PLURALS = {"InferencePool": "inferencepools", "PDSplit": "pdsplits"}
_KIND_WORDS = {
    "inferencepool": "InferencePool",
    "inferencepools": "InferencePool",
    "inferencepools.weft.dev": "InferencePool",
    "wpool": "InferencePool",
    "pdsplit": "PDSplit",
    "pdsplits": "PDSplit",
    "pdsplits.weft.dev": "PDSplit",
    "pds": "PDSplit",
}


def parse_reference(text: str) -> tuple[str, str]:
    """Kind and name of `InferencePool/chat`, `wpool/chat` or `pds/big`."""
    word, slash, name = text.partition("/")
    kind = _KIND_WORDS.get(word.lower())
    if not slash or not name or kind is None:
        raise CommandFailure(f"{text!r} names no resource of ours: write InferencePool/NAME or PDSplit/NAME")
    return kind, name


@dataclass(frozen=True, slots=True)
class ClusterReader:
    """A connection to one cluster. Each method is one read, and fails with a sentence that says what to check."""

    reader: Reader
    namespace: str

    def resource(self, kind: str, name: str) -> Json:
        """One of our resources."""
        path = resource_path(API_VERSION, PLURALS[kind], self.namespace, name)
        body: Json = _answer(f"{kind} {name} in namespace {self.namespace}", lambda: self.reader.get(path))
        return {"kind": kind, **body}

    def resources(self, kind: str, *, everywhere: bool) -> list[Json]:
        """All resources of one kind, of this namespace or of all."""
        namespace = None if everywhere else self.namespace
        return self._listed(PLURALS[kind], resource_path(API_VERSION, PLURALS[kind], namespace))

    def nodes(self) -> list[Json]:
        """All nodes."""
        return self._listed("nodes", resource_path("v1", "nodes"))

    def pods(self) -> list[Json]:
        """All pods of the cluster."""
        return self._listed("pods", resource_path("v1", "pods"))

    def _listed(self, what: str, path: str) -> list[Json]:
        pages: list[Json] = _answer(what, lambda: list(self.reader.pages(path, {})))
        return [item for page in pages for item in page["items"]]


def connect(context: str | None, namespace: str | None) -> ClusterReader:
    """A reader for a kubeconfig context (None: the current one), or for the service account inside a pod."""
    from kubernetes import config

    try:
        api = config.new_client_from_config(context=context)
        contexts, active = config.list_kube_config_contexts()
    except config.ConfigException as error:
        return _connect_inside(error, namespace)
    chosen = next((entry for entry in contexts if entry["name"] == context), active)
    return ClusterReader(Reader(api), namespace or chosen["context"].get("namespace") or "default")


def _connect_inside(error: Exception, namespace: str | None) -> ClusterReader:
    from kubernetes import client, config

    try:
        config.load_incluster_config()
    except config.ConfigException:
        message = f"no cluster to read: {error}; set KUBECONFIG or name an existing --context"
        raise CommandFailure(message, CLUSTER_REFUSES) from error
    return ClusterReader(Reader(client.ApiClient()), namespace or "default")


def _answer(what: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever the client returns
    from kubernetes import client
    from urllib3.exceptions import HTTPError

    try:
        return call()
    except client.ApiException as error:
        raise CommandFailure(_sentence(what, error.status), CLUSTER_REFUSES) from error
    except HTTPError as error:
        raise CommandFailure(f"the cluster does not answer ({error}); check the context", CLUSTER_REFUSES) from error


def _sentence(what: str, status: int | None) -> str:
    if status == 404:  # noqa: PLR2004 - HTTP's own number
        return f"{what} does not exist; `kubectl get inferencepools.weft.dev,pdsplits.weft.dev -A` lists what does"
    if status in {401, 403}:
        return f"you may not read {what}; ask for get and list on it"
    return f"the API server answered {status} for {what}; try again"
