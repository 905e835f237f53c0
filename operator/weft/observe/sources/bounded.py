"""Answers over HTTP that take no more memory or time than expected, for clients that read whatever comes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

import requests

if TYPE_CHECKING:
    from collections.abc import Iterator

PART_BYTES = 64 * 1024


def bounded_session(most_bytes: int, seconds: float) -> requests.Session:
    """A session whose answers raise `RequestException` beyond so many bytes, once unpacked, or seconds of reading.

    The usual timeout is for each part alone: an answer that drips would hold its thread for as long as it likes.
    """
    session = requests.Session()

    def bound(answer: requests.Response, *_: object, **__: object) -> None:
        answer.raw = _Bounded(answer.raw, most_bytes, time.monotonic() + seconds)

    session.hooks["response"].append(bound)
    return session


class _Bounded:
    """A response of urllib3 that is read as it comes, up to its bounds."""

    def __init__(self, raw: Any, most_bytes: int, until: float) -> None:  # noqa: ANN401 - requests does not say its type
        self._raw = raw
        self._most_bytes = most_bytes
        self._until = until

    def stream(self, _: int | None = None, *, decode_content: bool = True) -> Iterator[bytes]:
        """The content in parts, each as soon as it is there: a read of a fixed length waits until that is full."""
        left = self._most_bytes
        while part := self._raw.read1(PART_BYTES, decode_content=decode_content):
            left -= len(part)
            if left < 0:
                self._end(f"its answer is larger than {self._most_bytes // 2**20} MiB")
            if time.monotonic() > self._until:
                self._end("its answer comes too slowly")
            yield part

    def _end(self, why: str) -> NoReturn:
        """Hang up, as nobody else would, and say why."""
        self._raw.close()
        raise requests.RequestException(why)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever else urllib3 has
        return getattr(self._raw, name)
