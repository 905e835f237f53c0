"""The shipped manifests: least privilege, and an operator pod that passes Pod Security `restricted`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.manifests import Json, load
from weft.observe.informers.gateway import KINDS as GATEWAY_KINDS
from weft.observe.objects.queues import LOCAL_QUEUES, WORKLOADS
from weft.observe.objects.quotas import RESOURCE_QUOTAS
from weft.observe.objects.reports import COMPUTE_DOMAINS, RESOURCE_SLICES, TOPOLOGIES

if TYPE_CHECKING:
    from weft.observe.objects.reports import OptionalKind

READ_ONLY = {"get", "list", "watch"}


def rules(folder: str) -> list[tuple[str, Json]]:
    """Every rule of every role of a kustomization, with the role's name."""
    roles = [body for body in load(folder) if body["kind"] in {"Role", "ClusterRole"}]
    return [(role["metadata"]["name"], rule) for role in roles for rule in role["rules"]]


def of_kind(folder: str, kind: str) -> list[Json]:
    return [body for body in load(folder) if body["kind"] == kind]


EVERY_RULE = [
    pytest.param(rule, id=f"{folder}-{name}-{'+'.join((*rule['resources'], *rule['verbs']))}")
    for folder in ("base", "pod-logs", "router", "standby")
    for name, rule in rules(folder)
]


@pytest.mark.parametrize("rule", EVERY_RULE)
class TestRole:
    def test_has_no_wildcard(self, rule: Json) -> None:
        assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}

    def test_never_reaches_secrets_exec_or_impersonation(self, rule: Json) -> None:
        assert not {"secrets", "pods/exec", "pods/attach", "serviceaccounts", "users", "groups"} & set(
            rule["resources"]
        )
        assert not {"escalate", "bind", "impersonate"} & set(rule["verbs"])

    def test_writes_neither_rbac_nor_admission_nor_definitions_nor_nodes(self, rule: Json) -> None:
        """ADR 0006: the operator cannot give anybody a permission."""
        guarded = {"rbac.authorization.k8s.io", "admissionregistration.k8s.io", "apiextensions.k8s.io"}
        assert not guarded & set(rule["apiGroups"])
        assert "nodes" not in rule["resources"] or set(rule["verbs"]) <= READ_ONLY


def test_namespaced_mode_writes_in_its_namespace_only() -> None:
    """The only cluster-wide binding left is the one for reading what is free."""
    bound = {binding["roleRef"]["name"] for binding in of_kind("namespaced", "ClusterRoleBinding")}
    assert bound == {"weft-fabric"}
    assert {binding["metadata"]["namespace"] for binding in of_kind("namespaced", "RoleBinding")} == {"inference"}
    fabric = [rule for name, rule in rules("namespaced") if name == "weft-fabric"]
    assert all(set(rule["verbs"]) <= READ_ONLY for rule in fabric)


def test_what_others_report_about_the_fabric_may_be_listed_and_watched_and_nothing_more() -> None:
    """One read-only rule for each kind that is looked for, in the role for the fabric alone."""
    reading = ["list", "watch"]
    assert [[("weft-fabric", reading)]] * 2 == [granted(RESOURCE_SLICES), granted(TOPOLOGIES)]
    assert [[("weft-resources", reading)]] * 2 == [granted(LOCAL_QUEUES), granted(WORKLOADS)]
    assert {"topologies", "localqueues", "workloads"} == {
        resource for _, rule in rules("base") if "kueue.x-k8s.io" in rule["apiGroups"] for resource in rule["resources"]
    }


def test_quotas_are_read_in_the_served_namespaces_and_nothing_more() -> None:
    assert [("weft-resources", ["list", "watch"])] == granted(RESOURCE_QUOTAS)


def test_who_is_behind_a_service_is_listed_in_the_served_namespaces_and_nothing_more() -> None:
    slices = [(name, rule["verbs"]) for name, rule in rules("base") if "endpointslices" in rule["resources"]]
    assert slices == [("weft-resources", ["list"])]


def test_compute_domains_are_read_everywhere_and_written_beside_pods_alone() -> None:
    """Whose node is in which one matters in the whole cluster; those that Weft makes are in the pools' namespaces."""
    written = ["get", "create", "patch", "delete"]
    assert [("weft-fabric", ["list", "watch"]), ("weft-workloads", written)] == granted(COMPUTE_DOMAINS)


def test_what_a_gateway_routes_by_is_written_beside_pods_alone() -> None:
    written = ["get", "list", "watch", "create", "patch", "delete"]
    assert [[("weft-workloads", written)]] * 2 == [granted(kind) for kind in GATEWAY_KINDS]
    groups = {"inference.networking.k8s.io", "gateway.networking.k8s.io"}
    touched = [rule["resources"] for _, rule in rules("base") if groups & set(rule["apiGroups"])]
    assert touched == [["inferencepools"], ["httproutes"]]


def granted(kind: OptionalKind) -> list[tuple[str, list[str]]]:
    """Roles and verbs for a kind of others."""
    return [
        (name, rule["verbs"])
        for name, rule in rules("base")
        if kind.group in rule["apiGroups"] and kind.plural in rule["resources"]
    ]


def test_namespaced_mode_tells_the_operator_its_namespace() -> None:
    deployment = of_kind("namespaced", "Deployment")[0]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == ["run", "--namespace=inference"]


def test_both_ways_bind_the_same_roles() -> None:
    cluster = {binding["roleRef"]["name"] for binding in of_kind("base", "ClusterRoleBinding")}
    bindings = [*of_kind("namespaced", "ClusterRoleBinding"), *of_kind("namespaced", "RoleBinding")]
    assert {binding["roleRef"]["name"] for binding in bindings} == cluster


def test_the_operator_never_runs_twice() -> None:
    """It holds no lease."""
    spec = of_kind("base", "Deployment")[0]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def pod() -> dict[str, Any]:
    found: dict[str, Any] = of_kind("base", "Deployment")[0]["spec"]["template"]["spec"]
    return found


def test_the_operators_pod_is_restricted() -> None:
    security = pod()["securityContext"]
    container = pod()["containers"][0]["securityContext"]
    assert security["runAsNonRoot"]
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["capabilities"] == {"drop": ["ALL"]}
    assert (container["allowPrivilegeEscalation"], container["readOnlyRootFilesystem"]) == (False, True)
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod())


def test_the_operators_token_is_short_lived() -> None:
    sources = pod()["volumes"][0]["projected"]["sources"]
    assert sources[0]["serviceAccountToken"]["expirationSeconds"] <= 3600
    assert pod()["automountServiceAccountToken"] is False
