"""The Pod Security Standard `restricted` (Kubernetes 1.33) as far as our pods use its fields."""

from __future__ import annotations

from typing import Any

VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
    "image",  # not in 1.32, as docs/models.md says
}


def violations(pod_spec: dict[str, Any]) -> list[str]:
    """Rules that a pod breaks, by name."""
    found = [field for field in ("hostNetwork", "hostPID", "hostIPC") if pod_spec.get(field)]
    context = pod_spec.get("securityContext", {})
    for volume in pod_spec.get("volumes", []):
        found += [f"volume {kind}" for kind in volume if kind != "name" and kind not in VOLUMES]
    for container in (*pod_spec["containers"], *pod_spec.get("initContainers", [])):
        own = {**context, **container.get("securityContext", {})}
        capabilities = own.get("capabilities", {})
        rules = {
            "privileged": not own.get("privileged"),
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
            "runAsNonRoot": own.get("runAsNonRoot") is True,
            "runAsUser": own.get("runAsUser") != 0,
            "seccompProfile": own.get("seccompProfile", {}).get("type") in {"RuntimeDefault", "Localhost"},
            "capabilities.drop": capabilities.get("drop") == ["ALL"],
            "capabilities.add": set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"},
            "hostPort": not any(port.get("hostPort") for port in container.get("ports", [])),
        }
        found += [rule for rule, holds in rules.items() if not holds]
    return found
