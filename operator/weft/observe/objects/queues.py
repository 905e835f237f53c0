"""Kueue's LocalQueues and Workloads, from plain JSON to frozen records. Pure, and tolerant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from weft.domain.queueing import AdmissionRecord, QueueRecord, Stated
from weft.observe.objects.reports import OptionalKind
from weft.schedulers.kueue import GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

VERSIONS = ("v1beta2", "v1beta1")
LOCAL_QUEUES = OptionalKind("LocalQueue", GROUP, VERSIONS, "localqueues")
WORKLOADS = OptionalKind("Workload", GROUP, VERSIONS, "workloads")
OF_A_POD_GROUP = f"{GROUP}/is-group-workload"  # on Workloads of pod groups, such as ours; those of jobs do not matter


def read_queue(body: Json) -> QueueRecord:
    """A LocalQueue; only its existence matters, as Workloads tell the rest."""
    return QueueRecord(*_named(body))


def read_admission(body: Json) -> AdmissionRecord | None:
    """A Workload of a pod group, with its conditions; None for any other."""
    notes = body["metadata"].get("annotations")
    if not isinstance(notes, dict) or notes.get(OF_A_POD_GROUP) != "true":
        return None
    return AdmissionRecord(*_named(body), tuple(_stated(body.get("status"))))


def _named(body: Json) -> tuple[str, str]:
    return str(body["metadata"].get("namespace") or ""), str(body["metadata"]["name"])


def _stated(status: object) -> Iterator[Stated]:
    listed = status.get("conditions") if isinstance(status, dict) else None
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict):
            kind, reason, message = (str(each.get(name) or "") for name in ("type", "reason", "message"))
            yield Stated(kind, each.get("status") == "True", reason, message)
