"""A namespace on the real API server with Weft's definitions, and a kubeconfig that leads to it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from kubernetes import client

from tests.cli.cluster import Place, serves_our_kinds
from tests.eventually import eventually
from tests.manifests import install
from weft.api import crds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.control_plane import ControlPlane


@pytest.fixture
def place(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """An empty namespace; KUBECONFIG names its cluster."""
    namespace = f"cli-{uuid.uuid4().hex[:8]}"
    with control_plane.api_client() as api:
        install(api, crds())
        eventually(lambda: serves_our_kinds(api), seconds=30)
        client.CoreV1Api(api).create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=namespace)))
        monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig))
        yield Place(api, control_plane, namespace)
