"""Decision records: what each pass saw and decided, one file per pass, in a folder of limited size."""

from __future__ import annotations

import gzip
import json
import logging
from traceback import format_exception
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from weft import __version__
from weft.domain.coded import coded
from weft.domain.errors import Invalid
from weft.domain.reasons import Explanation, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from weft.control.options import RunOptions
    from weft.domain.decision import Decisions
    from weft.domain.snapshot import Snapshot

MEGABYTE = 1_000_000
_PATTERN = "pass-*.json.gz"
_UNFINISHED = "pass.part"  # one name: what a process leaves that is killed at that moment, the next one overwrites
_NOBODY: Mapping[str, Explanation] = MappingProxyType({})
_FAST = 1  # gzip level: a tenth of the time of the best, a third more bytes

log = logging.getLogger(__name__)


def record_of(
    snapshot: Snapshot, decided: Decisions | Exception, left_out: Mapping[str, Explanation] = _NOBODY
) -> dict[str, Any]:
    """One pass as JSON, from which `weft replay` decides again and compares.

    The snapshot has all resources as they were read, also those `left_out` (by UID) as deciding on them failed.
    """
    record = {"weft": __version__, "snapshot": coded(snapshot)}
    if left_out:
        record["leftOut"] = coded(left_out)
    if isinstance(decided, Exception):
        return record | {"error": "".join(format_exception(decided)), "decisions": None}
    return record | {"decisions": coded(decided)}


def recorder_of(options: RunOptions) -> Recorder | None:
    """The recorder that the options ask for, or None; raises `Invalid` if its folder cannot be created."""
    if options.record is None:
        return None
    try:
        return Recorder(options.record, options.record_megabytes * MEGABYTE)
    except OSError as error:
        raise Invalid(Reason.SpecInvalid, f"--record {options.record}: {error.strerror or error}") from error


class Recorder:
    """Writes each pass and deletes those written first beyond `most_bytes`. A full disk costs records, never a pass.

    Names are times of passes, and a clock may go back: the order is that in which the files were written.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """Create the folder; raises `OSError` if that fails."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._most = folder, most_bytes
        found = [(path, path.stat()) for path in sorted(folder.glob(_PATTERN))]
        self._sizes = {path: stat.st_size for path, stat in sorted(found, key=lambda each: each[1].st_mtime_ns)}

    def record(
        self, snapshot: Snapshot, decided: Decisions | Exception, left_out: Mapping[str, Explanation] = _NOBODY
    ) -> None:
        """Write one pass: its decisions, or the error that ended it, and who was left out (by UID) and why."""
        content = gzip.compress(json.dumps(record_of(snapshot, decided, left_out)).encode(), _FAST, mtime=0)
        path = self._folder / f"pass-{round(snapshot.now * 1000.0):015}.json.gz"
        unfinished = self._folder / _UNFINISHED
        try:
            unfinished.write_bytes(content)
            unfinished.replace(path)
            self._sizes.pop(path, None)  # one of the same moment, which it replaces, does not keep its place
            self._sizes[path] = len(content)
            self._forget()
        except OSError as error:
            log.warning("this pass is not recorded: %s", error)

    def _forget(self) -> None:
        """Delete the records written first beyond the limit, but never the last one."""
        total = sum(self._sizes.values())
        for path in list(self._sizes)[:-1]:
            if total <= self._most:
                return
            total -= self._sizes.pop(path)
            path.unlink(missing_ok=True)
