"""A namespace of our own on the real API server, with the committed CRDs."""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.api.server import Server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.control_plane import ControlPlane

CRDS = Path(__file__).parents[2] / "crds"
ESTABLISHED_WITHIN_SECONDS = 30.0


@pytest.fixture(scope="session")
def crds_installed(control_plane: ControlPlane) -> Iterator[Server]:
    """Apply both definitions and wait until they are served."""
    with control_plane.api_client() as client:
        server = Server(client, "")
        for path in sorted(CRDS.glob("*.yaml")):
            _install(server, path)
        yield server


@pytest.fixture
def server(crds_installed: Server) -> Server:
    """An empty namespace."""
    namespace = f"api-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    crds_installed.send("POST", "/api/v1/namespaces", body).expect_taken()
    return Server(crds_installed.client, namespace)


def _install(server: Server, path: Path) -> None:
    """Server-side apply, so that several test modules may do it; then wait for the condition Established."""
    definition = yaml.safe_load(path.read_text(encoding="utf-8"))
    address = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}"
    applied = server.send("PATCH", address, definition, query=[("fieldManager", "weft-tests"), ("force", "true")])
    applied.expect_taken()
    give_up = time.monotonic() + ESTABLISHED_WITHIN_SECONDS
    while not _established(server.send("GET", address).body):
        assert time.monotonic() < give_up, f"{path.name} is not served: {server.send('GET', address).body['status']}"
        time.sleep(0.1)


def _established(definition: dict[str, object]) -> bool:
    status = definition.get("status")
    conditions = status.get("conditions", []) if isinstance(status, dict) else []
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)
