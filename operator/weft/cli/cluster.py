"""Reading a cluster for one command: our resources, nodes and pods as plain JSON. Never writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.cli.failure import CLUSTER_REFUSES, CommandFailure
from weft.domain.labels import GROUP, VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes import client

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

    api: client.ApiClient
    namespace: str

    def resource(self, kind: str, name: str) -> dict[str, Any]:
        """One of our resources as JSON."""
        from kubernetes import client

        custom = client.CustomObjectsApi(self.api)
        what = f"{kind} {name} in namespace {self.namespace}"
        body: dict[str, Any] = _answer(
            what, lambda: custom.get_namespaced_custom_object(GROUP, VERSION, self.namespace, PLURALS[kind], name)
        )
        return body

    def resources(self, kind: str, *, everywhere: bool) -> list[dict[str, Any]]:
        """All resources of one kind, of this namespace or of all."""
        from kubernetes import client

        custom = client.CustomObjectsApi(self.api)
        plural = PLURALS[kind]
        if everywhere:
            found = _answer(plural, lambda: custom.list_cluster_custom_object(GROUP, VERSION, plural))
        else:
            found = _answer(
                plural, lambda: custom.list_namespaced_custom_object(GROUP, VERSION, self.namespace, plural)
            )
        items: list[dict[str, Any]] = found["items"]
        return items

    def nodes(self) -> list[dict[str, Any]]:
        """All nodes as JSON."""
        from kubernetes import client

        core = client.CoreV1Api(self.api)
        return self._plain(_answer("nodes", core.list_node))

    def pods(self) -> list[dict[str, Any]]:
        """All pods of the cluster as JSON."""
        from kubernetes import client

        core = client.CoreV1Api(self.api)
        return self._plain(_answer("pods", core.list_pod_for_all_namespaces))

    def _plain(self, listing: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - typed client models of many kinds
        items: list[dict[str, Any]] = self.api.sanitize_for_serialization(listing)["items"]
        return items


def connect(context: str | None, namespace: str | None) -> ClusterReader:
    """A reader for a kubeconfig context (None: the current one), or for the service account inside a pod."""
    from kubernetes import config

    try:
        api = config.new_client_from_config(context=context)
        contexts, active = config.list_kube_config_contexts()
    except config.ConfigException as error:
        return _connect_inside(error, namespace)
    chosen = next((entry for entry in contexts if entry["name"] == context), active)
    return ClusterReader(api, namespace or chosen["context"].get("namespace") or "default")


def _connect_inside(error: Exception, namespace: str | None) -> ClusterReader:
    from kubernetes import client, config

    try:
        config.load_incluster_config()
    except config.ConfigException:
        message = f"no cluster to read: {error}; set KUBECONFIG or name an existing --context"
        raise CommandFailure(message, CLUSTER_REFUSES) from error
    return ClusterReader(client.ApiClient(), namespace or "default")


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
