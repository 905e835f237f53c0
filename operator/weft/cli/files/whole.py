"""Writes a file whole or not at all."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from weft.cli.ends.failure import CommandFailure

if TYPE_CHECKING:
    from collections.abc import Iterator


STANDARD_OUTPUT = "-"

_ENOUGH_OF_A_PAGE = 256  # bytes


def refuse_unwritable(*paths: Path | None) -> None:
    """Before any work, raise `CommandFailure` for a file that `write_whole` could not write; None is skipped."""
    for path in paths:
        if path is not None:
            _refuse_what_is_no_file(path)
            with _told_of(path), tempfile.TemporaryFile(dir=path.parent):
                pass


def refuse_to_replace_what_is_no_page(path: Path | None) -> None:
    """Raise `CommandFailure` where a page would take the place of a file that is none, such as one of the inputs."""
    if path is None or not path.is_file():
        return
    with _told_of(path), path.open("rb") as file:
        begins = file.read(_ENOUGH_OF_A_PAGE).lstrip().lower()
    if begins and not begins.startswith((b"<!doctype html", b"<html")):
        raise CommandFailure(f"{path} is there and is no HTML page: name another file, or remove it")


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file by this content; on failure raises `CommandFailure`, and the old file stays."""
    _refuse_what_is_no_file(path)
    with _told_of(path), tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        _write_and_rename(file, path, content)


def _refuse_what_is_no_file(path: Path) -> None:
    if str(path) == STANDARD_OUTPUT:
        raise CommandFailure("cannot write to -: standard output has the answer, so name a file")
    with _told_of(path):
        if path.exists() and not path.is_file():  # replacing a device would be worse than not writing
            raise CommandFailure(
                f"cannot write {path}: it is {'a folder; name a file in it' if path.is_dir() else 'no file'}"
            )
        if not path.parent.is_dir():
            raise CommandFailure(f"cannot write {path}: there is no such folder")


@contextmanager
def _told_of(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        raise CommandFailure(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None


def _write_and_rename(file: IO[bytes], path: Path, content: bytes) -> None:
    try:
        file.write(content)
        file.flush()
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise
