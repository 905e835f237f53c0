"""Pods of a cluster as Prometheus targets in a file; Debian's Prometheus is built without Kubernetes discovery."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import urllib3
from kubernetes import client

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

POOL_LABEL = "weft.dev/pool"
PORT_NAME = "http"
INTERVAL_SECONDS = 1.0


class TargetFile:
    """Keeps a file of targets up to date from a thread of its own, until stopped."""

    def __init__(self, path: Path, api: client.ApiClient, namespace: str | None) -> None:
        """Write the first version at once; `api` is closed by `stop`."""
        self._path = path
        self._api = api
        self._namespace = namespace
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="prometheus-targets", daemon=True)
        self._write(())

    def start(self) -> None:
        """Follow the pods."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Safe to call twice."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        self._api.close()

    def _follow(self) -> None:
        while not self._stopped.wait(INTERVAL_SECONDS):
            try:
                self._write(self._pods())
            except (client.ApiException, urllib3.exceptions.HTTPError):
                continue  # an API server that is away leaves the targets as they were

    def _pods(self) -> Iterable[Any]:
        core = client.CoreV1Api(self._api)
        if self._namespace is None:
            return core.list_pod_for_all_namespaces(label_selector=POOL_LABEL).items
        return core.list_namespaced_pod(self._namespace, label_selector=POOL_LABEL).items

    def _write(self, pods: Iterable[Any]) -> None:
        groups = [group for pod in pods if pod.status.phase == "Running" for group in targets(pod)]
        half = self._path.with_suffix(".half")
        half.write_text(json.dumps(groups))
        half.replace(self._path)


def targets(pod: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - the client types every part as optional
    """One target for each port of the pod that is named `http`, with the labels that Kubernetes discovery would set."""
    common = {"namespace": pod.metadata.namespace, "pod": pod.metadata.name}
    return [
        {"targets": [f"{pod.status.pod_ip}:{port.container_port}"], "labels": {**common, "container": container.name}}
        for container in pod.spec.containers
        for port in container.ports or ()
        if port.name == PORT_NAME
    ]
