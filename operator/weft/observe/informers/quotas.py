"""ResourceQuotas of the served namespaces, kept current where RBAC lets Weft read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.observe.informers.reflector import Reflector
from weft.observe.informers.reports import OptionalListWatch
from weft.observe.objects.quotas import RESOURCE_QUOTAS, read_quota

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.domain.quotas import QuotaRecord
    from weft.observe.api_server.reading import Reader


class QuotaCache:
    """`changed` is called from informer threads. If quotas may not be listed there are none, which is logged once."""

    def __init__(self, reader: Reader, namespaces: Sequence[str], changed: Callable[[], None]) -> None:
        """An empty `namespaces` reads the whole cluster. Nothing is read before the reflectors start."""
        places: list[str | None] = [*namespaces] or [None]
        self._lists = [OptionalListWatch(reader, RESOURCE_QUOTAS, read_quota, namespace=place) for place in places]
        self.reflectors: tuple[Reflector[QuotaRecord], ...] = tuple(
            Reflector(listing, lambda _old, _new: changed()) for listing in self._lists
        )

    @property
    def answered(self) -> bool:
        """Whether quotas were tried once, and are in the cache if they may be listed."""
        return all(listing.settled for listing in self._lists)

    def quotas(self) -> tuple[QuotaRecord, ...]:
        """All quotas that limit pods or accelerators, sorted by namespace and name."""
        return tuple(record for reflector in self.reflectors for record in reflector.records())
