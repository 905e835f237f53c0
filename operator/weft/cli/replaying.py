"""`weft replay`: decides recorded passes again with this version of Weft, and shows where the decisions differ."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from rich.text import Text

from weft import __version__
from weft.catalog import load
from weft.cli.ends.failure import ANSWER_IS_NO, FAULT_OF_OURS, INPUT_IS_WRONG, CommandFailure
from weft.cli.telling.tables import headed_table
from weft.cli.telling.terminal import Format, print_data, remark, show
from weft.decide import decide
from weft.domain.coded import NotCoded, coded, decoded
from weft.domain.reasons import Explanation
from weft.domain.snapshot import Snapshot
from weft.domain.stumbling import Stumbled, left_as_they_are
from weft.domain.texts.figures import counted
from weft.domain.values.typed import is_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.table import Table

    from weft.catalog import Catalog

PATTERN = "pass-*.json.gz"
SHOWN = 10  # most differences of one record, and most unreadable files, that are shown


@dataclass(frozen=True, slots=True)
class Difference:
    """A path in the decisions of a pass, what was recorded there, and what is decided now."""

    path: str
    recorded: str
    decided: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """One record: the version that wrote it, the time of the pass (epoch seconds), and what differs.

    `error` is what deciding on all of its resources fails with in this build, also on those that were left out of it.
    """

    record: str
    weft: str
    now: float
    differences: tuple[Difference, ...]
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that this version cannot read, with the reason."""

    record: str
    why: str


def run_replay(paths: Sequence[Path], form: Format) -> int:
    """Print how each record compares; returns the exit code, 0 where all decisions are the same and none fails.

    Files that cannot be replayed, and those on which deciding fails, are reported on stderr, and do not keep the others
    from being replayed.
    """
    catalog = load()
    tried = [_tried(path, catalog) for path in records_of(paths)]
    found = [each for each in tried if isinstance(each, Replayed)]
    unread = [each for each in tried if isinstance(each, Unread)]
    if form is not Format.table:
        print_data([_told(each) for each in tried], form)
    elif found:
        show(*(_page(each) for each in found if each.differences), _summary(found, len(unread)))
    failing = [f"{each.record}: deciding fails: {each.error}" for each in found if each.error is not None]
    told = (
        *_first(failing, "more record", "cannot be decided on"),
        *_first([each.why for each in unread], "more file", "cannot be replayed"),
    )
    for sentence in told:
        remark(" ".join(sentence.split()))
    if unread:
        return INPUT_IS_WRONG
    if failing:
        return FAULT_OF_OURS
    return ANSWER_IS_NO if any(each.differences for each in found) else 0


def records_of(paths: Iterable[Path]) -> list[Path]:
    """Return files as they are, and the records in folders by time; raises `CommandFailure` for an empty folder."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.glob(PATTERN)) if path.is_dir() else [path]
        if not inside:
            raise CommandFailure(f"{path} holds no record: `weft run --record {path}` writes some")
        found += inside
    return found


def _tried(path: Path, catalog: Catalog) -> Replayed | Unread:
    try:
        return replayed(path, catalog)
    except CommandFailure as failure:
        return Unread(str(path), failure.message)


def replayed(path: Path, catalog: Catalog) -> Replayed:
    """Decide a record again; raises `CommandFailure` for a file that is no record."""
    body = _read(path)
    try:
        snapshot, left_out = decoded(body["snapshot"]), decoded(body.get("leftOut", {}))
    except (NotCoded, TypeError) as error:
        wrote = f", written by weft {body['weft']}," if "weft" in body else ""
        why = str(error) if isinstance(error, NotCoded) else "a list or an object stands where a plain value must"
        message = f"{path}{wrote} cannot be replayed by this build of weft {__version__}: {why}"
        raise CommandFailure(message) from error
    if not isinstance(snapshot, Snapshot):
        raise CommandFailure(f"{path} is no record of `weft run --record`: its snapshot is none")
    if not math.isfinite(snapshot.now):
        raise CommandFailure(
            f"{path} is no record of `weft run --record`: it was taken at {snapshot.now}, which is no time"
        )
    if not is_of(Mapping[str, Explanation])(left_out):
        raise CommandFailure(f"{path} is no record of `weft run --record`: its leftOut names no resources")
    now, fails = _decided(left_as_they_are(snapshot, left_out) if left_out else snapshot, catalog)
    differences = tuple(_differences_of_passes(body, now, fails))
    if left_out and fails is None:
        _, fails = _decided(snapshot, catalog)
    return Replayed(str(path), str(body.get("weft")), snapshot.now, differences, fails)


def _decided(snapshot: Snapshot, catalog: Catalog) -> tuple[Any, str | None]:
    """Return the decisions as JSON, or None with what went wrong and where."""
    try:
        return json.loads(json.dumps(coded(decide(snapshot, catalog)))), None
    except Exception as error:  # noqa: BLE001 - which error it is does not matter: it is a bug of ours
        cause = error.__cause__ if isinstance(error, Stumbled) and error.__cause__ is not None else error
        *_, last = extract_tb(cause.__traceback__)
        return None, f"{type(cause).__name__}: {cause} ({last.name} in {Path(last.filename).name}, line {last.lineno})"


def _differences_of_passes(body: dict[str, Any], now: object, error: str | None) -> Iterator[Difference]:
    """Yield where the decisions differ; of a pass that failed, then or now, that it did."""
    if body["decisions"] is not None and error is None:
        yield from _differences("", body["decisions"], now)
    elif body["decisions"] is not None or error is None:
        then = str(body.get("error")).strip().rpartition("\n")[2] if body["decisions"] is None else None
        yield Difference("error", json.dumps(then), json.dumps(error))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
        plain = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        body = json.loads(plain)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise CommandFailure(f"{path} is damaged or not whole: its gzip data cannot be unpacked") from error
    except OSError as error:
        raise CommandFailure(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CommandFailure(f"{path} is no record of `weft run --record`, which is JSON packed with gzip") from error
    record: dict[str, Any] = body if isinstance(body, dict) else {}
    for part in ("snapshot", "decisions"):
        if part not in record:
            raise CommandFailure(f"{path} is no record of `weft run --record`: it has no {part}")
    return record


def _differences(path: str, recorded: object, decided: object) -> Iterator[Difference]:
    """Yield the leaves in which two JSON values differ, compared as text: 1 is not 1.0."""
    if isinstance(recorded, dict) and isinstance(decided, dict):
        for key in sorted({*recorded, *decided}):
            yield from _differences(f"{path}.{key}" if path else key, recorded.get(key), decided.get(key))
    elif isinstance(recorded, list) and isinstance(decided, list) and len(recorded) == len(decided):
        for place, (before, after) in enumerate(zip(recorded, decided, strict=True)):
            yield from _differences(f"{path}[{_name(before, place)}]", before, after)
    elif (before := json.dumps(recorded)) != (after := json.dumps(decided)):
        yield Difference(path, before, after)


def _name(value: object, place: int) -> str:
    """Return the name of an entry of a list: the pool of a decision, else the index."""
    key = value.get("key") if isinstance(value, dict) else None
    return f"{key.get('namespace')}/{key.get('name')}" if isinstance(key, dict) else str(place)


def _told(each: Replayed | Unread) -> dict[str, Any]:
    if isinstance(each, Unread):
        return {
            "record": each.record,
            "weft": None,
            "now": None,
            "differences": None,
            "error": None,
            "problem": each.why,
        }
    differences = [{"path": one.path, "recorded": one.recorded, "decided": one.decided} for one in each.differences]
    told = {"record": each.record, "weft": each.weft, "now": each.now, "differences": differences}
    return told | {"error": each.error, "problem": None}


def _first(sentences: Sequence[str], others: str, verdict: str) -> Iterator[str]:
    yield from sentences[:SHOWN]
    if len(sentences) > SHOWN:
        yield f"{counted(len(sentences) - SHOWN, others)} {verdict}"


def _page(each: Replayed) -> Table:
    headings = ("where", "recorded", "decided now")
    found = headed_table(*headings, wraps=headings)
    found.title, found.title_justify = f"{each.record}: {counted(len(each.differences), 'difference')}", "left"
    for one in each.differences[:SHOWN]:
        found.add_row(one.path, one.recorded, one.decided)
    return found


def _summary(found: Sequence[Replayed], unread: int) -> Text:
    other = sum(bool(each.differences) for each in found)
    verdict = "all decided as recorded" if not other else f"{other} decided otherwise"
    versions = sorted({each.weft for each in found} - {__version__})
    beside = f"; recorded by weft {', '.join(versions)}, this is {__version__}" if versions else ""
    failing = sum(each.error is not None for each in found)
    fails = f"; deciding on {failing} fails" if failing else ""
    without = f"; {counted(unread, 'file')} could not be" if unread else ""
    style = "red" if other or failing or unread else "green"
    told = Text(f"{counted(len(found), 'record')} replayed, ", style="bold")
    return told.append(verdict + fails + beside + without, style=style)
