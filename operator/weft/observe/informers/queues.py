"""Kueue's queues and Workloads, kept current where Kueue is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from weft.domain.queueing import AdmissionRecord, Queueing, QueueRecord
from weft.observe.informers.reflector import Reflector
from weft.observe.informers.reports import OptionalListWatch
from weft.observe.objects.queues import LOCAL_QUEUES, WORKLOADS, read_admission, read_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from weft.domain.reports import TopologyReport
    from weft.observe.api_server.reading import Json, Reader
    from weft.observe.objects.reports import OptionalKind

Record = TypeVar("Record")


class QueueCache:
    """LocalQueues and Workloads of the served namespaces. `changed` is called from informer threads."""

    def __init__(self, reader: Reader, namespaces: Sequence[str], changed: Callable[[], None]) -> None:
        """An empty `namespaces` reads the whole cluster. Nothing is read before the reflectors start."""
        self._reader = reader
        self._changed = changed
        self._lists: list[OptionalListWatch[Any]] = []
        places: list[str | None] = [*namespaces] or [None]
        self._queues: list[Reflector[QueueRecord]] = [
            self._reflector(LOCAL_QUEUES, place, read_queue) for place in places
        ]
        self._admissions: list[Reflector[AdmissionRecord]] = [
            self._reflector(WORKLOADS, place, read_admission) for place in places
        ]

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """The reflectors to start and stop."""
        return (*self._queues, *self._admissions)

    @property
    def answered(self) -> bool:
        """Whether each kind was tried once."""
        return all(listing.answered for listing in self._lists)

    def queueing(self, topologies: Iterable[TopologyReport]) -> Queueing:
        """All that is known of the queues; `topologies` are read elsewhere."""
        admissions = [record for reflector in self._admissions for record in reflector.records()]
        return Queueing(
            installed=any(listing.present for listing in self._lists),
            refused=tuple(sorted({listing.name for listing in self._lists if listing.refused})),
            queues=tuple(record for reflector in self._queues for record in reflector.records()),
            admissions={(record.namespace, record.name): record for record in admissions},
            topologies=tuple(topology.levels for topology in topologies),
        )

    def _reflector(
        self, kind: OptionalKind, place: str | None, read: Callable[[Json], Record | None]
    ) -> Reflector[Record]:
        listing = OptionalListWatch(self._reader, kind, read, namespace=place)
        self._lists.append(listing)
        return Reflector(listing, lambda _old, _new: self._changed())
