"""Reads the text in a file's bytes: gzipped or not, in UTF-8, or in the UTF-16 that PowerShell's `>` writes."""

from __future__ import annotations

import codecs
import gzip
import io
import zlib

_GZIP = b"\x1f\x8b"
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def plain_text(content: bytes, most: int = -1) -> str:
    """Return the text. Of gzipped content at most `most` + 1 bytes are unpacked: a caller sees that there are too many.

    Raises `UnicodeDecodeError` for content that is not text, and `OSError` for what cannot be unpacked.
    """
    plain = _unpacked(content, most) if content.startswith(_GZIP) else content
    return plain.decode("utf-16" if plain.startswith(_UTF_16) else "utf-8-sig")


def _unpacked(content: bytes, most: int) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            return file.read(most + 1 if most >= 0 else -1)
    except (EOFError, zlib.error) as error:
        raise OSError(str(error)) from error
