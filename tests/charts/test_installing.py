"""The real helm installs, upgrades and uninstalls the chart on a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from kubernetes import client

from tests.charts.conftest import CHART, NAMESPACE

if TYPE_CHECKING:
    from e2e.cluster.control_plane import ControlPlane
    from tests.charts.conftest import Tools

CRDS = {"inferencepools.weft.dev", "pdsplits.weft.dev"}


def ours_of_cluster(api: client.ApiClient) -> set[str]:
    """Names of our cluster-wide roles."""
    roles = client.RbacAuthorizationV1Api(api).list_cluster_role().items
    return {role.metadata.name for role in roles if role.metadata.name.startswith("weft-")}


def definitions(api: client.ApiClient) -> set[str]:
    found = client.ApiextensionsV1Api(api).list_custom_resource_definition().items
    return {one.metadata.name for one in found} & CRDS


@pytest.mark.timeout(300)
def test_install_upgrade_and_uninstall_leave_only_the_definitions(
    private_control_plane: ControlPlane, tools: Tools
) -> None:
    """Uninstalling the operator must not delete anybody's pools, so the CRDs stay; everything else goes."""
    helm = (tools.helm, "--kubeconfig", private_control_plane.kubeconfig, "-n", NAMESPACE)
    with private_control_plane.api_client() as api:
        tools.run(*helm, "install", "weft", CHART, "--create-namespace")
        assert definitions(api) == CRDS
        deployments = client.AppsV1Api(api)
        assert deployments.read_namespaced_deployment("weft-controller", NAMESPACE).spec.replicas == 1

        tools.run(*helm, "upgrade", "weft", CHART, "--set", "namespaces={default}", "--set", "podLogs=true")
        container = deployments.read_namespaced_deployment("weft-controller", NAMESPACE).spec.template.spec.containers[
            0
        ]
        assert "--namespace=default" in container.args
        assert "weft-pod-logs" in ours_of_cluster(api)

        tools.run(*helm, "uninstall", "weft", "--wait")
        assert ours_of_cluster(api) == set()
        assert deployments.list_namespaced_deployment(NAMESPACE).items == []
        assert definitions(api) == CRDS
