"""What binds, starts and ends the pods of a simulated cluster: its scheduler and its kubelets."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from weft.domain.cluster import PodPhase
from weft.domain.start_up import MeasuredStart
from weft.twin.cluster.pods import EPOCH, what_keeps_off

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.twin.cluster.pods import SimulatedPod
    from weft.twin.cluster.start_up import StartPhases
    from weft.twin.cluster.state import ClusterState
    from weft.twin.serving.agenda import Agenda

BIND_SECONDS = 1.0  # from the release of a pod, or from when its node gets room, until the scheduler has bound it
DRAIN_LOOK_SECONDS = 2.0  # between checks of a terminating engine, which ends once it is empty
END_SECONDS = 1.0  # from SIGTERM until a process without work has ended


class Listener(Protocol):
    """Is told what happens to engines, each named by the first pod of its replica."""

    def started(self, pod: SimulatedPod, now: float) -> None:
        """The engine answers from now on."""

    def unrouted(self, pod: SimulatedPod, now: float) -> None:
        """No new request reaches the engine from now on."""

    def ended(self, pod: SimulatedPod, now: float, *, silently: bool) -> None:
        """The engine answers nothing any more; `silently`: its machine failed, so that only its silence shows."""

    def load(self, pod: SimulatedPod) -> int:
        """Return the number of requests inside the engine."""
        ...


class Kubelets:
    """Binds pods to their nodes, starts engines and ends them.

    `down` has failed machines, with the second of the failure.
    """

    def __init__(
        self,
        state: ClusterState,
        agenda: Agenda,
        start_of: Callable[[str], StartPhases],
        seed: int,
        listener: Listener,
    ) -> None:
        """`start_of` gives the start phases of a pool by UID."""
        self._state, self._agenda = state, agenda
        self._start_of, self._seed, self._listener = start_of, seed, listener
        self._images: dict[tuple[str, str], float] = {}  # (node, image): second at which its pull ends
        self.down: dict[str, float] = {}

    def schedule_soon(self, pod: SimulatedPod, now: float) -> None:
        """Let the scheduler come to a pod."""
        self._agenda.call(now + BIND_SECONDS, partial(self._schedule, pod))

    def schedule_again(self, now: float) -> None:
        """Schedule the pods again that did not fit before."""
        for pod in self._state.of_pools():
            if pod.waits and pod.record.message:
                self.schedule_soon(pod, now)

    def _schedule(self, pod: SimulatedPod, now: float) -> None:
        if self._state.is_gone(pod) or not pod.waits:
            return
        message = what_keeps_off(pod, self._state.node(pod.pinned or ""), self._state.devices_held_on(pod.pinned))
        if message:
            if message != pod.record.message:
                pod.change(message=message)
                self._state.changed(pod.pool)
            return
        pod.bound, pod.dead = now, pod.pinned in self.down
        pod.change(node=pod.pinned, message="", released=EPOCH + now)
        self._state.changed(pod.pool)
        self._start(pod, now)

    def _start(self, pod: SimulatedPod, now: float) -> None:
        """Start pulling the image; once all pods of the replica are bound, they become ready together."""
        whole = [each for each in self._state.of_pools() if each.replica == pod.replica]
        drawn = self._start_of(pod.pool).drawn(f"{self._seed}/{pod.record.name.rpartition('-')[0]}")
        image = (pod.pinned or "", pod.image)
        self._images.setdefault(image, now + drawn.image_seconds)
        if all(each.bound is not None for each in whole):
            pulled = max(now, *(self._images[each.pinned or "", each.image] for each in whole))
            self._agenda.call(pulled + drawn.engine_seconds, partial(self._get_ready, whole, pulled))

    def _get_ready(self, replica: list[SimulatedPod], pulled: float, now: float) -> None:
        if any(self._state.is_gone(pod) or pod.record.terminating or not pod.runs for pod in replica):
            return
        for pod in replica:
            bound = pod.bound or 0.0
            start = MeasuredStart(pod.replica[1], (0, round(pulled - bound), 0, 0, round(now - pulled)))
            pod.change(phase=PodPhase.Running, ready=True, startup_seconds=now - bound, start=start)
            self._state.changed(pod.pool)
            if pod.leads:
                pod.serves = True
                self._listener.started(pod, now)

    def unroute(self, pod: SimulatedPod, now: float) -> None:
        """Let no new request reach a pod."""
        pod.change(routed=False)
        self._state.changed(pod.pool)
        if pod.serves:
            self._listener.unrouted(pod, now)

    def delete(self, pod: SimulatedPod, now: float, grace_seconds: float | None = None) -> None:
        """Terminate a pod: it ends when its engine is empty or its grace period is over, on a dead machine never.

        A shorter grace period than its own cuts its pre-stop hook short, too.
        """
        if pod.record.terminating:
            return
        if grace_seconds is not None:
            pod.grace_seconds = min(pod.grace_seconds, grace_seconds)
            pod.stopping_seconds = min(pod.stopping_seconds, grace_seconds)
        if pod.serves and pod.record.routed:  # terminating endpoints get no new requests
            self._listener.unrouted(pod, now)
        pod.deleted = now
        pod.change(terminating=True)
        self._state.changed(pod.pool)
        if pod.bound is None or pod.record.phase is PodPhase.Failed:
            self.remove(pod, now)
        elif not pod.dead:
            self._agenda.call(now + pod.stopping_seconds + END_SECONDS, partial(self._drain, pod))

    def _drain(self, pod: SimulatedPod, now: float) -> None:
        if self._state.is_gone(pod) or pod.dead or pod.deleted is None:
            return
        busy = pod.serves and self._listener.load(pod) > 0
        if busy and now < pod.deleted + pod.grace_seconds:
            latest = pod.deleted + pod.grace_seconds
            self._agenda.call(min(latest, now + DRAIN_LOOK_SECONDS), partial(self._drain, pod))
            return
        self._end_engine(pod, now, silently=False)
        self.remove(pod, now)

    def remove(self, pod: SimulatedPod, now: float) -> None:
        """Take a pod away at once; its place may be another's."""
        self._state.drop(pod, now)
        self.schedule_again(now)

    def kill(self, pod: SimulatedPod, now: float, *, silently: bool) -> None:
        """End the engine of the pod's replica; its other pods hold their GPUs until they are deleted."""
        for each in self._state.of_pools():
            if each.replica == pod.replica:
                self._end_engine(each, now, silently=silently)
        pod.dead, pod.freed = True, now if pod.freed is None else pod.freed

    def _end_engine(self, pod: SimulatedPod, now: float, *, silently: bool) -> None:
        if pod.serves:
            pod.serves = False
            self._listener.ended(pod, now, silently=silently)
