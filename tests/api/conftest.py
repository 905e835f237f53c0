"""A namespace of our own on the real API server, with the committed CRDs."""

from __future__ import annotations

import uuid
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.api.server import Server
from tests.eventually import eventually
from weft.domain.labels import API_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from e2e.cluster.control_plane import ControlPlane

CRDS = Path(__file__).parents[2] / "crds"
ESTABLISHED_WITHIN_SECONDS = 30.0
Json = dict[str, Any]


@pytest.fixture(scope="session")
def crds_installed(control_plane: ControlPlane) -> Iterator[Server]:
    """Apply both definitions and wait until they are served."""
    with control_plane.api_client() as client:
        server = Server(client, "")
        for path in sorted(CRDS.glob("weft.dev_*.yaml")):
            install(server, yaml.safe_load(path.read_text(encoding="utf-8")))
        yield server


@pytest.fixture
def server(crds_installed: Server) -> Server:
    """An empty namespace."""
    namespace = f"api-{uuid.uuid4().hex[:8]}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    crds_installed.send("POST", "/api/v1/namespaces", body).expect_taken()
    return Server(crds_installed.client, namespace)


def install(server: Server, definition: Json) -> None:
    """Server-side apply, so that several test modules may do it; then wait until what it defines is served."""
    address = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition['metadata']['name']}"
    applied = server.send("PATCH", address, definition, query=[("fieldManager", "weft-tests"), ("force", "true")])
    applied.expect_taken()

    def established() -> None:
        """The definition is served, which it is a moment after it says so."""
        conditions = server.send("GET", address).body.get("status", {}).get("conditions") or []
        assert {"Established": "True"}.items() <= {one["type"]: one["status"] for one in conditions}.items(), conditions
        listed = f"/apis/{API_VERSION}/{definition['spec']['names']['plural']}"
        assert server.client.call_api(*server.client.param_serialize("GET", listed)).status == HTTPStatus.OK

    eventually(established, seconds=ESTABLISHED_WITHIN_SECONDS)
