"""Writing a file whole or not at all."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO

from weft.cli.failure import CommandFailure


def write_whole(path: Path, content: bytes) -> None:
    """Put a file with this content in the place of what is there; raises `CommandFailure` and leaves that as it was."""
    try:
        if path.exists() and not path.is_file():  # replacing a device would be worse than not writing
            raise CommandFailure(f"cannot write {path}: it is no file")
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            _write_and_rename(file, path, content)
    except OSError as error:
        raise CommandFailure(f"cannot write {path}: {error.strerror}") from None


def _write_and_rename(file: IO[bytes], path: Path, content: bytes) -> None:
    try:
        file.write(content)
        file.flush()
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)
    except BaseException:
        Path(file.name).unlink(missing_ok=True)
        raise
