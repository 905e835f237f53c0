"""The real helm installs, upgrades and uninstalls the chart on a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.charts.conftest import CHART, NAMESPACE, REPOSITORY
from weft.observe.api_server.reading import Reader, resource_path

if TYPE_CHECKING:
    from kubernetes import client

    from e2e.cluster.control_plane import ControlPlane
    from tests.charts.conftest import Tools

CRDS = {"inferencepools.weft.dev", "pdsplits.weft.dev"}


def ours_of_cluster(api: client.ApiClient) -> set[str]:
    """Names of our cluster-wide roles."""
    roles = Reader(api).get(resource_path("rbac.authorization.k8s.io/v1", "clusterroles"))["items"]
    return {role["metadata"]["name"] for role in roles if role["metadata"]["name"].startswith("weft-")}


def definitions(api: client.ApiClient) -> set[str]:
    found = Reader(api).get(resource_path("apiextensions.k8s.io/v1", "customresourcedefinitions"))["items"]
    return {one["metadata"]["name"] for one in found} & CRDS


def deployments(api: client.ApiClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = Reader(api).get(resource_path("apps/v1", "deployments", NAMESPACE))["items"]
    return found


@pytest.mark.timeout(300)
def test_install_upgrade_and_uninstall_leave_only_the_definitions(
    private_control_plane: ControlPlane, tools: Tools
) -> None:
    """Uninstalling the operator must not delete anybody's pools, so the CRDs stay; everything else goes."""
    helm = (tools.helm, "--kubeconfig", private_control_plane.kubeconfig, "-n", NAMESPACE)
    with private_control_plane.api_client() as api:
        tools.run(*helm, "install", "weft", CHART, "--create-namespace")
        assert definitions(api) == CRDS
        assert [one["spec"]["replicas"] for one in deployments(api)] == [1]

        tools.run(*helm, "upgrade", "weft", CHART, "--set", "namespaces={default}", "--set", "podLogs=true")
        (deployment,) = deployments(api)
        assert "--namespace=default" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
        assert "weft-pod-logs" in ours_of_cluster(api)

        tools.run(*helm, "uninstall", "weft", "--wait")
        assert ours_of_cluster(api) == set()
        assert deployments(api) == []
        assert definitions(api) == CRDS


@pytest.mark.timeout(300)
def test_who_applied_by_kubectl_may_go_on_with_a_tool_that_applies_server_side(
    private_control_plane: ControlPlane, tools: Tools
) -> None:
    """As Flux and Argo CD do: a default inside a list that is one value would differ from what they apply."""
    kubectl = (tools.kubectl, "--kubeconfig", private_control_plane.kubeconfig)
    tools.run(*kubectl, "apply", "-k", REPOSITORY / "manifests" / "base")
    server_side = ("apply", "--server-side", "--field-manager=flux", "-k", REPOSITORY / "manifests" / "base")
    applied = tools.run(*kubectl, *server_side).splitlines()
    assert "deployment.apps/weft-controller serverside-applied" in applied
