"""Servers on loopback that play an engine."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Quiet(BaseHTTPRequestHandler, ABC):
    """One that answers what is posted, without a log."""

    def do_POST(self) -> None:
        """The name that the base class calls."""
        self.answer()

    @abstractmethod
    def answer(self) -> None:
        """All of it: status, headers and body."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        """Nobody reads it."""


@contextmanager
def answering(handler: type[Quiet]) -> Iterator[str]:
    """Its address, for as long as the block runs."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
