"""Weft installed in a test cluster as shipped, and places in it where a test has nodes and a namespace of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from e2e.cluster.simulated_nodes import add_nodes
from e2e.cluster.waiting import PATIENCE_SECONDS, eventually
from e2e.operator_process import SERVICE_ACCOUNT, SYSTEM_NAMESPACE, OperatorProcess
from e2e.operator_process import install as install_weft
from tests.manifests import install, load

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from e2e.cluster.control_plane import ControlPlane
    from e2e.cluster.presets import SimulatedNode

Json = dict[str, Any]

GROUP, VERSION = "weft.dev", "v1alpha1"
PLACE_LABEL = "test.weft.dev/place"


class InstalledWeft:
    """The shipped manifests, applied; no operator runs yet."""

    def __init__(self, cluster: ControlPlane) -> None:
        """Install it as users do."""
        self.cluster = cluster
        install_weft(cluster, pod_logs=True)
        self.kubeconfig = cluster.kubeconfig_for_service_account(SYSTEM_NAMESPACE, SERVICE_ACCOUNT)

    def place(self, name: str, nodes: Iterable[SimulatedNode]) -> Place:
        """A namespace that may run a router, and nodes that only its pools select."""
        with self.cluster.api_client() as api:
            client.CoreV1Api(api).create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
            install(api, load("router"), name)
        marked = [
            replace(node, name=f"{name}-{node.name}", labels={**node.labels, PLACE_LABEL: name}) for node in nodes
        ]
        add_nodes(self.cluster, marked)
        return Place(self, name)


@dataclass(frozen=True, slots=True)
class Place:
    """One namespace with its nodes, seen as an administrator sees it."""

    weft: InstalledWeft
    namespace: str

    def operator(self, *options: str, kubeconfig: Path | None = None) -> OperatorProcess:
        """An operator that serves this place alone, with the permissions that Weft ships and no others."""
        mine = ("--namespace", self.namespace, *options)
        return OperatorProcess.start(self.weft.cluster, mine, f"weft-{self.namespace}", kubeconfig)

    def create_pool(self, name: str, **spec: object) -> Json:
        """An InferencePool of a small model on the nodes of this place; `spec` replaces whole fields."""
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "InferencePool",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "model": {"id": "meta-llama/Llama-3.1-8B-Instruct"},
                "placement": {"nodeSelector": {PLACE_LABEL: self.namespace}},
                **spec,
            },
        }
        with self.weft.cluster.api_client() as api:
            custom = client.CustomObjectsApi(api)
            made = custom.create_namespaced_custom_object(GROUP, VERSION, self.namespace, "inferencepools", body)
        return cast("Json", made)

    def change_pool(self, name: str, patch: Json) -> None:
        """Merge a patch into a pool."""
        with self.weft.cluster.api_client() as api:
            custom = client.CustomObjectsApi(api)
            custom.patch_namespaced_custom_object(
                GROUP,
                VERSION,
                self.namespace,
                "inferencepools",
                name,
                patch,
                _content_type="application/merge-patch+json",
            )

    def delete_pool(self, name: str) -> None:
        """Delete a pool as a user does."""
        with self.weft.cluster.api_client() as api:
            client.CustomObjectsApi(api).delete_namespaced_custom_object(
                GROUP, VERSION, self.namespace, "inferencepools", name
            )

    def pool(self, name: str) -> Json:
        """A pool as it is now."""
        return self._get(f"/apis/{GROUP}/{VERSION}/namespaces/{self.namespace}/inferencepools/{name}")

    def status(self, name: str) -> Json:
        """Its status, maybe empty."""
        found: Json = self.pool(name).get("status") or {}
        return found

    def condition(self, name: str, kind: str) -> tuple[str, str]:
        """Status and reason of one condition; empty words while it is absent."""
        conditions = self.status(name).get("conditions") or ()
        return next(((c["status"], c["reason"]) for c in conditions if c["type"] == kind), ("", ""))

    def objects(self, path: str, selector: str = "") -> list[Json]:
        """Objects of a collection in this namespace; `path` is without it, such as `api/v1/pods`."""
        root, _, plural = path.rpartition("/")
        items: list[Json] = self._get(f"/{root}/namespaces/{self.namespace}/{plural}", labelSelector=selector)["items"]
        return items

    def pods(self) -> list[Json]:
        """Pods of this namespace."""
        return self.objects("api/v1/pods")

    def quotas_in_force(self) -> list[Json]:
        """What ResourceQuotas of this namespace allow by their statuses, by which the API server admits pods."""
        return [body.get("status", {}).get("hard") for body in self.objects("api/v1/resourcequotas")]

    def delete_pod(self, name: str) -> None:
        """Delete a pod as a user does."""
        with self.weft.cluster.api_client() as api:
            client.CoreV1Api(api).delete_namespaced_pod(name, self.namespace)

    def is_ready(self, name: str, replicas: int) -> bool:
        """Whether so many replicas serve and nothing is under way."""
        status = self.status(name)
        return (
            status.get("readyReplicas") == replicas
            and status.get("replicas") == replicas
            and self.condition(name, "Ready")[0] == "True"
            and self.condition(name, "Reconciling")[0] == ""
        )

    def wait_ready(self, name: str, replicas: int = 1, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until so many replicas serve."""
        eventually(
            lambda: self.is_ready(name, replicas), f"{name} serves with {replicas} replicas", timeout_seconds=seconds
        )

    def left_over(self) -> list[str]:
        """Names of everything of ours that still is in the namespace."""
        ours = "app.kubernetes.io/managed-by=weft"
        kinds = ("api/v1/pods", "api/v1/services", "apis/apps/v1/deployments", "apis/policy/v1/poddisruptionbudgets")
        return [body["metadata"]["name"] for kind in kinds for body in self.objects(kind, ours)]

    def _get(self, path: str, **query: str) -> Json:
        with self.weft.cluster.api_client() as api:
            answer = api.call_api(*api.param_serialize("GET", path, query_params=[*query.items()]))
            content: Json = json.loads(answer.read() or b"{}")
            if answer.status != 200:
                raise ApiException(status=answer.status, reason=str(content.get("message")))
            return content
