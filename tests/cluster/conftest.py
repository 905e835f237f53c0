"""What the tests of the test cluster itself share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kubernetes import client

from e2e.cluster import build
from e2e.cluster.control_plane import ControlPlane, ControlPlaneOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

NEEDED = (*ControlPlaneOptions().binaries, "kwok", "kubectl")


@pytest.fixture(scope="session")
def binaries() -> None:
    """Skip without the binaries, by their names."""
    try:
        build.ensure(NEEDED)
    except build.BinariesMissingError as missing:
        pytest.skip(f"no control plane: {missing}")


@pytest.fixture(scope="module")
def cluster(binaries: None) -> Iterator[ControlPlane]:
    """Give each module a control plane of its own, where nodes are declared lost soon."""
    with ControlPlane.start(options=ControlPlaneOptions(node_monitor_grace_seconds=4)) as running:
        yield running


@pytest.fixture
def api(cluster: ControlPlane) -> Iterator[client.ApiClient]:
    with cluster.api_client() as administrator:
        yield administrator


@pytest.fixture
def core(api: client.ApiClient) -> client.CoreV1Api:
    return client.CoreV1Api(api)


@pytest.fixture
def namespace(core: client.CoreV1Api) -> Iterator[str]:
    """Give a namespace that ends with the test."""
    created = core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(generate_name="case-")))
    assert created.metadata is not None
    name = str(created.metadata.name)
    yield name
    core.delete_namespace(name)
