"""The last lines of a failed engine's log, for failures whose termination message says nothing.

Reading logs is an optional permission. Each failed pod is read once, before anything is decided about it, as the
decision may be to delete it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from weft.observe.api_server.reading import FORBIDDEN, resource_path
from weft.render import ENGINE_CONTAINER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.domain.cluster import ContainerFailure, PodRecord
    from weft.observe.api_server.reading import Reader

TAIL_LINES = 200
TAIL_BYTES = 16 * 1024
READ_BYTES = 1024 * 1024  # the API server cuts off the end, so ask for far more than is kept
READS_AT_ONCE = 8
# The API server asks the node's kubelet, for half a minute where a firewall or a tunnel is broken: a few dozen engines
# that fail together would keep a decision for longer than liveness allows, again after each restart.
LONGEST_READ_SECONDS = 10.0


class PodLogs:
    """Log tails by pod UID."""

    def __init__(self, reader: Reader, at_most_seconds: float = LONGEST_READ_SECONDS) -> None:
        """Nothing is read before a pod fails. A decision waits `at_most_seconds` for the logs of all that failed."""
        self._reader = reader
        self._at_most_seconds = at_most_seconds
        self._tails: dict[str, tuple[str | None, bool]] = {}

    def add(self, pods: Iterable[PodRecord], needs_log: Callable[[PodRecord], bool]) -> tuple[PodRecord, ...]:
        """The same pods, with the log tail in the failures of those that need it."""
        every = tuple(pods)
        failed = [pod for pod in every if pod.failure is not None and pod.identity is not None and needs_log(pod)]
        self._tails = {pod.uid: self._tails[pod.uid] for pod in failed if pod.uid in self._tails}
        self._read([pod for pod in failed if pod.uid not in self._tails])
        return tuple(_with_tail(pod, self._tails.get(pod.uid)) for pod in every)

    def _read(self, pods: list[PodRecord]) -> None:
        if not pods:
            return
        threads = ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="weft-logs")
        reads = {pod.uid: threads.submit(self._tail, pod) for pod in pods}
        ended, _ = wait(reads.values(), self._at_most_seconds)
        threads.shutdown(wait=False, cancel_futures=True)
        self._tails |= {uid: read.result() if read in ended else (None, False) for uid, read in reads.items()}

    def _tail(self, pod: PodRecord) -> tuple[str | None, bool]:
        """(Last lines, whether reading is forbidden); an unreadable log counts as empty, as one not read in time."""
        path = resource_path("v1", "pods", pod.namespace, pod.name) + "/log"
        beside = pod.failure.beside if pod.failure is not None else ""
        query = {"tailLines": str(TAIL_LINES), "limitBytes": str(READ_BYTES), "container": beside or ENGINE_CONTAINER}
        try:
            text = self._reader.text(path, query)
        except ApiException as error:
            return None, error.status == FORBIDDEN
        except HTTPError:
            return None, False
        return text[-TAIL_BYTES:], False


def _with_tail(pod: PodRecord, tail: tuple[str | None, bool] | None) -> PodRecord:
    if pod.failure is None or tail is None:
        return pod
    failure: ContainerFailure = replace(pod.failure, log_tail=tail[0], log_forbidden=tail[1])
    return replace(pod, failure=failure)
