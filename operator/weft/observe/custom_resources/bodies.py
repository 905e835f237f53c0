"""Bodies of our own resources as records, each parsed again when its version changes.

If parsing one of them raises (a bug of ours), the others are still read, and its pods stay. If its status can be
parsed, its spec counts as not understood; if not, its assignments are unknown, so that nobody decides on it or acts
for it until it has another version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from weft.domain.snapshot import ResourceKey
from weft.domain.stumbling import Stumbled
from weft.domain.values.changed import changed
from weft.observe.custom_resources.cache import version_of
from weft.observe.objects.identity import controller_uid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from weft.domain.reasons import Explanation
    from weft.domain.snapshot import PoolRecord, SplitRecord

    Version = tuple[str, int]  # UID and resource version
    Told = Callable[[ResourceKey, Stumbled], None]

Json = dict[str, Any]
Record = TypeVar("Record", bound="PoolRecord | SplitRecord")


class Bodies(Generic[Record]):
    """Records of one kind. Not thread-safe: for one caller."""

    def __init__(self, parse: Callable[[Json], Record], told: Told) -> None:
        """`told` is called once for each version of a body that cannot be read."""
        self._parse = parse
        self._told = told
        self._records: dict[Version, Record | None] = {}
        self._unread: dict[Version, tuple[Explanation, str | None]] = {}  # why, and the UID of the split it belongs to
        self._incomplete: dict[Version, Explanation] = {}

    def read(self, bodies: Iterable[Json], complete: Callable[[Record], Record]) -> tuple[Record, ...]:
        """All records that can be read; `complete` adds what other objects say, each time."""
        keyed = {(str(body["metadata"]["uid"]), version_of(body)): body for body in bodies}
        self._unread = {version: why for version, why in self._unread.items() if version in keyed}
        self._incomplete = {version: why for version, why in self._incomplete.items() if version in keyed}
        known = self._records
        self._records = {
            version: known[version] if version in known else self._parsed(version, body)
            for version, body in keyed.items()
        }
        read = ((version, record) for version, record in self._records.items() if record is not None)
        return tuple([self._completed(version, record, complete) for version, record in read])

    def versions(self) -> dict[str, int]:
        """Resource versions by UID."""
        return dict([*self._records])

    def owners(self) -> dict[str, Explanation]:
        """Why splits are left out of which a half cannot be read, by UID of the split."""
        left_out = (why for version, why in self._unread.items() if self._records[version] is None)
        return {owner: why for why, owner in left_out if owner is not None}

    def held(self) -> dict[str, Explanation]:
        """Why nobody may decide on these resources, by UID; a split is held with an unreadable half."""
        unread = {uid: why for (uid, _), (why, _) in self._unread.items()}
        return self.owners() | unread | {uid: why for (uid, _), why in self._incomplete.items()}

    def _parsed(self, version: Version, body: Json) -> Record | None:
        try:
            return self._parse(body)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is about this body alone
            why = self._stumbled(_key_of(body), error)
            self._unread[version] = why, controller_uid(body["metadata"])
        return self._without_spec(body, why)

    def _without_spec(self, body: Json, why: Explanation) -> Record | None:
        try:
            return changed(self._parse({**body, "spec": None}), spec=None, problem=why)
        except Exception:  # noqa: BLE001 - the first error was reported already
            return None

    def _completed(self, version: Version, record: Record, complete: Callable[[Record], Record]) -> Record:
        try:
            completed = complete(record)
        except Exception as error:  # noqa: BLE001 - as above
            if version not in self._incomplete:
                self._incomplete[version] = self._stumbled(record.key, error)
            return changed(record, spec=None, problem=self._incomplete[version])
        self._incomplete.pop(version, None)
        return completed

    def _stumbled(self, key: ResourceKey, error: Exception) -> Explanation:
        stumbled = Stumbled((key.uid,), error)
        self._told(key, stumbled)
        return stumbled.explanation


def _key_of(body: Json) -> ResourceKey:
    meta = body["metadata"]
    return ResourceKey(str(body.get("kind")), *(str(meta.get(name)) for name in ("namespace", "name", "uid")))
