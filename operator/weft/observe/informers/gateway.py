"""Our InferencePools and HTTPRoutes for Gateways, kept current where the cluster has these kinds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from weft.domain.cluster import ObjectRecord
from weft.domain.reasons import Explanation, Reason
from weft.observe.api_server.reading import OURS
from weft.observe.informers.reflector import Reflector
from weft.observe.informers.reports import OptionalListWatch
from weft.observe.objects.records import read_object
from weft.observe.objects.reports import OptionalKind
from weft.render import ENDPOINTS, ENDPOINTS_GROUP, ROUTE, ROUTE_GROUP, is_taken, shown_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import SimpleNamespace

    from weft.observe.api_server.reading import Json, Reader

INFERENCE_POOLS = OptionalKind(ENDPOINTS[1], ENDPOINTS_GROUP, ("v1",), "inferencepools", OURS)
HTTP_ROUTES = OptionalKind(ROUTE[1], ROUTE_GROUP, ("v1",), "httproutes", OURS)
KINDS = (INFERENCE_POOLS, HTTP_ROUTES)


class GatewayCache:
    """Caches both kinds. `changed` is called from informer threads with the UID of an object's owner."""

    def __init__(self, reader: Reader, namespaces: Sequence[str], changed: Callable[[str | None], None]) -> None:
        """An empty `namespaces` reads the whole cluster. Nothing is read before the reflectors start."""
        self._changed = changed
        places: list[str | None] = [*namespaces] or [None]
        self._lists = [_Noticed(reader, kind, place, changed) for kind in KINDS for place in places]
        self.reflectors: tuple[Reflector[ObjectRecord], ...] = tuple(
            Reflector(listing, self._object_changed) for listing in self._lists
        )

    @property
    def answered(self) -> bool:
        """Whether each kind was tried once, and its objects are in the cache if it is served."""
        return all(listing.settled for listing in self._lists)

    @property
    def lacks(self) -> Explanation | None:
        """The first kind that is missing, forbidden or not read yet, with what to do about it; None without any."""
        for listing in self._lists:
            if listing.refused:
                return Explanation(Reason.NotPermitted, f"Weft may not list {listing.name}: apply its roles again")
            if listing.missing:
                return Explanation(
                    Reason.GatewayAPIMissing,
                    f"the cluster has no {listing.name} (v1), which spec.router.type Gateway needs: "
                    "install its definitions",
                )
            if not listing.present:
                return Explanation(Reason.FrontStarting, f"{listing.name} could not be listed yet")
        return None

    def shown_pairs(self) -> dict[tuple[str, str], str]:
        """The generation that each split's endpoint picker chooses from, by namespace and UID of the split."""
        found = (record for record in self.objects() if (record.api_version, record.kind) == ENDPOINTS)
        owned = ((record, record.owner_uid) for record in found)
        return {(record.namespace, owner): shown_pair(record) for record, owner in owned if owner is not None}

    def taken_routes(self) -> frozenset[tuple[str, str]]:
        """Namespace and UID of the owners of routes that a Gateway takes."""
        routes = (record for record in self.objects() if (record.api_version, record.kind) == ROUTE)
        return frozenset((each.namespace, each.owner_uid) for each in routes if each.owner_uid and is_taken(each.body))

    def objects(self) -> tuple[ObjectRecord, ...]:
        """All objects, sorted by kind, namespace and name."""
        return tuple(record for reflector in self.reflectors for record in reflector.records())

    def _object_changed(self, old: ObjectRecord | None, new: ObjectRecord | None) -> None:
        for owner in {record.owner_uid for record in (old, new) if record is not None}:
            self._changed(owner)


class _Noticed(OptionalListWatch[ObjectRecord]):
    """Reports when its kind appears or disappears: without objects, nothing else would."""

    def __init__(
        self, reader: Reader, kind: OptionalKind, namespace: str | None, changed: Callable[[str | None], None]
    ) -> None:
        super().__init__(reader, kind, partial(_read, kind), namespace=namespace)
        self._told = changed

    def _list(self) -> SimpleNamespace:
        before = self.present
        listing = super()._list()
        if self.present is not before:
            self._told(None)
        return listing


def _read(kind: OptionalKind, body: Json) -> ObjectRecord:
    """The record of an object; items of a list do not carry their kind."""
    return read_object({**body, "apiVersion": kind.api_version(kind.versions[0]), "kind": kind.kind})
