"""Small reads on demand, cached for a while: a model's config in a ConfigMap, the values of PriorityClasses."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from weft.observe.api_server.reading import resource_path
from weft.observe.api_server.small_reads import SmallReads

if TYPE_CHECKING:
    from collections.abc import Callable

    from weft.observe.api_server.reading import Reader

CONFIG_SECONDS = 30.0
PRIORITY_SECONDS = 60.0
_NOT_FOR_US = frozenset({403, 404})
UNKNOWN_SECONDS = 2.0  # until they are read again, where they never were


class ConfigFiles:
    """Texts from ConfigMaps. A missing or forbidden ConfigMap gives None; in an outage the last answer stays."""

    def __init__(self, reader: Reader, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is read before it is asked for."""
        self._reader = reader
        self._texts: SmallReads[tuple[str, str, str], str | None] = SmallReads(self._read, None, CONFIG_SECONDS, clock)

    def text(self, namespace: str, name: str, key: str) -> str | None:
        """The content of one key, at most half a minute old while the API server answers."""
        return self._texts.get((namespace, name, key))

    def _read(self, wanted: tuple[str, str, str]) -> str | None:
        namespace, name, key = wanted
        data = self._reader.get(resource_path("v1", "configmaps", namespace, name)).get("data") or {}
        return str(data[key]) if key in data else None


class Priorities:
    """Values of PriorityClasses by name, and which preempt; none if reading them is not permitted.

    An outage leaves the last answer. Before there is one, nobody who names a class takes a place of others.
    """

    def __init__(self, reader: Reader, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is read before it is asked for."""
        self._reader = reader
        self._clock = clock
        self._read_next: float | None = None
        self._are_known = False
        self._values: dict[str, int] = {}
        self._polite: frozenset[str] = frozenset()

    def value(self, name: str | None) -> int:
        """The value of a class, 0 for no class and for an unknown one."""
        if name is None:
            return 0
        if self._read_next is None or self._clock() >= self._read_next:
            self._refresh()
            self._read_next = self._clock() + (PRIORITY_SECONDS if self._are_known else UNKNOWN_SECONDS)
        return self._values.get(name, 0)

    def preempts(self, name: str | None) -> bool:
        """Whether pods of a class may preempt others, as of the last call of `value`."""
        return name is None or (self._are_known and name not in self._polite)

    def _refresh(self) -> None:
        try:
            listed = self._reader.get(resource_path("scheduling.k8s.io/v1", "priorityclasses"))
        except (ApiException, HTTPError) as error:
            self._are_known |= isinstance(error, ApiException) and error.status in _NOT_FOR_US
            return
        self._are_known = True
        self._polite = frozenset(
            item["metadata"]["name"] for item in listed.get("items") or () if item.get("preemptionPolicy") == "Never"
        )
        self._values = {item["metadata"]["name"]: int(item.get("value") or 0) for item in listed.get("items") or ()}
