"""Ports of this machine that stay free until whoever asked for them listens there.

A port that the kernel picks (`bind` to port 0) and that is closed again may become that of any outgoing connection
before the server that it was meant for starts. These lie below what Linux gives to connections by default (32,768 to
60,999, ip(7)) and what Kubernetes gives to Services (30,000 to 32,767), so that only those who ask here use them.
"""

from __future__ import annotations

import errno
import itertools
import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

LOOPBACK = "127.0.0.1"
RANGE = range(12_000, 30_000)

_first = os.getpid() * 97 % len(RANGE)  # processes that start together look at different ones
_following: Iterator[int] = itertools.cycle([*RANGE[_first:], *RANGE[:_first]])


def free_port() -> int:
    """A port that nothing listens on, and that no other process is given while this one lives.

    Raises OSError if all are taken.
    """
    for port in itertools.islice(_following, len(RANGE)):
        if not _is_taken(port) and _claim(port):
            return port
    raise OSError(errno.EADDRINUSE, f"no port is free from {RANGE.start} to {RANGE.stop - 1}")


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return True
    return False


def _claim(port: int) -> bool:
    """Whether it is ours now: a name without a file, which the kernel gives one process and takes back as it ends."""
    claim = socket.socket(socket.AF_UNIX)
    try:
        claim.bind(f"\0weft-port-{port}")
    except OSError:
        claim.close()
        return False
    claim.detach()  # stays open, and nobody closes it
    return True
