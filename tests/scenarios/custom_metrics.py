"""A metrics adapter as small as one can be: `custom.metrics.k8s.io` with one metric of pods, for a real HPA."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

from kubernetes import client

from e2e.cluster.certificates import Authority, Subject
from tests.manifests import install

if TYPE_CHECKING:
    from tests.installed import Place

Json = dict[str, Any]

NAME = "custom-metrics"
GROUP = "custom.metrics.k8s.io/v1beta2"
METRIC = "requests_in_flight"


class CustomMetrics:
    """A context: `in_flight` requests, shared evenly by the pods that a selector names; `asked` remembers those."""

    def __init__(self, place: Place, in_flight: int) -> None:
        """Nothing listens yet."""
        self.in_flight = in_flight
        self.asked: set[str] = set()
        self._place = place
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> Self:
        """Listen, and let the API server pass the group on."""
        cluster = self._place.weft.cluster
        authority = Authority(cluster.certificate_authority.parent)
        serving = authority.issue(NAME, Subject(NAME, hosts=(f"DNS:{NAME}.{self._place.namespace}.svc",)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(serving.certificate, serving.key)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread.start()
        with cluster.api_client() as api:
            install(api, [self._service(), self._registration()])
        return self

    def __exit__(self, *_: object) -> None:
        """Take the group away, which would hold up the end of every namespace, and stop listening."""
        with self._place.weft.cluster.api_client() as api:
            client.ApiregistrationV1Api(api).delete_api_service(self._registration()["metadata"]["name"])
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str) -> Json:
        """Discovery, or the values of the pods that the query selects."""
        asked = urlsplit(path)
        if f"/pods/*/{METRIC}" not in unquote(asked.path):
            resource = {"name": f"pods/{METRIC}", "namespaced": True, "kind": "MetricValueList", "verbs": ["get"]}
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP, "resources": [resource]}
        (selector,) = parse_qs(asked.query)["labelSelector"]
        names = [pod["metadata"]["name"] for pod in self._place.objects("api/v1/pods", selector)]
        self.asked |= set(names)
        items = [self._value(name, self.in_flight * 1000 // len(names)) for name in names]
        return {"kind": "MetricValueList", "apiVersion": GROUP, "metadata": {}, "items": items}

    def _value(self, pod: str, thousandths: int) -> Json:
        return {
            "describedObject": {
                "kind": "Pod",
                "namespace": self._place.namespace,
                "name": pod,
                "apiVersion": "/v1",
            },
            "metric": {"name": METRIC},
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "value": f"{thousandths}m",
        }

    def _service(self) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": NAME, "namespace": self._place.namespace},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }

    def _registration(self) -> Json:
        group, _, version = GROUP.partition("/")
        bundle = base64.b64encode(self._place.weft.cluster.certificate_authority.read_bytes()).decode()
        service = {"namespace": self._place.namespace, "name": NAME, "port": self._server.server_address[1]}
        return {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": f"{version}.{group}"},
            "spec": {
                "group": group,
                "version": version,
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": bundle,
                "service": service,
            },
        }


def _handler(metrics: CustomMetrics) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = json.dumps(metrics.answer(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler
