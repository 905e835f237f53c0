"""The start of a pod that became ready: how long it took, and each phase that Kubernetes shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.domain.start_up import LONGEST_PHASE_SECONDS, MeasuredStart
from weft.domain.texts.times import known_instant
from weft.render import ENGINE_CONTAINER

if TYPE_CHECKING:
    from weft.domain.cluster import PodIdentity

Json = dict[str, Any]


def startup_seconds(status: Json) -> float | None:
    """Seconds from binding to Ready: images, weights and the engine's own start; None until then.

    After a restarted container or an unready time it is too long; pools take the median.
    """
    bound, ready = _true_since(status, "PodScheduled"), _true_since(status, "Ready")
    return None if bound is None or ready is None else max(0.0, ready - bound)


def read_start(status: Json, identity: PodIdentity) -> MeasuredStart | None:
    """The phases of a start; None until it is ready, after restarts, or if the engine's start time is unknown.

    Any init container counts as a download. Clocks of the scheduler and the kubelet may differ.
    """
    whole, bound = startup_seconds(status), _true_since(status, "PodScheduled")
    engine: Json = next((c for c in status.get("containerStatuses") or () if c.get("name") == ENGINE_CONTAINER), {})
    runs = known_instant(((engine.get("state") or {}).get("running") or {}).get("startedAt"))
    if whole is None or bound is None or runs is None or engine.get("restartCount"):
        return None
    before = min(whole, max(0.0, runs - bound))
    setup = min(before, max(0.0, (_true_since(status, "PodReadyToStartContainers") or bound) - bound))
    download = min(before - setup, _init_seconds(status))
    parts = (setup, before - setup - download, download, 0.0, whole - before)
    setup, image, download, weights, rest = (min(round(part), LONGEST_PHASE_SECONDS) for part in parts)
    return MeasuredStart(identity.replica, (setup, image, download, weights, rest))


def with_weights(start: MeasuredStart, told: float | None) -> MeasuredStart:
    """The start, with loading weights (seconds by the engine) as a phase of its own."""
    setup, image, download, _, engine = start.phases
    weights = min(engine, round(told)) if told is not None and told > 0.0 else 0
    return replace(start, phases=(setup, image, download, weights, engine - weights)) if weights else start


def _init_seconds(status: Json) -> float:
    """Seconds for which ended init containers ran, one after the other."""
    ended = [(each.get("state") or {}).get("terminated") or {} for each in status.get("initContainerStatuses") or ()]
    spans = ((known_instant(each.get("startedAt")), known_instant(each.get("finishedAt"))) for each in ended)
    return sum(max(0.0, end - begun) for begun, end in spans if begun is not None and end is not None)


def _true_since(status: Json, kind: str) -> float | None:
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            return known_instant(condition.get("lastTransitionTime")) if condition.get("status") == "True" else None
    return None
