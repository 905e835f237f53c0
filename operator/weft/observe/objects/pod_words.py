"""Why a pod ended, cannot start or is not bound, as the kubelet and the scheduler say. Pure: no IO."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from weft.domain.cluster import ContainerFailure
from weft.domain.texts.times import known_instant

Json = dict[str, Any]

# The default scheduler counts each reason, as in 0/4 nodes are available: 1 Insufficient memory, 3 node(s) ...
_NODES_COUNTED = re.compile(r"\d+/\d+ nodes are available: (?P<reasons>\d+ .*?)(?:\. |\.?$)", re.DOTALL)
_EACH_COUNT = re.compile(r", (?=\d+ )")
_OTHER_NODES = re.compile(r"\[NodeAffinity\]|node affinity/selector")
_WAITING_IS_NORMAL = {"", "ContainerCreating", "PodInitializing"}
_TOOK_TOO_LONG = "DeadlineExceeded"  # activeDeadlineSeconds, which somebody gave the pod
_OWN_LIMIT = re.compile(r"exceeds the limit|exceeded its local ephemeral storage limit|exceeds the total limit")
_CRASHES = "CrashLoopBackOff"


def scheduler_words(condition: Json) -> str:
    """Why the scheduler does not bind a pod; empty if it does, or while scheduling gates hold it.

    Our pods are pinned to one node each, so its counts over all other nodes are left out: they say nothing about the
    pod, and change with every node that comes or goes.
    """
    if condition.get("status") != "False" or condition.get("reason") == "SchedulingGated":
        return ""
    said = str(condition.get("message") or "").strip()
    listed = _NODES_COUNTED.match(said)
    if listed is None:
        return said.partition(" preemption:")[0]
    reasons = [reason.partition(" ")[2] for reason in _EACH_COUNT.split(listed["reasons"])]
    telling = [reason for reason in reasons if not _OTHER_NODES.search(reason)]
    return ", ".join(telling or reasons)


def read_failure(status: Json, spec: Json) -> ContainerFailure | None:
    """How the kubelet ended the whole pod, else how a container ended or why it cannot start; else None.

    Evicting a pod kills its containers, which is then no news. A pod whose containers ended by themselves has no
    reason of its own. The kubelet restarts sidecars: one that ended is a failure only if it does so again and again,
    and beside an engine that never answered. One that has is judged by its readiness, as one that hangs.
    """
    failed, reason = status.get("phase") == "Failed", str(status.get("reason") or "")
    if failed and reason:
        said = str(status.get("message") or "")
        own = reason == _TOOK_TOO_LONG or _OWN_LIMIT.search(said) is not None
        return ContainerFailure(reason, said, of_node=not own)
    sidecars = _sidecars_of(spec)
    for container in _container_statuses(status):
        beside = container.get("name") in sidecars
        failure = _container_failure(container, restarts=beside)
        if failure is None or (beside and _has_answered(status)):
            continue
        unanswered, limit = _unanswered_seconds(container, status, spec), _memory_limit(container, spec)
        name = str(container.get("name") or "") if beside else ""
        return replace(failure, unanswered_seconds=unanswered, memory_limit=limit, beside=name)
    return ContainerFailure("Failed", str(status.get("message") or "")) if failed else None


def _has_answered(status: Json) -> bool:
    """Whether all containers of a pod run that is ready, or was."""
    told = {str(each.get("type")): each for each in status.get("conditions") or ()}
    ready = any(told.get(kind, {}).get("status") == "True" for kind in ("Ready", "ContainersReady"))
    return ready or unready_since(status, told.get("ContainersReady", {})) is not None


def _unanswered_seconds(container: Json, status: Json, spec: Json) -> float | None:
    """How long a container ran that never answered, if that was as long as its startup probe allows; else None.

    The kubelet ends it then, and says so in an event alone. A pod that was ready has a Ready condition that changed
    after its container started.
    """
    probe = _specified(container, spec.get("containers")).get("startupProbe")
    ended = (container.get("state") or {}).get("terminated") or {}
    began, end = known_instant(ended.get("startedAt")), known_instant(ended.get("finishedAt"))
    if probe is None or began is None or end is None:
        return None
    ready: Json = next((c for c in status.get("conditions") or () if c.get("type") == "Ready"), {})
    answered = (known_instant(ready.get("lastTransitionTime")) or 0.0) > began
    allowed = float(probe.get("periodSeconds", 10) * (probe.get("failureThreshold", 3) - 1))  # the first is at once
    return end - began if end - began >= allowed and not answered else None


def unready_since(status: Json, condition: Json) -> float | None:
    """When containers that all run ceased to be ready, by their condition (epoch seconds); None if they never were.

    It is that of the containers: readiness gates of others make a pod unready whose engine answers. In a pod that never
    was ready it has not changed since before its engine began.
    """
    since = known_instant(condition.get("lastTransitionTime")) if condition.get("status") == "False" else None
    states = [(each.get("state") or {}).get("running") or {} for each in status.get("containerStatuses") or ()]
    began = [known_instant(each.get("startedAt")) for each in states]
    if since is None or not began or not all(each is not None and each < since for each in began):
        return None
    return since


def _memory_limit(container: Json, spec: Json) -> str:
    """The memory limit that the container has in the end, whoever set it: a LimitRange does for all that name none."""
    found = _specified(container, spec.get("initContainers" if container.get("_init") else "containers"))
    return str(((found.get("resources") or {}).get("limits") or {}).get("memory") or "")


def _specified(container: Json, containers: list[Json] | None) -> Json:
    """The spec of the container that a status is about."""
    return next((each for each in containers or () if each.get("name") == container.get("name")), {})


def _sidecars_of(spec: Json) -> set[str]:
    """Names of sidecars (restartable init containers): ours, and those that a mesh injects."""
    return {str(c.get("name")) for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}


def _container_failure(container: Json, *, restarts: bool) -> ContainerFailure | None:
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    crashes = waiting.get("reason") == _CRASHES
    if waiting.get("reason", "") not in _WAITING_IS_NORMAL and not crashes:
        return ContainerFailure(str(waiting["reason"]), str(waiting.get("message") or ""))
    if restarts and not crashes:
        return None
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated")
    if not ended or (container.get("_init") and ended.get("exitCode") == 0):
        return None
    return ContainerFailure(str(ended.get("reason") or "Error"), str(ended.get("message") or ""), ended.get("exitCode"))


def _container_statuses(status: Json) -> list[Json]:
    init = [{**c, "_init": True} for c in status.get("initContainerStatuses") or ()]
    return [*(status.get("containerStatuses") or ()), *init]
