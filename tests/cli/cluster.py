"""What a test puts into its namespace: resources, and the status that an operator would have written."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from tests.cli.statuses import decided
from tests.manifests import install

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from e2e.cluster.control_plane import ControlPlane

Json = dict[str, Any]
PLURALS = {"InferencePool": "inferencepools", "PDSplit": "pdsplits"}


@dataclass(frozen=True, slots=True)
class Place:
    """One namespace."""

    api: ApiClient = field(repr=False)
    control_plane: ControlPlane = field(repr=False)
    namespace: str

    def create(self, body: Json) -> None:
        """One of our resources."""
        self._resources().create_namespaced_custom_object(*self._where(body), body)

    def decide(self, body: Json, *, ready: bool) -> None:
        """Write the status that deciding comes to, as the operator does."""
        patch = {"status": decided(body, ready=ready, now=time.time())}
        self._resources().patch_namespaced_custom_object_status(
            *self._where(body),
            body["metadata"]["name"],
            patch,
            _content_type="application/merge-patch+json",
        )

    def add_node(self, body: Json) -> None:
        """A node with its devices."""
        install(self.api, [body])
        client.CoreV1Api(self.api).patch_node_status(body["metadata"]["name"], {"status": body["status"]})

    def remove_node(self, name: str) -> None:
        """Leave the shared cluster as it was."""
        client.CoreV1Api(self.api).delete_node(name)

    def _resources(self) -> client.CustomObjectsApi:
        return client.CustomObjectsApi(self.api)

    def _where(self, body: Json) -> tuple[str, str, str, str]:
        return "weft.dev", "v1alpha1", self.namespace, PLURALS[body["kind"]]


def serves_our_kinds(api: ApiClient) -> None:
    """Both kinds are served."""
    for plural in PLURALS.values():
        try:
            client.CustomObjectsApi(api).list_cluster_custom_object("weft.dev", "v1alpha1", plural)
        except ApiException as error:
            raise AssertionError(str(error.reason)) from error
