"""Ports for servers of tests: nobody else's, from when they are asked for until the process that asked has ended."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.cluster import ports
from e2e.cluster.ports import LOOPBACK, free_port

ASKS = """
import itertools, sys
from e2e.cluster import ports
ports._following = itertools.cycle(range({first}, {first} + 20))
print(*[ports.free_port() for _ in range(8)], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def nearby(monkeypatch: pytest.MonkeyPatch) -> int:
    """Where this process looks next, known and with nothing before it."""
    first = free_port() + 1
    monkeypatch.setattr(ports, "_following", itertools.cycle(range(first, first + 20)))
    return first


def test_no_connection_is_given_one() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert lowest >= ports.RANGE.stop
    assert {free_port() in ports.RANGE for _ in range(50)} == {True}


def test_two_processes_never_get_the_same(nearby: int) -> None:
    asks = [sys.executable, "-c", ASKS.format(first=nearby)]
    with subprocess.Popen(asks, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        theirs = {int(each) for each in other.stdout.readline().split()}
        ours = {free_port() for _ in range(8)}
        other.stdin.close()
    assert (len(theirs), len(ours), theirs & ours) == (8, 8, set())


def test_what_somebody_listens_on_is_passed_over(nearby: int) -> None:
    with socket.create_server((LOOPBACK, nearby)):
        assert free_port() > nearby


def test_none_left_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    only = free_port()
    monkeypatch.setattr(ports, "_following", itertools.cycle([only]))
    with pytest.raises(OSError, match="no port is free from 12000 to 29999"):
        free_port()
