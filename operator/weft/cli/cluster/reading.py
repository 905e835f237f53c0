"""Reads a cluster for one command: our resources, nodes and pods as plain JSON. Never writes."""

from __future__ import annotations

from dataclasses import dataclass
from ssl import SSLError
from typing import TYPE_CHECKING, Any

from weft.cli.cluster.kubeconfig import (
    choose_context,
    has_a_kubeconfig,
    is_in_a_pod,
    load_context,
    namespace_of_this_pod,
)
from weft.cli.ends.failure import CLUSTER_REFUSES, INPUT_IS_WRONG, CommandFailure
from weft.domain.labels import API_VERSION, GROUP
from weft.observe.api_server.reading import Reader, resource_path
from weft.observe.custom_resources.cache import PLURALS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes.client import ApiException, Configuration

    from weft.observe.objects.reports import OptionalKind

Json = dict[str, Any]
FORBIDDEN, NOT_FOUND = 403, 404


@dataclass(frozen=True, slots=True)
class ClusterReader:
    """A connection to one cluster. Each method is one read; it raises `CommandFailure` with what to check."""

    reader: Reader
    namespace: str
    server: str

    def resource(self, kind: str, name: str) -> Json:
        """Return one of our resources."""
        path = resource_path(API_VERSION, PLURALS[kind], self.namespace, name)
        body: Json = self._answer(f"{kind} {name} in namespace {self.namespace}", lambda: self.reader.get(path))
        return {"kind": kind, **body}

    def resources(self, kind: str, *, everywhere: bool) -> list[Json]:
        """Return all resources of one kind, of this namespace or of all."""
        namespace = None if everywhere else self.namespace
        found = self.listed(f"{PLURALS[kind]}.{GROUP}", resource_path(API_VERSION, PLURALS[kind], namespace))
        return [{"kind": kind, **body} for body in found]

    def nodes(self) -> list[Json]:
        """Return all nodes."""
        return self.listed("nodes", resource_path("v1", "nodes"))

    def pods(self) -> list[Json]:
        """Return all pods of the cluster."""
        return self.listed("pods of all namespaces", resource_path("v1", "pods"))

    def optional(self, kind: OptionalKind) -> list[Json] | None:
        """Return all objects of a kind, none where the cluster does not serve it; None where listing is forbidden."""
        from kubernetes.client import ApiException

        from weft.observe.informers.reports import served_path

        try:
            path = self._answer(kind.name, lambda: served_path(self.reader, kind))
            return [] if path is None else self.listed(kind.name, path)
        except CommandFailure as failure:
            if isinstance(failure.__cause__, ApiException) and failure.__cause__.status in {FORBIDDEN, NOT_FOUND}:
                return None if failure.__cause__.status == FORBIDDEN else []
            raise

    def config_map(self, namespace: str, name: str) -> Json:
        """Return one ConfigMap; an empty one where it does not exist."""
        from kubernetes.client import ApiException

        try:
            found: Json = self._answer(
                f"ConfigMap {name} in namespace {namespace}",
                lambda: self.reader.get(resource_path("v1", "configmaps", namespace, name)),
            )
        except CommandFailure as failure:
            if isinstance(failure.__cause__, ApiException) and failure.__cause__.status == NOT_FOUND:
                return {}
            raise
        return found

    def listed(self, what: str, path: str) -> list[Json]:
        """Return every object of a list; `what` names it in messages."""
        pages: list[Json] = self._answer(what, lambda: list(self.reader.pages(path, {})))
        return [item for page in pages for item in page["items"]]

    def _answer(self, what: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - whatever the client returns
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            return call()
        except ApiException as error:
            raise _refusal(what, error, self.server) from error
        except HTTPError as error:
            raise _silence(error, self.server) from error
        except ValueError as error:
            message = f"{self.server} answers, but not like a Kubernetes API server: check the context"
            raise CommandFailure(message, CLUSTER_REFUSES) from error


def connect(context: str | None, namespace: str | None) -> ClusterReader:
    """Connect to a kubeconfig context (None: the current one), or with the service account inside a pod."""
    from kubernetes import config
    from kubernetes.client import Configuration

    configuration = Configuration()
    if context is None and is_in_a_pod() and not has_a_kubeconfig():
        try:
            config.load_incluster_config(configuration)
        except (config.ConfigException, OSError) as error:
            reason = str(error).rstrip(".")
            message = f"the service account of this pod cannot be used ({reason}): does it mount the token and ca.crt?"
            raise CommandFailure(message, CLUSTER_REFUSES) from error
        return _reader(configuration, namespace or namespace_of_this_pod())
    chosen = choose_context(None, context)
    load_context(chosen, configuration)
    return _reader(configuration, namespace or chosen.namespace)


def _reader(configuration: Configuration, namespace: str) -> ClusterReader:
    from kubernetes.client import ApiClient
    from urllib3 import Retry

    configuration.retries = Retry(total=0, redirect=0)  # a person at a terminal can try again
    return ClusterReader(Reader(ApiClient(configuration)), namespace, configuration.host)


def _refusal(what: str, error: ApiException, server: str) -> CommandFailure:
    if error.status == 404:  # noqa: PLR2004 - HTTP's own number
        return _absence(what, str(error.body))
    if error.status == 401:  # noqa: PLR2004
        return CommandFailure(f"{server} does not know your credentials: log in again", CLUSTER_REFUSES)
    if error.status == 403:  # noqa: PLR2004
        return CommandFailure(f"you may not read {what}: ask for get and list on it", CLUSTER_REFUSES)
    if not error.status:  # the client reports a failed TLS handshake without a status
        return _silence(error, server)
    return CommandFailure(f"{server} answered {error.status} for {what}: try again later", CLUSTER_REFUSES)


def _absence(what: str, body: str) -> CommandFailure:
    if '"details":{"name"' in body.replace(" ", ""):
        hint = f"`kubectl get inferencepools.{GROUP},pdsplits.{GROUP} -A` lists what does"
        return CommandFailure(f"{what} does not exist: {hint}", INPUT_IS_WRONG)
    message = "Weft's resources are not installed in this cluster: `kubectl apply -k manifests/base` does it"
    return CommandFailure(message, CLUSTER_REFUSES)


def _silence(error: BaseException, server: str) -> CommandFailure:
    cause = _innermost(error)
    words = getattr(cause, "verify_message", None) or getattr(cause, "strerror", None) or str(cause)
    what = "cannot be trusted" if isinstance(cause, SSLError) else "does not answer"
    return CommandFailure(
        f"{server} {what} ({words.rstrip('.')}): is it up, and the one you mean? --context names another",
        CLUSTER_REFUSES,
    )


def _innermost(error: BaseException) -> BaseException:
    """Return the system's own error, below the wrappers that HTTP libraries put around it."""
    reason = getattr(error, "reason", None)
    inner = reason if isinstance(reason, BaseException) else error.__cause__ or error.__context__
    return error if inner is None else _innermost(inner)
