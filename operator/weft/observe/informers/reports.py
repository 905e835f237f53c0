"""Optional kinds, kept current like the others if the cluster has them.

A missing kind is normal and not reported; it is looked for again with every list. One that RBAC forbids is logged once
and reported with the fabric. Neither holds up a decision.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from kubernetes.client.exceptions import ApiException

from weft.domain.cluster import ObjectRecord
from weft.domain.reports import ComputeDomainReport, DeviceReport, Reports, TopologyReport
from weft.observe.api_server.reading import FORBIDDEN, GONE, NOT_FOUND, has_nothing_for_us, resource_path
from weft.observe.informers.reflector import RELIST_SECONDS, Collection, ListWatch, Reflector
from weft.observe.objects.reports import (
    COMPUTE_DOMAINS,
    RESOURCE_SLICES,
    TOPOLOGIES,
    read_compute_domain,
    read_devices,
    read_topology,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.observe.api_server.reading import Json, Reader
    from weft.observe.objects.reports import OptionalKind

Record = TypeVar("Record")

log = logging.getLogger(__name__)


def served_path(reader: Reader, kind: OptionalKind, namespace: str | None = None) -> str | None:
    """The path at which a cluster serves a kind, or None; taken as served if an administrator forbade asking."""
    for version in kind.versions:
        try:
            found = reader.get(f"/{'apis' if kind.group else 'api'}/{kind.api_version(version)}")
        except ApiException as error:
            if error.status == NOT_FOUND:
                continue
            if error.status == FORBIDDEN:
                return _path(kind, version, namespace)
            raise
        if any(resource.get("name") == kind.plural for resource in found.get("resources") or ()):
            return _path(kind, version, namespace)
    return None


def _path(kind: OptionalKind, version: str, namespace: str | None) -> str:
    return resource_path(kind.api_version(version), kind.plural, namespace)


class OptionalListWatch(ListWatch[Record]):
    """Lists and watches a kind while it is served; else lists nothing, and looks again when the next list is due."""

    def __init__(
        self,
        reader: Reader,
        kind: OptionalKind,
        read: Callable[[Json], Record | None],
        relist_seconds: float = RELIST_SECONDS,
        namespace: str | None = None,
    ) -> None:
        """Arguments as for `ListWatch`; all namespaces if none is given."""
        collection = Collection(kind.name, _path(kind, kind.versions[0], namespace), kind.query)
        super().__init__(reader, collection, read, relist_seconds)
        self._kind = kind
        self._namespace = namespace
        self.present = False
        self.known = False  # whether all objects were handed out: what the records lack does not exist
        self.refused = False
        self.missing = False  # whether the cluster said that it does not have the kind
        self.answered = False  # whether one attempt has ended, in success or not

    @property
    def settled(self) -> bool:
        """Whether the kind was tried once, and its objects were handed out if it is served and may be listed."""
        return self.answered and self.known is self.present

    def _list(self) -> SimpleNamespace:
        try:
            path = served_path(self._reader, self._kind, self._namespace)
            if path is None:
                return self._nothing(refused=False)
            self._collection = replace(self._collection, path=path)
            listing = super()._list()
        except ApiException as error:
            if has_nothing_for_us(error):
                return self._nothing(refused=error.status == FORBIDDEN)
            raise
        finally:
            self.answered = True
        self.present, self.refused, self.missing = True, False, False
        return listing

    def _watch(self, version: str) -> object:
        if not self.present:
            self._stopped.wait(self._relist_seconds)
            raise ApiException(status=GONE, reason=f"{self._kind.name} is looked for again")
        self.known = True  # the informer watches only after it has processed the whole list
        try:
            return super()._watch(version)
        except ApiException as error:
            if has_nothing_for_us(error):
                raise ApiException(status=GONE, reason=f"{self._kind.name} is no longer there to watch") from error
            raise

    def _nothing(self, *, refused: bool) -> SimpleNamespace:
        if refused and not self.refused:
            log.warning("%s may not be listed: Weft goes on without them", self._kind.name)
        self.present, self.known, self.refused, self.missing = False, False, refused, not refused
        return SimpleNamespace(items=[], metadata=SimpleNamespace(resource_version="0"))


class ReportCache:
    """What others report about the fabric, and our ComputeDomains.

    `changed` is called from informer threads with the UID of a ComputeDomain's owner, and with None.
    """

    def __init__(self, reader: Reader, changed: Callable[[str | None], None]) -> None:
        """Nothing is read before the reflectors start."""
        self._lists: list[OptionalListWatch[Any]] = []
        self._reader = reader
        self._told = changed
        self._devices: Reflector[DeviceReport] = self._reflector(RESOURCE_SLICES, read_devices, self._changed)
        self._domains: Reflector[ComputeDomainReport] = self._reflector(
            COMPUTE_DOMAINS, read_compute_domain, self._domain_changed
        )
        self._topologies: Reflector[TopologyReport] = self._reflector(TOPOLOGIES, read_topology, self._changed)

    def _reflector(
        self, kind: OptionalKind, read: Callable[[Json], Record | None], changed: Callable[[Any, Any], None]
    ) -> Reflector[Record]:
        listing = OptionalListWatch(self._reader, kind, read)
        self._lists.append(listing)
        return Reflector(listing, changed)

    def _changed(self, _old: object, _new: object) -> None:
        self._told(None)

    def _domain_changed(self, old: ComputeDomainReport | None, new: ComputeDomainReport | None) -> None:
        """Wake all, and the owner of the ComputeDomain, which may have to delete one that is no longer wanted."""
        self._told(None)
        for owner in {report.owner_uid for report in (old, new) if report is not None and report.owner_uid}:
            self._told(owner)

    @property
    def reflectors(self) -> tuple[Reflector[Any], ...]:
        """The reflectors to start and stop."""
        return self._devices, self._domains, self._topologies

    @property
    def answered(self) -> bool:
        """Whether each kind was tried once, and its objects are in the cache if it is served.

        An answer that never comes must not hold up the operator.
        """
        return all(listing.settled for listing in self._lists)

    def reports(self) -> Reports:
        """All that is known from reports."""
        return Reports(
            self._devices.records(),
            self._domains.records(),
            self._topologies.records(),
            tuple(listing.name for listing in self._lists if listing.refused),
            knows_compute_domains=any(each.known for each in self._lists if each.name == COMPUTE_DOMAINS.name),
        )

    def objects(self) -> tuple[ObjectRecord, ...]:
        """ComputeDomains of our pools and splits, without their bodies, as their spec is immutable."""
        version = f"{COMPUTE_DOMAINS.group}/{COMPUTE_DOMAINS.versions[0]}"
        return tuple(
            ObjectRecord(
                version,
                COMPUTE_DOMAINS.kind,
                report.namespace,
                report.name,
                report.uid,
                report.owner_uid,
                report.terminating,
            )
            for report in self._domains.records()
            if report.owner_uid is not None
        )
