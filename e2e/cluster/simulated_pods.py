"""What may happen to a simulated pod: it becomes ready when told, its readiness probe fails, a container crashes."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kubernetes import client

from e2e.cluster.simulated_nodes import READY_ANNOTATION

if TYPE_CHECKING:
    from e2e.cluster.control_plane import ControlPlane


class AfterCrash(enum.Enum):
    """What the kubelet does with a container that crashed."""

    RESTART = "restart"  # it runs again, with one more restart, and becomes ready as after its first start
    BACK_OFF = "back-off"  # CrashLoopBackOff, until the next crash with RESTART
    FAIL = "fail"  # the pod's phase becomes Failed, as with restartPolicy Never or an eviction


@dataclass(frozen=True, slots=True)
class Crash:
    """How a container ends; without a name the first one."""

    container: str | None = None
    exit_code: int = 1
    reason: str = "Error"  # or OOMKilled, with exit code 137
    after: AfterCrash = AfterCrash.RESTART


def set_ready(cluster: ControlPlane, namespace: str, name: str, *, ready: bool) -> None:
    """Make a pod ready at once, or not ready until it is told again."""
    annotation = {"metadata": {"annotations": {READY_ANNOTATION: str(ready).lower()}}}
    with cluster.api_client() as api:
        client.CoreV1Api(api).patch_namespaced_pod(name, namespace, annotation)


def crash_container(cluster: ControlPlane, namespace: str, name: str, crash: Crash | None = None) -> None:
    """Let a container of a running pod end."""
    with cluster.api_client() as api:
        core = client.CoreV1Api(api)
        pod = api.sanitize_for_serialization(core.read_namespaced_pod(name, namespace))
        core.patch_namespaced_pod_status(name, namespace, {"status": crashed_status(pod["status"], crash or Crash())})


def crashed_status(status: dict[str, Any], crash: Crash) -> dict[str, Any]:
    """Return the part of a pod's status that a crash changes."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    containers = status["containerStatuses"]
    victim = crash.container or containers[0]["name"]
    return {
        "phase": "Failed" if crash.after is AfterCrash.FAIL else "Running",
        "containerStatuses": [_crashed(each, crash, now) if each["name"] == victim else each for each in containers],
        "conditions": [
            {"type": kind, "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": now}
            for kind in ("ContainersReady", "Ready")
        ],
    }


def _crashed(container: dict[str, Any], crash: Crash, now: str) -> dict[str, Any]:
    started = container["state"].get("running", {}).get("startedAt", now)
    end = {"exitCode": crash.exit_code, "reason": crash.reason, "startedAt": started, "finishedAt": now}
    changed = {**container, "ready": False, "started": False}
    match crash.after:
        case AfterCrash.RESTART:
            running = {"state": {"running": {"startedAt": now}}, "lastState": {"terminated": end}}
            return {**changed, **running, "restartCount": container["restartCount"] + 1}
        case AfterCrash.BACK_OFF:
            waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
            return {**changed, "state": {"waiting": waiting}, "lastState": {"terminated": end}}
        case AfterCrash.FAIL:
            return {**changed, "state": {"terminated": end}}
